import type { RefusalSource } from '../errors';
import type { LeakReport } from '../pool';
import type { ReclaimReport } from '../reclaim';

/** Something in the setup that is probably not meant. */
export interface GuardWarning {
  readonly code: /** The limit is over what the container or the machine has. */
    | 'ERR_OOM_GUARD_LIMIT_TOO_HIGH'
    /** `'auto'` without a container: memory is tracked, nothing is enforced. */
    | 'ERR_OOM_GUARD_TRACK_ONLY'
    /** Allocators are not counted here. */
    | 'ERR_OOM_GUARD_UNAVAILABLE';
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
}

/** The breaker has tripped for a task. */
export interface GuardTrip {
  readonly task: string;
  /** Bytes. */
  readonly usage: number;
  /** Bytes. */
  readonly limit: number;
  /** False in `observe` mode: the task goes on. */
  readonly enforced: boolean;
}

/** The events of a guard and their arguments. */
export interface GuardEvents {
  warning: [GuardWarning];
  advisory: [GuardAdvisory];
  refuse: [GuardRefusal];
  trip: [GuardTrip];
  reclaim: [ReclaimReport];
  /** A reservation was dropped without being closed. Without a listener: a process warning. */
  leak: [LeakReport];
}
