import { type RefusalSource, ResourcesExhaustedError } from '../errors';
import { ArrivalQueue } from './arrival-queue';
import { type ConsumerAccount, ConsumerRegistry } from './consumer-registry';
import type { GrowRequest, GrowVerdict } from './grow-request';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryLimit } from './memory-limit';
import type { MemoryReservation } from './memory-reservation';
import type { PoolObserver, SpillReport } from './pool-observer';
import { insideSpill, spillConsumer } from './spill';

/** Options that every pool takes. */
export interface MemoryPoolOptions {
  /** Told of refusals and spills. Set it on the outermost pool only. */
  observer?: PoolObserver | undefined;
  /** Milliseconds, monotonic. Default `performance.now`. */
  clock?: (() => number) | undefined;
}

/** The numbers of a refusal, bytes. */
export interface RefusalFigures {
  limit: number | undefined;
  /** What was compared with the limit, without the request. */
  measured: number;
  live: number | undefined;
}

/**
 * Decides who may hold how much. Consumers register with it and get reservations; those call the
 * pool. Extend it for a policy of your own: decide in `requestGrow`, which books what it grants.
 */
export abstract class MemoryPool {
  /** Told of refusals and spills, if anybody is. */
  readonly observer: PoolObserver | undefined;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
  readonly #consumers = new ConsumerRegistry();
  readonly #queue = new ArrivalQueue();

  constructor(options: MemoryPoolOptions = {}) {
    this.observer = options.observer;
    this.clock = options.clock ?? (() => performance.now());
  }

  /** Short name of the policy, such as `greedy`. */
  abstract readonly name: string;
  /** Bytes handed out and not given back, overcommit included. */
  abstract get reserved(): number;
  /** What it will hand out at most. */
  abstract get memoryLimit(): MemoryLimit;
  /** One line: the policy and its numbers. */
  abstract toString(): string;

  /**
   * Grants and books `bytes`, all or nothing; a refusal leaves everything as it was. Synchronous,
   * without side effects but the booking, and without allocating. `bytes` is checked and positive.
   */
  abstract requestGrow(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): GrowVerdict;

  /** Books `bytes` without asking. */
  abstract overcommit(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): void;

  /** Takes `bytes` back; never more than the reservation held. */
  abstract shrink(reservation: MemoryReservation, bytes: number): void;

  /** The numbers behind a refusal by `source`, read now. */
  abstract refusalFigures(source: RefusalSource, reservation: MemoryReservation): RefusalFigures;

  /** Who holds how much. Decorators share that of the pool they wrap. */
  get consumers(): ConsumerRegistry {
    return this.#consumers;
  }

  /** A consumer has its first reservation. */
  register(_consumer: MemoryConsumer): void {}

  /** A consumer's last reservation was closed. */
  unregister(_consumer: MemoryConsumer): void {}

  /** `bytes` of what was granted exist by now. */
  allocated(_reservation: MemoryReservation, _bytes: number): void {}

  /** Whether a `grow` has to queue behind others. A spill callback never does: they wait for it. */
  mustQueue(): boolean {
    return !this.#queue.idle && !insideSpill();
  }

  /**
   * Gets a refused request granted, or throws. In order of arrival, one at a time.
   *
   * @throws ResourcesExhaustedError when no room could be made
   */
  async makeRoom(request: GrowRequest): Promise<void> {
    if (insideSpill()) {
      // Whoever waits for this spill to end holds the queue; joining it would never end.
      const verdict = request.attempt();
      if (verdict !== 'granted') {
        throw this.#refuse(request, verdict, []);
      }
      return;
    }
    await this.#queue.run(() => this.#serve(request));
  }

  /**
   * Reclaims what nobody uses and asks again, before anyone has to spill. A pool that measures
   * nothing has nothing to reclaim.
   */
  protected async reclaim(_request: GrowRequest, verdict: GrowVerdict): Promise<GrowVerdict> {
    return verdict;
  }

  /** Turns what a spill has just let go into room, and asks again. */
  protected async reclaimSpilled(
    _request: GrowRequest,
    verdict: GrowVerdict,
  ): Promise<GrowVerdict> {
    return verdict;
  }

  /** The last look before the error: what a rate limit had put off is done now. */
  protected async reclaimPutOff(_request: GrowRequest, verdict: GrowVerdict): Promise<GrowVerdict> {
    return verdict;
  }

  /** Whether the request could be granted if everything else were gone. */
  protected couldEverFit(request: GrowRequest, verdict: RefusalSource): boolean {
    const { limit } = this.refusalFigures(verdict, request.reservation);
    const needed = verdict === 'pool' ? request.bytes : request.bytes - request.alreadyAllocated;
    return limit === undefined || needed <= limit;
  }

  async #serve(request: GrowRequest): Promise<void> {
    let verdict = request.attempt();
    if (verdict === 'granted') {
      return;
    }
    if (!this.couldEverFit(request, verdict)) {
      throw this.#refuse(request, verdict, []);
    }
    verdict = await this.reclaim(request, verdict);
    const spills: SpillReport[] = [];
    const asked = new Set<ConsumerAccount>();
    while (verdict !== 'granted') {
      const largest = this.consumers.largestSpillable(asked);
      if (largest === undefined) {
        break;
      }
      asked.add(largest);
      const report = await spillConsumer(largest, request.bytes);
      spills.push(report);
      this.observer?.spilled(report);
      verdict = request.attempt();
      if (verdict !== 'granted') {
        verdict = await this.reclaimSpilled(request, verdict);
      }
    }
    if (verdict !== 'granted') {
      verdict = await this.reclaimPutOff(request, verdict);
    }
    if (verdict !== 'granted') {
      throw this.#refuse(request, verdict, spills);
    }
  }

  #refuse(
    { reservation, bytes }: GrowRequest,
    source: RefusalSource,
    spills: readonly SpillReport[],
  ): ResourcesExhaustedError {
    this.observer?.refused(source, reservation, bytes);
    const { limit, measured, live } = this.refusalFigures(source, reservation);
    const errors = spills.filter(({ error }) => error !== undefined).map(({ error }) => error);
    return new ResourcesExhaustedError({
      requested: bytes,
      source,
      consumer: `${reservation.consumer.name}#${reservation.consumer.id}`,
      reserved: this.reserved,
      limit,
      measured,
      available: limit === undefined ? undefined : Math.max(0, limit - measured),
      live,
      consumers: this.consumers.largest(),
      spillFailures: spills.flatMap(describeFailure),
      cause: errors.length > 1 ? new AggregateError(errors, 'Spilling failed') : errors[0],
    });
  }
}

function describeFailure({ consumer, freed, error }: SpillReport): string[] {
  if (error !== undefined) {
    return [`${consumer} failed (${error instanceof Error ? error.message : String(error)})`];
  }
  return freed === 0 ? [`${consumer} freed nothing`] : [];
}
