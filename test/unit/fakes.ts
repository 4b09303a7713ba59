import type { ContainerReading, Readings } from '../../lib/counting/readings';
import type { GuardDependencies } from '../../lib/guard/guard-options';
import type { Reclaimer, ReclaimOptions, ReclaimOutcome } from '../../lib/pool';

export const MIB = 2 ** 20;

/** Numbers of a process that does not exist. Settable, and usage is live plus the used heap. */
export class FakeProcess implements Readings {
  now = 0;
  liveBytes = 0;
  heapUsed = 0;
  heapLimit = 1000;
  containerReading: ContainerReading | undefined;
  containerReads = 0;
  rssTotal = 0;
  rssAnon = Number.MAX_SAFE_INTEGER;

  readonly clock = (): number => this.now;

  readonly delay = async (ms: number): Promise<void> => {
    this.now += ms;
  };

  live(): number {
    return this.liveBytes;
  }

  usage(): number {
    return this.liveBytes + this.heapUsed;
  }

  heap(): { used: number; limit: number } {
    return { used: this.heapUsed, limit: this.heapLimit };
  }

  container(): ContainerReading | undefined {
    this.containerReads += 1;
    return this.containerReading;
  }

  rss() {
    return { total: this.rssTotal, anon: this.rssAnon, file: 0, shared: 0 };
  }

  setContainer(limit: number | undefined, anon: number): void {
    this.containerReading = { limit, anon, current: anon, version: 2, path: '/fake' };
  }
}

/** Does what it is told when asked to reclaim, and remembers the order. */
export class FakeReclaimer implements Reclaimer {
  readonly calls: string[] = [];
  suppress: 'slack' | 'garbage' | undefined;
  onSlack: () => void = () => {};
  onGarbage: () => void = () => {};

  async releaseSlack(options: ReclaimOptions = {}): Promise<ReclaimOutcome> {
    return this.#run('slack', options, this.onSlack);
  }

  async collectGarbage(options: ReclaimOptions = {}): Promise<ReclaimOutcome> {
    return this.#run('garbage', options, this.onGarbage);
  }

  #run(
    kind: 'slack' | 'garbage',
    { whenLimited = 'skip' }: ReclaimOptions,
    effect: () => void,
  ): ReclaimOutcome {
    this.calls.push(`${kind}:${whenLimited}`);
    if (this.suppress === kind && whenLimited === 'skip') {
      return { suppressed: true };
    }
    effect();
    return { suppressed: false };
  }
}

/** Everything that is no whole, safe, non-negative number of bytes. */
export const BAD_BYTES: readonly unknown[] = [
  Number.NaN,
  -1,
  1.5,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  2 ** 53,
  '10',
  10n,
  null,
  undefined,
  {},
];

export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('expected a rejection');
}

/** A guard's surroundings in that process: nothing happens by itself, but for what the test passes. */
export function guardDependencies(
  p: FakeProcess,
  own: Partial<GuardDependencies> = {},
): GuardDependencies {
  return {
    startCounting: () => ({ available: true }),
    readings: p,
    releaseFreeMemory: async () => undefined,
    clock: p.clock,
    totalMemory: () => 16_384 * MIB,
    every: () => () => undefined,
    later: () => () => undefined,
    delay: p.delay,
    gc: () => undefined,
    setTurn: async () => undefined,
    ...own,
  };
}
