/** Counted live bytes against what each allocator says of itself. */
import { readdirSync } from 'node:fs';
import os from 'node:os';
import type { Mechanism } from '../native';
import { countingBinding } from './start';

/** One allocator's books, compared. Sizes in bytes. */
export interface AuditEntry {
  name: string;
  mechanism: Mechanism;
  /** Counted live bytes, read right before and right after the allocator was asked. */
  live: { before: number; after: number };
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
const STATISTICS_BOUND = 64 * KIB;

/**
 * Asks each counted allocator what is in use and compares. Takes the allocators' locks: micro- to
 * milliseconds, so for tests and diagnosis, not for a timer. Empty while nothing is counted.
 */
export function audit(): AuditEntry[] {
  const binding = countingBinding();
  if (binding === undefined) return [];
  binding.rescan();
  return binding.allocators().map((allocator) => {
    const read = () => (binding.allocators()[allocator.id] ?? allocator).live;
    // The first call may allocate what it needs itself; the second is measured.
    binding.inUse(allocator.id);
    const before = read();
    const oracle = binding.inUse(allocator.id);
    const live = { before, after: read() };
    const { name, mechanism } = allocator;
    if (oracle === undefined || mechanism === 'none') {
      const note = mechanism === 'none' ? allocator.note : 'this allocator has no statistics';
      return {
        name,
        mechanism,
        live,
        oracle,
        difference: undefined,
        bound: undefined,
        holds: undefined,
        note,
      };
    }
    const difference = distance(oracle, live);
    const { bound, note } = boundOf(name);
    return {
      name,
      mechanism,
      live,
      oracle,
      difference,
      bound,
      holds: Math.abs(difference) <= bound,
      note,
    };
  });
}

function distance(oracle: number, live: { before: number; after: number }): number {
  const low = Math.min(live.before, live.after);
  const high = Math.max(live.before, live.after);
  if (oracle < low) return oracle - low;
  return oracle > high ? oracle - high : 0;
}

function boundOf(name: string): { bound: number; note: string } {
  if (!name.includes('(glibc)')) return { bound: STATISTICS_BOUND, note: '' };
  const threads = countThreads();
  const arenas = Math.min(threads, 8 * os.cpus().length);
  const bound = GLIBC_BOUND + GLIBC_PER_ARENA * arenas;
  if (cachesAreOff()) return { bound, note: '' };
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
