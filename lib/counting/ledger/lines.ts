/** From owners of memory to the ledger's lines. They add up to the byte. */
import type { JemallocStatistics, NativeAllocator } from '../../native';
import type { Classified, Extent } from './classify';

/** What a line is about. `live+slack` stands for both while nothing is counted. */
export type LedgerCategory =
  | 'v8'
  | 'wasm'
  | 'live'
  | 'live+slack'
  | 'slack'
  | 'stacks'
  | 'module data'
  | 'files'
  | 'shared'
  | 'kernel'
  | 'oom-guard'
  | 'unexplained';

/** One part of resident memory. */
export interface LedgerLine {
  category: LedgerCategory;
  name: string;
  /** Resident bytes. */
  bytes: number;
  note: string;
}

/** An allocator with what it says of itself, if it says anything. */
export interface LedgerAllocator extends Pick<NativeAllocator, 'name' | 'mechanism' | 'live'> {
  statistics: JemallocStatistics | undefined;
}

export interface LedgerInputs {
  classified: Classified;
  /** Empty while nothing is counted. */
  allocators: readonly LedgerAllocator[];
  /** V8's spaces of the calling isolate: name and resident bytes as V8 estimates them. */
  spaces: readonly { name: string; resident: number }[];
  threads: number;
  /** Whether glibc provides malloc. */
  glibc: boolean;
  /** Why live is not told from slack; empty when it is. */
  uncounted: string;
}

interface Share {
  allocator: LedgerAllocator;
  /** Resident bytes. */
  share: number;
}

const NAMED_FILES = 10;
/** Process mallocs that map memory without reserving swap for it. */
const DO_NOT_RESERVE = /jemalloc|mimalloc/;

/** The lines, and how much of live was never written to and so is not resident, bytes. */
export function makeLines(inputs: LedgerInputs): { lines: LedgerLine[]; untouched: number } {
  const { classified } = inputs;
  const allocators = allocatorLines(inputs);
  const lines = [
    ...v8Lines(classified, inputs.spaces),
    ...allocators.lines,
    ...plain('stacks', 'thread stacks', classified.stacks, stackNote(inputs)),
    ...plain('module data', 'module data', classified.moduleData, 'written, of all images'),
    ...fileLines(classified.files),
    ...plain('shared', 'shared memory', classified.shared, ''),
    ...plain('kernel', 'kernel mappings', classified.kernel, 'vdso, io_uring'),
    ...plain('oom-guard', 'oom-guard', classified.own, 'its tables'),
    ...allocators.unexplained,
  ];
  return { lines, untouched: allocators.untouched };
}

function plain(
  category: LedgerCategory,
  name: string,
  { resident }: Extent,
  note: string,
): LedgerLine[] {
  return resident > 0 ? [{ category, name, bytes: resident, note }] : [];
}

function stackNote({ classified, threads }: LedgerInputs): string {
  return `${classified.stackCount} stacks, ${threads} threads`;
}

/**
 * How much of V8's memory is resident is known exactly; how it is spread over the spaces is V8's own
 * estimate, by each page's highest used address. Where that is too high, the lines are scaled.
 */
function v8Lines({ v8, wasm, abseil }: Classified, spaces: LedgerInputs['spaces']): LedgerLine[] {
  const estimate = spaces.reduce((sum, space) => sum + space.resident, 0);
  const scale = estimate > v8.resident ? v8.resident / estimate : 1;
  const scaled = `V8's estimate × ${scale.toFixed(3)}`;
  const lines: LedgerLine[] = spaces
    .filter((space) => space.resident > 0)
    .map(({ name, resident }) => ({
      category: 'v8',
      name: `V8 ${name}`,
      bytes: Math.floor(resident * scale),
      note: scale < 1 ? scaled : '',
    }));
  const other = v8.resident - lines.reduce((sum, line) => sum + line.bytes, 0);
  const last = lines.at(-1);
  if (scale < 1 && last !== undefined) {
    last.bytes += other; // some bytes that rounding left
  } else if (other > 0) {
    const note = 'other isolates, tables';
    lines.push({ category: 'v8', name: 'V8, other', bytes: other, note });
  }
  return [
    ...lines,
    ...plain('v8', 'V8, Abseil arenas', abseil, 'order of locks'),
    ...plain('wasm', 'WebAssembly memory', wasm, ''),
  ];
}

