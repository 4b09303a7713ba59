import type { RefusalSource } from '../errors';

/** What a guard has seen and done since it was made. Sizes in bytes. */
export interface GuardStats {
  /**
   * Requests refused, by the check that said no; in `observe` mode those that would have been, or
   * would have needed room to be made first.
   */
  readonly refusals: Readonly<Record<RefusalSource, number>>;
  /** Tasks that were shed or, in `observe` mode, would have been. */
  readonly trips: number;
  /** Tasks that were shed. */
  readonly shed: number;
  /** Times that nobody could be shed although memory stayed short. */
  readonly noVictim: number;
  /** Spill callbacks that ended without throwing. */
  readonly spills: number;
  /** Spill callbacks that threw. */
  readonly spillFailures: number;
  /** By how much spilling shrank reservations. */
  readonly spilledBytes: number;
  /** Reclaims that ran. */
  readonly reclaims: Readonly<{ cache: number; slack: number; garbage: number }>;
  /** Reserved now, overcommit included. */
  readonly reserved: number;
  /** The highest usage that was read. */
  readonly peakUsage: number;
  /** The highest RSS that was sampled. */
  readonly peakRss: number;
  /** Tasks that run now. */
  readonly tasks: number;
}

/** The counters behind {@link GuardStats}. */
export class GuardCounters {
  readonly refusals: Record<RefusalSource, number> = { pool: 0, usage: 0, heap: 0, container: 0 };
  readonly reclaims = { cache: 0, slack: 0, garbage: 0 };
  trips = 0;
  shed = 0;
  noVictim = 0;
  spills = 0;
  spillFailures = 0;
  spilledBytes = 0;
  peakUsage = 0;
  peakRss = 0;

  snapshot(now: { reserved: number; tasks: number }): GuardStats {
    const { trips, shed, noVictim, spills, spillFailures, spilledBytes, peakUsage, peakRss } = this;
    return {
      refusals: { ...this.refusals },
      trips,
      shed,
      noVictim,
      spills,
      spillFailures,
      spilledBytes,
      reclaims: { ...this.reclaims },
      reserved: now.reserved,
      peakUsage,
      peakRss,
      tasks: now.tasks,
    };
  }
}
