/** Gives every resident page of this process to exactly one owner. */
import { findAbseilArena } from './abseil';
import { findArenaHeaps, findMappedChunks } from './glibc-heap';
import { findImages } from './images';
import type { OwnMemory } from './own-memory';
import { gaps, intersect, type Range } from './ranges';
import type { Mapping } from './smaps';
import { findStacks } from './stacks';

/** One owner's mapped and resident bytes. */
export interface Extent {
  mapped: number;
  resident: number;
}

/** Every resident byte is in exactly one of these. */
export interface Classified {
  v8: Extent;
  wasm: Extent;
  /** Abseil's own arenas, in the Node executable. */
  abseil: Extent;
  /** glibc's malloc: `[heap]` and further arenas. */
  arenas: Extent;
  /** glibc's malloc: blocks mapped one by one. */
  chunks: Extent;
  /**
   * Anonymous and mapped without reserving swap for it, as jemalloc and mimalloc do, and neither V8's
   * nor an arena of glibc.
   */
  unreserved: Extent;
  stacks: Extent;
  stackCount: number;
  moduleData: Extent;
  /** Pages as they are in a file, by its path. */
  files: Map<string, Extent>;
  shared: Extent;
  /** The vdso, rings of io_uring and the like. */
  kernel: Extent;
  /** oom-guard's own tables. */
  own: Extent;
  /** Anonymous memory that none of the above took, the largest piece first. */
  rest: { range: Range; resident: number }[];
  /** Of the rest, resident bytes that were unmapped since the mappings were listed. */
  vanished: number;
}

export interface ClassifyOptions {
  pageSize: number;
  memory: OwnMemory;
  /** Ids of the process's threads. */
  threads: readonly string[];
  /** Whether glibc provides malloc: `[heap]` is then its own. */
  glibc: boolean;
  /** Where oom-guard's tables lie. */
  own: readonly Range[];
}

