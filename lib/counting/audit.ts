/** Counted live bytes against what each allocator says of itself. */
import { readdirSync } from 'node:fs';
import os from 'node:os';
import type { Mechanism, NativeAllocator, NativeBinding } from '../native';
import { countingBinding } from './start';

/** One allocator's books, compared. Sizes in bytes. */
export interface AuditEntry {
  name: string;
  mechanism: Mechanism;
  /** Counted live bytes, read right before and right after the allocator was asked. */
  live: { before: number; after: number };
  /**
   * What modules allocated while they were loaded, before their slots could be written
   * (`coverage().uncountedLoads`, the small ones too): the oracle knows of it, live does not.
   */
  uncounted: number;
  /** What the allocator says is in use; `undefined` when it has no statistics. */
  oracle: number | undefined;
  /** Oracle less counted; 0 when the oracle lies between the two readings of live. */
  difference: number | undefined;
  /** How far they may differ and the count still be right. */
  bound: number | undefined;
  /** `undefined` when there is nothing to compare with. */
  holds: boolean | undefined;
  /** What blurs the comparison, and by how much. */
  note: string;
}

const KIB = 1024;

/** glibc keeps up to 7 chunks of each of 64 sizes up to 1040 bytes per thread, and calls them used. */
const GLIBC_CACHE_PER_THREAD = 7 * 64 * 544;
const GLIBC_BOUND = 16 * KIB;
const GLIBC_PER_ARENA = 4 * KIB;
/** glibc makes no more, and keeps them when the threads end that they were made for. */
const GLIBC_ARENAS_PER_CORE = 8;
const STATISTICS_BOUND = 64 * KIB;
/** jemalloc gives each block that its profiler samples pages of its own. */
const JEMALLOC_SAMPLED_BLOCK = 16 * KIB;

/**
 * Asks each counted allocator what is in use and compares. Takes the allocators' locks: micro- to
 * milliseconds, so for tests and diagnosis, not for a timer. Empty while nothing is counted. While other
 * threads allocate, a block in flight is in one of the two numbers only: ask again, a miscount stays.
 */
export function audit(): AuditEntry[] {
  const binding = countingBinding();
  if (binding === undefined) return [];
  binding.catchUp();
  return binding.allocators().map((allocator) => compare(binding, allocator));
}

function compare(binding: NativeBinding, allocator: NativeAllocator): AuditEntry {
  const { id, name, mechanism } = allocator;
  const read = () => (binding.allocators()[id] ?? allocator).live;
  // The first call may allocate what it needs itself; the second is measured.
  binding.inUse(id);
  const before = read();
  const oracle = binding.inUse(id);
  const live = { before, after: read() };
  // Modules are loaded from the process malloc; an allocator inside one is met with what it holds.
  const uncounted = id === 0 && mechanism !== 'stats' ? binding.uncountedTotal() : 0;
  const entry = { name, mechanism, live, uncounted, oracle };
  if (oracle === undefined || mechanism === 'none') {
    const note = mechanism === 'none' ? allocator.note : 'this allocator has no statistics';
    return { ...entry, difference: undefined, bound: undefined, holds: undefined, note };
  }
  const difference = distance(oracle, live);
  const { bound, note } = boundOf(binding, allocator);
  // With or without it: each load adds what other threads did meanwhile to that estimate.
  const holds = [oracle, oracle - uncounted].some(
    (used) => Math.abs(distance(used, live)) <= bound,
  );
  return { ...entry, difference, bound, holds, note };
}

function distance(oracle: number, live: { before: number; after: number }): number {
  const low = Math.min(live.before, live.after);
  const high = Math.max(live.before, live.after);
  if (oracle < low) return oracle - low;
  return oracle > high ? oracle - high : 0;
}

interface Bound {
  bound: number;
  note: string;
}

function boundOf(binding: NativeBinding, allocator: NativeAllocator): Bound {
  if (allocator.name.includes('(glibc)')) return glibcBound();
  if (allocator.mechanism === 'stats') {
    // Asking is sampling: what was counted before is older, what is counted after is the answer.
    return { bound: STATISTICS_BOUND, note: 'counted by these statistics: it cannot disagree' };
  }
  const between = binding.profiles(allocator.id);
  if (between === undefined) return { bound: STATISTICS_BOUND, note: '' };
  // One block in so many bytes is sampled, by chance: twice as many are seldom seen.
  const sampled = 2 * (1 + Math.max(allocator.live, 0) / between);
  const blur = Math.ceil(sampled) * JEMALLOC_SAMPLED_BLOCK;
  return {
    bound: STATISTICS_BOUND + blur,
    note: `its heap profiler (opt.prof) blurs it by up to ${blur}: sampled blocks weigh pages there`,
  };
}

function glibcBound(): Bound {
  const arenas = GLIBC_ARENAS_PER_CORE * os.cpus().length;
  const bound = GLIBC_BOUND + GLIBC_PER_ARENA * arenas;
  if (cachesAreOff()) return { bound, note: '' };
  const threads = countThreads();
  const blur = GLIBC_CACHE_PER_THREAD * threads;
  return {
    bound: bound + blur,
    note: `thread caches of ${threads} threads blur it by up to ${blur}`,
  };
}

function countThreads(): number {
  try {
    return readdirSync('/proc/self/task').length;
  } catch {
    return 1;
  }
}

function cachesAreOff(): boolean {
  return /glibc\.malloc\.tcache_count=0(:|$)/.test(process.env.GLIBC_TUNABLES ?? '');
}
