import { setTimeout as sleep } from 'node:timers/promises';
import { type RefusalSource, ResourcesExhaustedError } from '../errors';
import { parseSize, type Size } from '../sizes';
import { ArrivalQueue } from './arrival-queue';
import { type ConsumerAccount, ConsumerRegistry } from './consumer-registry';
import type { GrowRequest, GrowVerdict } from './grow-request';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryLimit } from './memory-limit';
import type { MemoryReservation } from './memory-reservation';
import type { Delay } from './patience';
import type { PoolObserver, SpillReport } from './pool-observer';
import { describeFailure, insideSpill, insideSpillOf, noteRecursion, spillConsumer } from './spill';

/** How often all who can spill are asked for one request at most. */
const MOST_ROUNDS = 8;
/** How often somebody who waits for others to give back looks again, ms. */
const LOOK_AGAIN_MS = 25;

/** Options that every pool takes. */
export interface MemoryPoolOptions {
  /** Told of refusals and spills. Set it on the outermost pool only. */
  observer?: PoolObserver | undefined;
  /** Milliseconds, monotonic. Default `performance.now`. */
  clock?: (() => number) | undefined;
  /** Waits, ms. Default a timer. */
  delay?: Delay | undefined;
  /**
   * By how much a consumer may pass every limit while its spill callback runs, for the buffer that
   * spilling takes: bytes, text, or 0, the default, for nothing.
   */
  spillExemption?: Size | undefined;
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
  /** Waits, ms. */
  readonly delay: Delay;
  /** By how much a consumer may pass every limit while its spill callback runs, bytes. */
  readonly spillExemption: number;
  readonly #consumers = new ConsumerRegistry();
  readonly #queue = new ArrivalQueue();
  #waiting: { readonly request: GrowRequest; source: RefusalSource } | undefined;
  #wake: (() => void) | undefined;

  /** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE` */
  constructor(options: MemoryPoolOptions = {}) {
    this.observer = options.observer;
    this.clock = options.clock ?? (() => performance.now());
    this.delay = options.delay ?? ((ms, rest) => sleep(ms, undefined, rest));
    const { spillExemption = 0 } = options;
    this.spillExemption =
      spillExemption === 0 ? 0 : parseSize(spillExemption, { name: 'spillExemption' });
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

  /** `reserved`, and what pools of other isolates hold under the same limit. */
  get totalReserved(): number {
    return this.reserved;
  }

  /** What one consumer may hold at most, as things stand; a hint, not a promise. */
  memoryLimitFor(_consumer: MemoryConsumer): MemoryLimit {
    return this.memoryLimit;
  }

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

  /** `bytes` of what one reservation held are held by a sibling now. */
  moved(_from: MemoryReservation, _to: MemoryReservation, _bytes: number): void {}

  /** Forgets what it has cached of the numbers that it decides on. */
  refresh(): void {}

  /**
   * Whether what `other` holds, or would take, stands in the way of a request of `consumer` that
   * `source` has refused. Only those who do are made to spill for it, and have to wait for it.
   */
  contends(
    _source: RefusalSource,
    _consumer: MemoryConsumer,
    _bytes: number,
    _other: MemoryConsumer,
  ): boolean {
    return true;
  }

  /**
   * Books a refused request after all, where the caller is the spill callback of the consumer that
   * asks and has not used up its exemption. Outside the callback, and in one that another spill has
   * called, there is none.
   */
  exempt(
    reservation: MemoryReservation,
    account: ConsumerAccount,
    bytes: number,
    alreadyAllocated: number,
  ): boolean {
    if (account.exempted + bytes > this.spillExemption || !insideSpillOf(account)) {
      return false;
    }
    this.overcommit(reservation, bytes, alreadyAllocated);
    account.exempted += bytes;
    return true;
  }

  /**
   * The check that keeps a newcomer's `tryGrow` from what somebody waits for, if somebody does. A
   * spill callback never has to wait: they wait for it.
   */
  standsInLine(consumer: MemoryConsumer): RefusalSource | undefined {
    const waiting = this.#waiting;
    if (waiting === undefined || waiting.request.patience?.over === true || insideSpill()) {
      return undefined;
    }
    const { request, source } = waiting;
    return this.contends(source, request.reservation.consumer, request.bytes, consumer)
      ? source
      : undefined;
  }

  /** Something was given back: whoever waits for that looks again. */
  released(): void {
    this.#wake?.();
  }

  /** Whether a `grow` has to queue behind others. A spill callback never does: they wait for it. */
  mustQueue(): boolean {
    return !this.#queue.idle && !insideSpill();
  }

  /**
   * Gets a refused request granted, or throws. In order of arrival, one at a time.
   *
   * @throws ResourcesExhaustedError when no room could be made, or the deadline has passed
   * @throws the reason of its signal when that has aborted
   */
  async makeRoom(request: GrowRequest): Promise<void> {
    if (insideSpill()) {
      // Whoever waits for this spill to end holds the queue; joining it would never end.
      const verdict = request.attempt();
      if (verdict !== 'granted') {
        noteRecursion();
        throw this.#refuse(request, verdict, []);
      }
      return;
    }
    const { patience } = request;
    const served = this.#queue.run(() => this.#serve(request));
    await (patience?.wait(served, this.delay, () =>
      this.#refuse(request, this.#waiting?.source ?? 'pool', []),
    ) ?? served);
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
    this.refresh();
    let verdict = request.attempt();
    if (verdict === 'granted') {
      return;
    }
    if (!this.couldEverFit(request, verdict)) {
      throw this.#refuse(request, verdict, []);
    }
    const waiting = { request, source: verdict };
    this.#waiting = waiting;
    try {
      const spills: SpillReport[] = [];
      verdict = await this.reclaim(request, verdict);
      verdict = await this.#spill(request, verdict, spills);
      if (verdict !== 'granted') {
        waiting.source = verdict;
        verdict = await this.reclaimPutOff(request, verdict);
      }
      verdict = await this.#waitForOthers(request, verdict);
      if (verdict !== 'granted') {
        request.patience?.check();
        throw this.#refuse(request, verdict, spills);
      }
    } finally {
      this.#waiting = undefined;
    }
  }

  /**
   * The largest, then the next. Another round for those who had something to give: what they have
   * freed can be gone again before it is looked at.
   */
  async #spill(
    request: GrowRequest,
    refused: GrowVerdict,
    spills: SpillReport[],
  ): Promise<GrowVerdict> {
    const empty = new Set<ConsumerAccount>();
    let verdict = refused;
    for (let round = 0; round < MOST_ROUNDS && verdict !== 'granted'; round++) {
      const asked = new Set(empty);
      verdict = await this.#spillRound(request, verdict, asked, empty, spills);
      if (asked.size === empty.size) {
        break;
      }
    }
    return verdict;
  }

