/**
 * What to do when the last run is too recent: `'skip'` does nothing and says so, `'wait'` waits
 * until the next run may start, `'run'` runs at once.
 */
export type WhenLimited = 'skip' | 'wait' | 'run';

/** How a pool asks for a reclaim. */
export interface ReclaimOptions {
  /**
   * Default `'skip'`, which shares a run that is under way. With `'wait'` and `'run'` the outcome is
   * that of a run that began after the call (or, for `'wait'`, after `since`).
   */
  whenLimited?: WhenLimited | undefined;
  /** With `'wait'`: a run that began later than this is recent enough to be shared, ms. */
  since?: number | undefined;
  /**
   * With `'skip'`: how much would have to be given back, bytes. When live bytes or the V8 heap have
   * grown by as much since the last run, that is run again however recent it is. Default: never.
   */
  needed?: number | undefined;
}

/** What a pool needs to know of a reclaim. */
export interface ReclaimOutcome {
  /** Nothing was done because the last run is too recent. */
  readonly suppressed: boolean;
}

/** Gives back what nobody uses. A pool is handed one; it never fetches it. */
export interface Reclaimer {
  /** Makes the allocators give what was freed back to the kernel. */
  releaseSlack(options?: ReclaimOptions): Promise<ReclaimOutcome>;
  /** Collects garbage and lets finalizers run. */
  collectGarbage(options?: ReclaimOptions): Promise<ReclaimOutcome>;
}
