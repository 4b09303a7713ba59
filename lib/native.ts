/**
 * The typed boundary to the addon: loads it, or says why it cannot be loaded.
 * Nothing happens in the process before `start()` is called on the binding.
 */
import path from 'node:path';
import nodeGypBuild from 'node-gyp-build';

/** How an allocator is counted. */
export type Mechanism = 'callsites' | 'hooks' | 'stats' | 'pages' | 'none';

/** One heap of this process as the addon reports it. All sizes in bytes. */
export interface NativeAllocator {
  id: number;
  /** Short name, such as `malloc (glibc)` or `jemalloc (duckdb_je_)`. */
  name: string;
  /** Path of the image that provides it. */
  owner: string;
  mechanism: Mechanism;
  /** In use when counting began, bytes. */
  baseline: number;
  /** False when the allocator could not tell what was in use at start (the baseline is then 0). */
  baselineKnown: boolean;
  /** Handed out since counting began, bytes, monotonic. */
  allocated: number;
  /** Given back since counting began, bytes, monotonic. */
  freed: number;
  /** baseline + allocated − freed, unclamped, bytes. */
  live: number;
  /** Why the mechanism is what it is, or what is missing; empty when nothing is to be said. */
  note: string;
}

/** One import slot that was left as it was. */
export interface NativeSkippedSlot {
  name: string;
  reason: string;
}

/** One loaded image as the patcher saw it. */
export interface NativeImage {
  path: string;
  patched: number;
  skipped: NativeSkippedSlot[];
  note: string;
}