  async #spillRound(
    request: GrowRequest,
    refused: RefusalSource,
    asked: Set<ConsumerAccount>,
    empty: Set<ConsumerAccount>,
    spills: SpillReport[],
  ): Promise<GrowVerdict> {
    let verdict: GrowVerdict = refused;
    while (verdict !== 'granted') {
      const source = verdict;
      const largest = this.consumers.largestSpillable(asked, (consumer) =>
        this.contends(source, request.reservation.consumer, request.bytes, consumer),
      );
      if (largest === undefined) {
        break;
      }
      asked.add(largest);
      const report = await spillConsumer(largest, this.#wanted(request, source));
      spills.push(report);
      if (report.error !== undefined || report.freed === 0) {
        empty.add(largest);
      }
      this.observer?.spilled(report);
      this.refresh();
      verdict = request.attempt();
      if (verdict !== 'granted') {
        verdict = await this.reclaimSpilled(request, verdict);
      }
    }
    return verdict;
  }

  /** What a spill has to let go of: usage may be far over the limit, or a consumer over its share. */
  #wanted({ reservation, bytes, alreadyAllocated }: GrowRequest, source: RefusalSource): number {
    const { limit, measured } = this.refusalFigures(source, reservation);
    if (limit === undefined) {
      return bytes;
    }
    const needed = source === 'pool' ? bytes : bytes - alreadyAllocated;
    return Math.max(bytes, measured + needed - limit);
  }

  /** Until the deadline, if there is one: nothing can be made to give back, but somebody may. */
  async #waitForOthers(request: GrowRequest, refused: GrowVerdict): Promise<GrowVerdict> {
    let verdict = refused;
    const { patience } = request;
    while (verdict !== 'granted' && patience?.hasDeadline === true) {
      const left = patience.deadlineAt - this.clock();
      if (left <= 0) {
        break;
      }
      const released = await this.#nextRelease(Math.min(left, LOOK_AGAIN_MS));
      this.refresh();
      verdict = request.attempt();
      if (released && verdict !== 'granted') {
        verdict = await this.reclaim(request, verdict);
      }
    }
    return verdict;
  }

  /** Waits for something to be given back, at most `ms`; false when nothing was. */
  async #nextRelease(ms: number): Promise<boolean> {
    const timer = new AbortController();
    let released = false;
    try {
      await Promise.race([
        new Promise<void>((resolve) => {
          this.#wake = () => {
            released = true;
            resolve();
          };
        }),
        this.delay(ms, { signal: timer.signal }),
      ]);
    } finally {
      this.#wake = undefined;
      // A timer that ends early rejects, after the race is over.
      timer.abort();
    }
    return released;
  }

  #refuse(
    { reservation, bytes, alreadyAllocated }: GrowRequest,
    source: RefusalSource,
    spills: readonly SpillReport[],
  ): ResourcesExhaustedError {
    this.observer?.refused(source, reservation, bytes, alreadyAllocated);
    const { limit, measured, live } = this.refusalFigures(source, reservation);
    const errors = spills.filter(({ error }) => error !== undefined).map(({ error }) => error);
    return new ResourcesExhaustedError({
      requested: bytes,
      source,
      consumer: `${reservation.consumer.name}#${reservation.consumer.id}`,
      reserved: this.totalReserved,
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