function fileLines(files: Classified['files']): LedgerLine[] {
  const resident = [...files]
    .map(([name, extent]) => ({ name, bytes: extent.resident }))
    .filter(({ bytes }) => bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
  const lines: LedgerLine[] = resident
    .slice(0, NAMED_FILES)
    .map((file) => ({ category: 'files', ...file, note: '' }));
  const others = resident.slice(NAMED_FILES);
  if (others.length > 0) {
    const bytes = others.reduce((sum, file) => sum + file.bytes, 0);
    const name = `${others.length} more file${others.length === 1 ? '' : 's'}`;
    lines.push({ category: 'files', name, bytes, note: '' });
  }
  return lines;
}

function allocatorLines(inputs: LedgerInputs) {
  const { classified, allocators, glibc, uncounted } = inputs;
  const lines: LedgerLine[] = [];
  let untouched = 0;
  const add = (name: string, live: number, resident: number, note = '') => {
    lines.push({ category: 'live', name, bytes: live, note });
    lines.push({ category: 'slack', name, bytes: resident - live, note: '' });
  };

  const isProcessMalloc = ({ name }: LedgerAllocator) => name.startsWith('malloc (');
  const process = allocators.find(isProcessMalloc);
  const { arenas, chunks } = classified;
  const heap = arenas.resident + chunks.resident;
  if (process !== undefined && glibc) {
    const split = splitGlibc(process.live, arenas, chunks);
    untouched += split.untouched;
    add(process.name, split.live, heap, untouchedNote(split.untouched));
  } else if (heap > 0) {
    lines.push({ category: 'live+slack', name: 'malloc (glibc)', bytes: heap, note: uncounted });
  }

  // tcmalloc and musl reserve what they map, and extend [heap]; theirs is the only malloc then.
  const reserving = process !== undefined && !glibc && !DO_NOT_RESERVE.test(process.name);
  const rest = classified.rest.reduce((sum, { resident }) => sum + resident, 0);
  const give = ({ allocator, share }: Share) => {
    if (share === 0 && allocator.live <= 0) return;
    const live = Math.min(Math.max(allocator.live, 0), share);
    const missing = allocator.mechanism === 'pages' ? 0 : Math.max(allocator.live - share, 0);
    untouched += missing;
    add(allocator.name, live, share, untouchedNote(missing));
  };
  if (reserving) give({ allocator: process, share: rest });
  const others = allocators.filter((allocator) => allocator !== process || !(glibc || reserving));
  const shares = apportion(classified.unreserved.resident, others);
  for (const share of shares) give(share);
  const left = shares.reduce((sum, { share }) => sum - share, classified.unreserved.resident);

  const unexplained: LedgerLine[] = [];
  const addUnexplained = (name: string, bytes: number, note: string) => {
    unexplained.push({ category: 'unexplained', name, bytes, note });
  };
  if (uncounted !== '' && left > 0) addUnexplained('not attributed', left, uncounted);
  addUnexplained(
    'unexplained',
    (uncounted === '' ? left : 0) + (reserving ? 0 : rest),
    reserving ? '' : restNote(classified.rest),
  );
  return { lines, unexplained, untouched };
}

/** A mapped block is live as a whole, so what of it is not resident was never written to. */
function splitGlibc(
  counted: number,
  arenas: Extent,
  chunks: Extent,
): { live: number; untouched: number } {
  const live = Math.max(counted, 0);
  const inChunks = Math.min(live, chunks.mapped);
  const chunksUntouched = Math.max(inChunks - chunks.resident, 0);
  const inArenas = live - inChunks;
  const arenasUntouched = Math.max(inArenas - arenas.resident, 0);
  const untouched = chunksUntouched + arenasUntouched;
  return { live: live - untouched, untouched };
}

function untouchedNote(bytes: number): string {
  return bytes > 0 ? 'and more, untouched' : '';
}

/**
 * Splits anonymous memory among the allocators that may own it. What is known to be resident (`pages`)
 * is given as it is. The rest goes to the others by what their own statistics call resident, or by
 * what is live in them, and no allocator gets more than it has mapped.
 */
function apportion(pool: number, allocators: readonly LedgerAllocator[]): Share[] {
  let left = pool;
  const give = (allocator: LedgerAllocator, wanted: number): Share => {
    const share = Math.min(Math.max(Math.floor(wanted), 0), left);
    left -= share;
    return { allocator, share };
  };
  const sampled = allocators.filter(({ mechanism }) => mechanism === 'pages');
  const shares = sampled.map((allocator) => give(allocator, allocator.live));
  const rest = allocators.filter(({ mechanism }) => mechanism !== 'pages');
  const weigh = ({ statistics, live }: LedgerAllocator) =>
    statistics?.resident ?? Math.max(live, 0);
  const total = rest.reduce((sum, allocator) => sum + weigh(allocator), 0);
  const divisible = left;
  rest.forEach((allocator, index) => {
    const last = index === rest.length - 1;
    const part = last ? left : total === 0 ? 0 : (divisible * weigh(allocator)) / total;
    const { statistics } = allocator;
    const most = statistics ? statistics.mapped + statistics.retained : Number.POSITIVE_INFINITY;
    shares.push(give(allocator, Math.min(part, most)));
  });
  return shares;
}

function restNote(rest: Classified['rest']): string {
  const largest = rest[0];
  if (largest === undefined || largest.resident === 0) return '';
  return `largest at ${largest.range.start.toString(16)}`;
}
