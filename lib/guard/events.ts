import type { RefusalSource } from '../errors';
import type { LeakReport } from '../pool';
import type { ReclaimReport } from '../reclaim';
import type { Pressure } from './victim';

/** Something in the setup that is probably not meant. */
export interface GuardWarning {
  readonly code: /** The limit is over what the container or the machine has. */
    | 'ERR_OOM_GUARD_LIMIT_TOO_HIGH'
    /** `'auto'` without a container: memory is tracked, nothing is enforced. */
    | 'ERR_OOM_GUARD_TRACK_ONLY'
    /** Allocators are not counted here. */
    | 'ERR_OOM_GUARD_UNAVAILABLE'
    /** V8 may grow its heap over the limit. */
    | 'ERR_OOM_GUARD_HEAP_LIMIT'
    /** A `victim` or reclaim function has thrown. */
    | 'ERR_OOM_GUARD_CALLBACK';
  readonly message: string;
}

/** RSS is over the limit while usage is under it: most likely slack. Nothing is enforced on it. */
export interface GuardAdvisory {
  /** Bytes. */
  readonly rss: number;
  /** Bytes. */
  readonly usage: number;
  /** Bytes. */
  readonly limit: number;
  readonly message: string;
}

/** A request that was refused or, with `mode: 'observe'`, would have been. */
export interface GuardRefusal {
  readonly source: RefusalSource;
  readonly consumer: string;
  /** Bytes. */
  readonly requested: number;
  /** False in `observe` mode: it was granted. */
  readonly enforced: boolean;
  /**
   * The least limit of the check that said no that would have let it pass, bytes: of what the error
   * names as its limit, so for `'heap'` the share of V8's own and for `'container'` less the margin.
   */
  readonly wouldPassAt: number;
}

/** A task was shed, or in `observe` mode would have been. */
export interface GuardTrip {
  /** Its name. */
  readonly task: string;
  readonly id: number;
  /** What it had reserved, bytes. */
  readonly reserved: number;
  /** `'usage'`: over the breaker's limit; `'heap'`: V8's own heap was nearly full. */
  readonly source: Pressure['source'];
  /** Bytes. */
  readonly usage: number;
  /** Bytes. */
  readonly limit: number;
  /** False in `observe` mode: the task goes on. */
  readonly enforced: boolean;
}

/** Memory is under the low-water mark again after a trip. */
export interface GuardRecovery extends Pressure {
  /** Since the first trip, ms. */
  readonly ms: number;
}

/** The events of a guard and their arguments. */
export interface GuardEvents {
  warning: [GuardWarning];
  advisory: [GuardAdvisory];
  refuse: [GuardRefusal];
  trip: [GuardTrip];
  /** Memory stays short, and no task that holds any is running: nothing is shed. Once an episode. */
  noVictim: [Pressure];
  recover: [GuardRecovery];
  reclaim: [ReclaimReport];
  /** A reservation was dropped without being closed. Without a listener: a process warning. */
  leak: [LeakReport];
}
