/** What is counted and what is not, with the reason. */
import path from 'node:path';
import { formatSize } from '../format';
import { loadNative, type Mechanism, type NativeBinding, type NativeImage } from '../native';
import type { UncountedLoad } from './modules';

/** One allocator and how it is counted. Sizes in bytes. */
export interface AllocatorCoverage {
  name: string;
  /** Path of the image that provides it. */
  owner: string;
  mechanism: Mechanism;
  /** In use when counting began. */
  baseline: number;
  /** False when the allocator could not tell: what it held then is missing from live. */
  baselineKnown: boolean;
  /** baseline + allocated − freed; below zero when more was freed than was seen allocated. */
  live: number;
  note: string;
}

/** One loaded image (executable or library). */
export interface ImageCoverage {
  path: string;
  /** Import slots that lead to the counting wrappers. */
  patched: number;
  /** Slots left as they were. Those "counted through the executable" lose nothing. */
  skipped: { name: string; reason: string }[];
  note: string;
}

/** Something that is not counted. */
export interface NotCovered {
  what: string;
  reason: string;
}

export interface Coverage {
  /** False where nothing can be counted; `reason` then says why. */
  available: boolean;
  reason?: string;
  allocators: AllocatorCoverage[];
  images: ImageCoverage[];
  /**
   * What modules allocated while JavaScript loaded them, before their slots could be written; in all
   * isolates that count. An estimate: see {@link UncountedLoad}.
   */
  uncountedLoads: readonly UncountedLoad[];
  notCovered: NotCovered[];
}

/** Counted all the same: calls arrive at the executable's own slot. */
const HARMLESS = new Set(['counted through the executable', 'weak and undefined']);

/** Looks for new images and tells what is counted. Empty lists before counting has started. */
export function readCoverage(): Coverage {
  const native = loadNative();
  if (!native.available) {
    return {
      available: false,
      reason: native.reason,
      allocators: [],
      images: [],
      uncountedLoads: [],
      notCovered: [{ what: 'native memory', reason: native.reason }],
    };
  }
  native.binding.catchUp();
  const allocators = native.binding
    .allocators()
    .map(({ name, owner, mechanism, baseline, baselineKnown, live, note }) => ({
      name,
      owner: owner || process.execPath,
      mechanism,
      baseline,
      baselineKnown,
      live,
      note,
    }));
  const { images, gaps } = readImages(native.binding);
  const loads = native.binding.uncountedLoads();
  return {
    available: true,
    allocators,
    images,
    uncountedLoads: loads,
    notCovered: [
      ...findAllocatorGaps(allocators),
      ...gaps,
      ...native.binding.gaps(),
      ...findLoadGaps(loads),
    ],
  };
}

interface Images {
  generation: number;
  images: ImageCoverage[];
  gaps: NotCovered[];
}

let lastImages: Images | undefined;

/** There may be a hundred of them, and they seldom change. */
function readImages(binding: NativeBinding): Images {
  const generation = binding.generation();
  if (lastImages?.generation !== generation) {
    const images = binding.images().map(describeImage);
    lastImages = { generation, images, gaps: findImageGaps(images) };
  }
  return lastImages;
}

function describeImage(image: NativeImage): ImageCoverage {
  return { ...image, path: image.path || process.execPath };
}

function findAllocatorGaps(allocators: AllocatorCoverage[]): NotCovered[] {
  const gaps: NotCovered[] = [];
  for (const allocator of allocators) {
    if (allocator.mechanism === 'none') {
      gaps.push({ what: allocator.name, reason: allocator.note });
    } else if (!allocator.baselineKnown) {
      gaps.push({
        what: `${allocator.name}, before counting began`,
        reason: 'it cannot tell what was in use',
      });
    }
  }
  return gaps;
}

function findLoadGaps(loads: UncountedLoad[]): NotCovered[] {
  return loads.map(({ path: file, bytes }) => ({
    what: `${path.basename(file)}, ${formatSize(bytes)}`,
    reason: 'allocated while it was loaded',
  }));
}

function findImageGaps(images: ImageCoverage[]): NotCovered[] {
  const gaps: NotCovered[] = [];
  const callsites = images.some((image) => image.patched > 0);
  for (const image of images) {
    const lost = image.skipped.filter((slot) => !HARMLESS.has(slot.reason));
    const what = path.basename(image.path);
    if (callsites && image.path === process.execPath && image.patched === 0) {
      gaps.push({ what, reason: 'it imports no malloc: its own allocator is inside' });
    }
    if (image.note !== '') gaps.push({ what, reason: image.note });
    for (const reason of new Set(lost.map((slot) => slot.reason))) {
      const names = lost.filter((slot) => slot.reason === reason).map((slot) => slot.name);
      gaps.push({ what: `${what}: ${names.join(', ')}`, reason });
    }
  }
  return gaps;
}