/** WebAssembly memories have this much inaccessible memory behind them, bytes; nothing else has. */
const WASM_GUARD = 4 * 1024 ** 3;
const SHARED_PATHS = /^(\/dev\/shm\/|\/dev\/zero|\/memfd:|\/SYSV|\[anon_shmem)/;

/** `mappings` in the order of their addresses, as the kernel lists them. */
export function classify(mappings: readonly Mapping[], options: ClassifyOptions): Classified {
  const { pageSize, memory, threads } = options;
  const none = (): Extent => ({ mapped: 0, resident: 0 });
  const into: Classified = {
    v8: none(),
    wasm: none(),
    abseil: none(),
    arenas: none(),
    chunks: none(),
    unreserved: none(),
    stacks: none(),
    stackCount: 0,
    moduleData: none(),
    files: new Map(),
    shared: none(),
    kernel: none(),
    own: none(),
    rest: [],
    vanished: 0,
  };
  const images = findImages(mappings, pageSize, memory);
  const stacks = findStacks(mappings, threads, memory);
  into.stackCount = stacks.size;
  // With overcommit off (vm.overcommit_memory = 2) the kernel does not mark unreserved mappings.
  const marksUnreserved = mappings.some(({ flags }) => flags.includes('nr'));

  mappings.forEach((mapping, index) => {
    if (isFile(mapping)) {
      addFile(mapping, into);
      return;
    }
    const whole = stacks.has(mapping)
      ? into.stacks
      : ownerOfWhole(mapping, mappings[index + 1], into);
    if (whole === undefined) {
      splitAnonymous(mapping, images, marksUnreserved, options, into);
    } else {
      whole.mapped += mapping.end - mapping.start;
      whole.resident += mapping.rss;
    }
  });
  into.rest.sort((a, b) => b.resident - a.resident);
  return into;
}

function isShared({ permissions, path }: Mapping): boolean {
  return permissions[3] === 's' && (path === '' || SHARED_PATHS.test(path));
}

function isFile(mapping: Mapping): boolean {
  return mapping.path.startsWith('/') && !isShared(mapping);
}

function addFile({ path, start, end, rss, anonymous }: Mapping, into: Classified): void {
  // Pages that were written to are this process's own.
  into.moduleData.resident += anonymous;
  const file = into.files.get(path) ?? { mapped: 0, resident: 0 };
  into.files.set(path, file);
  file.mapped += end - start;
  file.resident += rss - anonymous;
}

/** Who owns all of a mapping, where its name or flags tell; `undefined` for the others. */
function ownerOfWhole(
  mapping: Mapping,
  next: Mapping | undefined,
  into: Classified,
): Extent | undefined {
  const { path, flags } = mapping;
  if (isShared(mapping)) return into.shared;
  if (path !== '' && path !== '[heap]' && !path.startsWith('[anon:')) return into.kernel;
  if (!flags.includes('dc')) return undefined;
  return isWasm(mapping, next) ? into.wasm : into.v8;
}

/** V8 asks that its pages are not copied on fork; of its mappings only wasm has such a guard. */
function isWasm(mapping: Mapping, next: Mapping | undefined): boolean {
  return (
    mapping.permissions.startsWith('rw') &&
    next !== undefined &&
    next.start === mapping.end &&
    next.permissions === '---p' &&
    next.end - next.start >= WASM_GUARD
  );
}

/**
 * The kernel joins neighbouring anonymous mappings of unlike owners. Those that an owner is told for
 * are cut out one after the other; the page map says how much of each piece is resident.
 */
function splitAnonymous(
  mapping: Mapping,
  images: readonly Range[],
  marksUnreserved: boolean,
  { pageSize, memory, glibc, own }: ClassifyOptions,
  into: Classified,
): void {
  const isHeap = mapping.path === '[heap]';
  const isUnreserved = marksUnreserved ? mapping.flags.includes('nr') : !isHeap;
  const isReserved = marksUnreserved ? !mapping.flags.includes('nr') : true;
  let left: Range[] = [{ start: mapping.start, end: mapping.end }];
  let resident = mapping.rss;

  const take = (parts: Range[], add: (part: Range, resident: number) => void) => {
    parts.sort((a, b) => a.start - b.start);
    left = left.flatMap((range) =>
      gaps(
        range,
        parts.filter((part) => intersect(part, range) !== undefined),
      ),
    );
    for (const part of parts) {
      // A range that is all there is needs no look at the page map.
      const all = left.length === 0 && part === parts.at(-1);
      const found = all ? resident : (memory.resident(part.start, part.end) ?? 0);
      const taken = Math.min(found, resident);
      resident -= taken;
      add(part, taken);
    }
  };
  const to = (extent: Extent) => (part: Range, taken: number) => {
    extent.mapped += part.end - part.start;
    extent.resident += taken;
  };
  const within = (ranges: readonly Range[]) =>
    left.flatMap((range) => ranges.flatMap((other) => intersect(range, other) ?? []));

  take(within(images), to(into.moduleData));
  take(within(own), to(into.own));
  if (mapping.rss > 0 && glibc) {
    if (isHeap) take(left, to(into.arenas));
    if (isUnreserved) {
      take(
        left.flatMap((range) => findArenaHeaps(range, pageSize, memory)),
        to(into.arenas),
      );
    }
    if (isReserved) {
      take(
        left.flatMap((range) => findMappedChunks(range, pageSize, memory)),
        to(into.chunks),
      );
    }
  }
  if (mapping.rss > 0 && isReserved) {
    take(
      left.flatMap((range) => {
        const arena = findAbseilArena(range, memory);
        // It maps whole pages, and what the last block leaves of them is its own too.
        return arena === undefined ? [] : { ...arena, end: roundUp(arena.end, pageSize) };
      }),
      to(into.abseil),
    );
  }
  if (isUnreserved) take(left, to(into.unreserved));
  else {
    take(left, (range, taken) => {
      into.rest.push({ range, resident: taken });
      const isGone = memory.readable && !memory.read(range.start, Buffer.allocUnsafe(1));
      if (isGone) into.vanished += taken;
    });
  }
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}
