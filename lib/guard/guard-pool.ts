import type { Readings } from '../counting/readings';
import {
  FairSpillPool,
  type MemoryPool,
  type PoolObserver,
  RealUsagePool,
  type Reclaimer,
  UnboundedMemoryPool,
  type UsageLedger,
} from '../pool';
import { ledgerKey } from '../pool/process-ledger';
import type { GuardDependencies, GuardMode, MemoryGuardOptions } from './guard-options';
import { ObservingPool } from './observing-pool';

/** What the pool of a guard is made of. */
export interface GuardPoolParts {
  readonly mode: GuardMode;
  /** Bytes; `undefined` when memory is only tracked. */
  readonly limit: number | undefined;
  readonly options: MemoryGuardOptions;
  readonly readings: Readings;
  readonly reclaimer: Reclaimer;
  readonly ledger: UsageLedger | undefined;
  readonly observer: PoolObserver;
  readonly dependencies: Pick<GuardDependencies, 'clock' | 'delay'>;
}

/** The pool of a guard, and how its limit is moved. */
export interface GuardPool {
  /** What tasks reserve from. */
  readonly pool: MemoryPool;
  /** The one of them that looks at real usage; `undefined` where there is no limit. */
  readonly real: RealUsagePool | undefined;
  /** Bytes. A pool that the caller has brought along keeps its own. */
  setLimit(bytes: number): void;
}

/** @throws ArgumentTypeError or ArgumentRangeError for options that are none */
export function makeGuardPool(parts: GuardPoolParts): GuardPool {
  const { mode, limit, options, observer, dependencies } = parts;
  const { clock, delay } = dependencies;
  const fair =
    limit === undefined || options.pool !== undefined
      ? undefined
      : new FairSpillPool(limit, { clock });
  const declared = options.pool ?? fair ?? new UnboundedMemoryPool({ clock, observer });
  // Made even where there is no limit, so that a wrong option is found on every machine.
  const real = new RealUsagePool(declared, {
    limit: limit ?? Number.MAX_SAFE_INTEGER,
    readings: parts.readings,
    reclaimer: parts.reclaimer,
    heapRatio: options.heapRatio,
    containerMargin: options.containerMargin,
    containerCheck: options.containerCheck,
    pendingMs: options.pendingMs,
    unspillableReserve: options.unspillableReserve,
    spillExemption: options.spillExemption,
    ledger: parts.ledger,
    delay,
    clock,
    observer,
  });
  if (limit === undefined) {
    return { pool: declared, real: undefined, setLimit: () => undefined };
  }
  return {
    pool: mode === 'observe' ? new ObservingPool(real) : real,
    real,
    setLimit: (bytes) => {
      real.setLimit(bytes);
      fair?.setLimit(bytes);
    },
  };
}

/**
 * Guards that were given no pool of their own share what they have reserved; those that were, with
 * the guards of other isolates that were given one of the same kind and limit. What is only observed
 * takes nothing from what is enforced.
 */
export function shareKey({ share, pool }: MemoryGuardOptions, mode: GuardMode): string {
  const prefix = mode === 'enforce' ? '' : `${mode}/`;
  if (share !== undefined) {
    return `${prefix}named/${share}`;
  }
  // One that is none is refused when it is used.
  return `${prefix}${typeof pool?.requestGrow === 'function' ? ledgerKey(pool) : 'default'}`;
}
