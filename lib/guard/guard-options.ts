import type { MemoryBreakerOptions } from '../breaker';
import type { Readings } from '../counting/readings';
import type { MemoryPool, ProcessLedgerOptions, UsageLedger } from '../pool';
import type { Size } from '../sizes';
import type { AdmissionOptions } from './admission-options';
import type { VictimPolicy } from './victim';

/** What a guard does: refuse and shed, only count what it would have, or, without a limit, track. */
export type GuardMode = 'enforce' | 'observe' | 'track';

/** Options of `createMemoryGuard`. */
export interface MemoryGuardOptions {
  /**
   * What usage is held to: bytes, text such as `'2GiB'`, a percentage of the container's limit (of
   * the machine's memory outside a container) or, the default, `'auto'`: the container's limit less
   * what other processes in it hold, what is not counted of this one, and `containerMargin`, computed
   * again as these move. Without a container `'auto'` means no limit: memory is tracked, nothing is
   * enforced.
   */
  limit?: Size | undefined;
  /**
   * Usage over which a task is shed: bytes, text or a percentage as for `limit`, never less than that.
   * Between the two lies the room that a spill may take. Default the limit; for `'auto'` half the
   * margin more.
   */
  breakerLimit?: Size | undefined;
  /** Who is shed. Default `'largest'`. */
  victim?: VictimPolicy | undefined;
  /** Tasks that have reserved less are spared by `'largest'`. Default 1 % of the limit. */
  victimFloor?: Size | undefined;
  /** For how long nobody else is chosen after a task was shed, ms, 0 or more. Default 500. */
  settleMs?: number | undefined;
  /** Share of V8's heap limit over which a task is shed, over 0 to 1. Default 0.9. */
  heapBreakerRatio?: number | undefined;
  /** `'enforce'`, the default, refuses and sheds; `'observe'` counts what it would have done. */
  mode?: 'enforce' | 'observe' | undefined;
  /**
   * What decides beside real usage, which is checked first. Default a `FairSpillPool` of the
   * limit.
   */
  pool?: MemoryPool | undefined;
  /** Where the numbers come from; default this process, whose counting is then started. */
  readings?: Readings | undefined;
  /** Milliseconds, monotonic. Default `performance.now`. */
  clock?: (() => number) | undefined;
  /** Enforce even where allocators cannot be counted, on V8's and the kernel's numbers alone. */
  allowDegraded?: boolean | undefined;
  /** Share of V8's heap limit that consumers in the heap may fill, over 0 to 1. Default 0.8. */
  heapRatio?: number | undefined;
  /** See `RealUsagePool`. Default 10 % of the container's limit, 16 to 256 MiB. */
  containerMargin?: Size | undefined;
  /** Whether the container's headroom is checked. Default true. */
  containerCheck?: boolean | undefined;
  /** For how long a grant counts beside usage, ms. Default 1000. See `RealUsagePool`. */
  pendingMs?: number | undefined;
  /**
   * Guards of this process, in whichever Worker, that have the same name here share what they have
   * reserved. Default: all guards without a `pool` of their own do, and those with one share with
   * those that have one of the same kind and limit. Usage and pending grants always count for all.
   */
  share?: string | undefined;
  /** How much of the limit is kept for consumers that cannot spill. Default 0. See `RealUsagePool`. */
  unspillableReserve?: Size | undefined;
  /**
   * By how much a consumer may pass the limit while its spill callback runs. Default 10 % of the
   * limit, at most 64 MiB.
   */
  spillExemption?: Size | undefined;
  /** When `guard.admit` lets work start. Default: up to 70 % of the limit, and waiting up to 85 %. */
  admission?: AdmissionOptions | undefined;
  /** When a task is shed. Default: over the limit at 3 checks in a row and for 100 ms. */
  breaker?: Pick<MemoryBreakerOptions, 'checks' | 'holdMs' | 'maxGapMs' | 'lowWater'> | undefined;
}

/** What a guard uses of the process; tests bring their own. */
export interface GuardDependencies {
  /** Starts counting and says whether it works. */
  startCounting: () => { readonly available: boolean; readonly reason?: string | undefined };
  readings: Readings;
  /** What all isolates of the process share; `undefined` where that is not possible. */
  ledger?: ((options: ProcessLedgerOptions) => UsageLedger | undefined) | undefined;
  /** Gives freed memory back to the kernel, off this thread. */
  releaseFreeMemory: () => Promise<unknown>;
  /** Milliseconds, monotonic. */
  clock: () => number;
  /** What the machine has, bytes. */
  totalMemory: () => number;
  /** Starts what keeps the peak of usage, bytes, while no JavaScript runs. Without it, samples do. */
  watch?: (() => { peakUsage(): number; close(): void }) | undefined;
  /** Calls `fn` every `ms` without keeping the process alive; returns what stops it. */
  every: (ms: number, fn: () => void) => () => void;
  /** Calls `fn` in the next turn without keeping the process alive; returns what stops it. */
  later: (fn: () => void) => () => void;
  /** What most of resident memory is beside usage, in words; for the advisory. */
  explainRss?: (() => string) | undefined;
  /** Waits, ms. Default a timer. */
  delay?: ((ms: number) => Promise<unknown>) | undefined;
  /** A major collection. Default the real one. */
  gc?: (() => void) | undefined;
  /** Waits for a turn of the event loop. */
  setTurn?: (() => Promise<unknown>) | undefined;
}
