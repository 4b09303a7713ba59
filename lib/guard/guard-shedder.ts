import { MemoryBreaker } from '../breaker';
import type { Readings } from '../counting/readings';
import { checkPositive } from '../numbers';
import { parseSize } from '../sizes';
import { ContainerPressure } from './container-pressure';
import type { GuardLimits } from './guard-limits';
import type { MemoryGuardOptions } from './guard-options';
import { Shedder, type ShedderOptions } from './shedder';
import { checkVictim } from './victim';

const DEFAULT_SETTLE_MS = 500;
const DEFAULT_HEAP_BREAKER_RATIO = 0.9;
const DEFAULT_VICTIM_FLOOR_RATIO = 0.01;

/** What a guard brings along for its shedder: who runs, and what is done with them. */
export type ShedderActions = Omit<
  ShedderOptions,
  'watched' | 'victim' | 'victimFloor' | 'settleMs' | 'urgent'
>;

/** A shedder, and the breaker whose limit moves. */
export interface GuardShedder {
  readonly shedder: Shedder;
  /** Over usage. */
  readonly breaker: MemoryBreaker;
}

/** @throws ArgumentTypeError or ArgumentRangeError for options that are none */
export function makeShedder(
  options: MemoryGuardOptions,
  limits: GuardLimits,
  readings: Readings,
  actions: ShedderActions,
): GuardShedder {
  const { victim = 'largest', settleMs = DEFAULT_SETTLE_MS, heapBreakerRatio } = options;
  checkVictim(victim);
  if (settleMs !== 0) checkPositive('settleMs', settleMs);
  const { clock } = actions;
  const breaker = new MemoryBreaker({
    ...options.breaker,
    limit: limits.breaker ?? Number.MAX_SAFE_INTEGER,
    usage: () => readings.usage(),
    clock,
  });
  const share = checkPositive(
    'heapBreakerRatio',
    heapBreakerRatio ?? DEFAULT_HEAP_BREAKER_RATIO,
    1,
  );
  const heapBreaker = new MemoryBreaker({
    ...options.breaker,
    limit: Math.max(1, Math.floor(readings.heap().limit * share)),
    usage: () => readings.heap().used,
    clock,
  });
  const limit = limits.orWhole;
  const { victimFloor = Math.floor(limit * DEFAULT_VICTIM_FLOOR_RATIO) } = options;
  const container = new ContainerPressure(() => readings.container(), options.containerMargin);
  const shedder = new Shedder({
    ...actions,
    watched: [
      { source: 'usage', breaker },
      { source: 'heap', breaker: heapBreaker },
    ],
    victim,
    victimFloor:
      victimFloor === 0 ? 0 : parseSize(victimFloor, { name: 'victimFloor', percentOf: limit }),
    settleMs,
    urgent: (now) => container.urgent(now),
  });
  return { shedder, breaker };
}
