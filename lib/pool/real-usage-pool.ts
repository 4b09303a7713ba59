import { setTimeout as sleep } from 'node:timers/promises';
import type { Readings } from '../counting/readings';
import { ArgumentRangeError, ArgumentTypeError, type RefusalSource } from '../errors';
import { parseSize, type Size } from '../sizes';
import type { ConsumerRegistry } from './consumer-registry';
import { ContainerHeadroom } from './container-headroom';
import type { GrowRequest, GrowVerdict } from './grow-request';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryLimit } from './memory-limit';
import { MemoryPool, type MemoryPoolOptions, type RefusalFigures } from './memory-pool';
import type { MemoryReservation } from './memory-reservation';
import { PendingGrants } from './pending-grants';
import type { Reclaimer, WhenLimited } from './reclaimer';

const DEFAULT_HEAP_RATIO = 0.8;
const DEFAULT_PENDING_MS = 1000;
const DEFAULT_CONTAINER_MAX_AGE_MS = 10;

/** Options of {@link RealUsagePool}. */
export interface RealUsagePoolOptions extends MemoryPoolOptions {
  /** What usage is held to: bytes, or text such as `'512MiB'`. Usage equal to it is allowed. */
  limit: Size;
  /** Where the numbers come from. */
  readings: Readings;
  /** What gives slack and garbage back. Without one, `grow` goes straight to spilling. */
  reclaimer?: Reclaimer | undefined;
  /** Share of V8's heap limit that consumers in the heap may fill, over 0 to 1. Default 0.8. */
  heapRatio?: number | undefined;
  /**
   * What is kept free under the container's limit: bytes, text, a percentage of that limit, or 0.
   * Default 10 %, at least 16 MiB, at most 256 MiB.
   */
  containerMargin?: Size | undefined;
  /** Whether the container's headroom is checked at all. Default true. */
  containerCheck?: boolean | undefined;
  /** How old the reading of the container may be that a grant relies on, ms. Default 10. */
  containerMaxAgeMs?: number | undefined;
  /**
   * For how long a grant counts beside usage unless its consumer says earlier that it has
   * allocated, ms, over 0. Default 1000.
   */
  pendingMs?: number | undefined;
  /** Waits, ms. Default a timer. */
  delay?: ((ms: number) => Promise<unknown>) | undefined;
}

/**
 * Holds what the process really uses to a limit, whatever the pool it wraps decides on.
 *
 * Growth needs three answers before the inner pool is asked: usage, pending grants and the request
 * fit under the limit; for consumers in the V8 heap, they fit under V8's own ceiling too; what the
 * kernel charges to the container leaves room for them under its limit. Equal is allowed. What is
 * given back passes through, and so do the limit and the description of the inner pool.
 *
 * A grant is pending until its consumer says that it has allocated
 * ({@link MemoryReservation.allocated}), gives it back, or `pendingMs` has passed: two callers are
 * never let in on the same reading.
 */
export class RealUsagePool extends MemoryPool {
  override readonly name = 'real_usage';
  readonly #inner: MemoryPool;
  readonly #limit: number;
  readonly #readings: Readings;
  readonly #reclaimer: Reclaimer | undefined;
  readonly #heapRatio: number;
  readonly #container: ContainerHeadroom | undefined;
  readonly #delay: (ms: number) => Promise<unknown>;
  readonly #pendingMs: number;
  readonly #pending: PendingGrants;
  readonly #heapPending: PendingGrants;
  readonly #totals: readonly PendingGrants[];
  readonly #heapTotals: readonly PendingGrants[];
  readonly #pendingOf = new WeakMap<MemoryReservation, PendingGrants>();

  /**
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE` for the limit and
   *   the margin, `ERR_OOM_GUARD_INVALID_ARGUMENT` for the rest
   */
  constructor(inner: MemoryPool, options: RealUsagePoolOptions) {
    // Not instanceof: it may come from another copy of this package.
    if (typeof inner?.requestGrow !== 'function') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'inner pool',
        inner,
        'a MemoryPool',
      );
    }
    super({
      observer: options.observer ?? inner.observer,
      clock: options.clock ?? inner.clock,
    });
    this.#inner = inner;
    this.#limit = parseSize(options.limit, { name: 'limit' });
    this.#readings = options.readings;
    this.#reclaimer = options.reclaimer;
    this.#heapRatio = checkNumber('heapRatio', options.heapRatio ?? DEFAULT_HEAP_RATIO, 1);
    this.#pendingMs = checkNumber('pendingMs', options.pendingMs ?? DEFAULT_PENDING_MS);
    this.#pending = new PendingGrants(this.#pendingMs);
    this.#heapPending = new PendingGrants(this.#pendingMs);
    this.#totals = [this.#pending];
    this.#heapTotals = [this.#pending, this.#heapPending];
    this.#delay = options.delay ?? sleep;
    if (options.containerCheck !== false) {
      this.#container = new ContainerHeadroom({
        read: () => this.#readings.container(),
        margin: options.containerMargin,
        maxAgeMs: checkNumber(
          'containerMaxAgeMs',
          options.containerMaxAgeMs ?? DEFAULT_CONTAINER_MAX_AGE_MS,
        ),
      });
    }
  }

  /** What usage is held to, bytes. */
  get limit(): number {
    return this.#limit;
  }

  /** Bytes granted that are not yet counted as allocated. */
  get pending(): number {
    return this.#pending.total(this.clock());
  }

  override get reserved(): number {
    return this.#inner.reserved;
  }

  override get memoryLimit(): MemoryLimit {
    return this.#inner.memoryLimit;
  }

  override get consumers(): ConsumerRegistry {
    return this.#inner.consumers;
  }

  override toString(): string {
    return this.#inner.toString();
  }

  override register(consumer: MemoryConsumer): void {
    this.#inner.register(consumer);
  }

  override unregister(consumer: MemoryConsumer): void {
    this.#inner.unregister(consumer);
  }

  override requestGrow(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): GrowVerdict {
    const now = this.clock();
    const needed = bytes - alreadyAllocated;
    const pending = this.#pending.total(now);
    if (this.#readings.usage() + pending + needed > this.#limit) {
      return 'usage';
    }
    if (reservation.consumer.in === 'heap') {
      const { used, limit } = this.#readings.heap();
      if (used + this.#heapPending.total(now) + needed > limit * this.#heapRatio) {
        return 'heap';
      }
    }
    if (this.#container?.allows(needed, alreadyAllocated, pending, now) === false) {
      return 'container';
    }
    const verdict = this.#inner.requestGrow(reservation, bytes, alreadyAllocated);
    if (verdict === 'granted') {
      this.#book(reservation, needed, alreadyAllocated, now);
    }
    return verdict;
  }

  override overcommit(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): void {
    this.#inner.overcommit(reservation, bytes, alreadyAllocated);
    this.#book(reservation, bytes - alreadyAllocated, alreadyAllocated, this.clock());
  }

  override shrink(reservation: MemoryReservation, bytes: number): void {
    this.#inner.shrink(reservation, bytes);
    this.#retire(reservation, bytes, 'newest');
  }

  override allocated(reservation: MemoryReservation, bytes: number): void {
    this.#inner.allocated(reservation, bytes);
    this.#container?.admitted(bytes);
    this.#retire(reservation, bytes, 'oldest');
  }

  override refusalFigures(source: RefusalSource, reservation: MemoryReservation): RefusalFigures {
    const now = this.clock();
    const live = this.#readings.live();
    const pending = this.#pending.total(now);
    switch (source) {
      case 'usage':
        return { limit: this.#limit, measured: this.#readings.usage() + pending, live };
      case 'heap': {
        const { used, limit } = this.#readings.heap();
        return {
          limit: Math.floor(limit * this.#heapRatio),
          measured: used + this.#heapPending.total(now),
          live,
        };
      }
      case 'container': {
        this.#container?.refresh(now);
        const limit = this.#container?.limit ?? Number.POSITIVE_INFINITY;
        return {
          limit: Number.isFinite(limit) ? limit : undefined,
          measured: (this.#container?.anon ?? 0) + pending,
          live,
        };
      }
      case 'pool':
        return { ...this.#inner.refusalFigures(source, reservation), live };
    }
  }

  protected override async reclaim(
    request: GrowRequest,
    refused: GrowVerdict,
  ): Promise<GrowVerdict> {
    const released = await this.#releaseSlack(request, refused, 'skip');
    return this.#reclaimGarbage(request, released, 'skip');
  }

  protected override async reclaimSpilled(
    request: GrowRequest,
    refused: GrowVerdict,
  ): Promise<GrowVerdict> {
    // What a JavaScript consumer lets go is garbage at first. The limit on the rate guards against
    // looking in vain; here something is known to be there.
    return this.#reclaimGarbage(request, refused, 'run');
  }

  protected override async reclaimPutOff(
    request: GrowRequest,
    refused: GrowVerdict,
  ): Promise<GrowVerdict> {
    if (request.suppressed.has('garbage')) {
      return this.#reclaimGarbage(request, refused, 'wait');
    }
    return request.suppressed.has('slack') ? this.#releaseSlack(request, refused, 'wait') : refused;
  }

  /** Garbage, then the slack that it has become, then a while for grants that count twice. */
  async #reclaimGarbage(
    request: GrowRequest,
    refused: GrowVerdict,
    whenLimited: WhenLimited,
  ): Promise<GrowVerdict> {
    let verdict = await this.#collectGarbage(request, refused, whenLimited);
    if (!request.suppressed.has('garbage')) {
      verdict = await this.#releaseSlack(request, verdict, 'run');
    }
    return this.#waitForPending(request, verdict);
  }

  async #releaseSlack(
    request: GrowRequest,
    verdict: GrowVerdict,
    whenLimited: WhenLimited,
  ): Promise<GrowVerdict> {
    if (verdict !== 'container' || this.#reclaimer === undefined || !this.#slackCouldDo(request)) {
      return verdict;
    }
    const outcome = await this.#reclaimer.releaseSlack({ whenLimited, since: request.arrivedAt });
    if (outcome.suppressed) {
      request.suppressed.add('slack');
      return verdict;
    }
    request.suppressed.delete('slack');
    return request.attempt();
  }

  async #collectGarbage(
    request: GrowRequest,
    verdict: GrowVerdict,
    whenLimited: WhenLimited,
  ): Promise<GrowVerdict> {
    if (verdict === 'granted' || verdict === 'pool' || this.#reclaimer === undefined) {
      return verdict;
    }
    const outcome = await this.#reclaimer.collectGarbage({ whenLimited, since: request.arrivedAt });
    if (outcome.suppressed) {
      request.suppressed.add('garbage');
      return verdict;
    }
    request.suppressed.delete('garbage');
    return request.attempt();
  }

  /** Giving back every page this process has would be enough. More than that slack cannot be. */
  #slackCouldDo({ bytes, alreadyAllocated }: GrowRequest): boolean {
    const container = this.#container;
    if (container === undefined) {
      return false;
    }
    const wanted = container.anon + this.pending + bytes - alreadyAllocated;
    return wanted - container.limit <= this.#readings.rss().anon;
  }

  /**
   * Waits as long as pending grants alone stand in the way: most have long been allocated and are
   * counted twice, and nobody should have to spill for that.
   */
  async #waitForPending(request: GrowRequest, refused: GrowVerdict): Promise<GrowVerdict> {
    let verdict = refused;
    const deadline = this.#pendingMs + 2 * this.#pending.stepMs;
    for (let waited = 0; waited < deadline; waited += this.#pending.stepMs) {
      if (verdict === 'granted' || !this.#onlyPendingRefuses(request, verdict)) {
        return verdict;
      }
      await this.#delay(this.#pending.stepMs);
      verdict = request.attempt();
    }
    return verdict;
  }

  #onlyPendingRefuses(request: GrowRequest, verdict: RefusalSource): boolean {
    if (verdict === 'pool') {
      return false;
    }
    const { limit, measured } = this.refusalFigures(verdict, request.reservation);
    const pending = (verdict === 'heap' ? this.#heapPending : this.#pending).total(this.clock());
    const needed = request.bytes - request.alreadyAllocated;
    return pending > 0 && limit !== undefined && measured - pending + needed <= limit;
  }

  #book(
    reservation: MemoryReservation,
    needed: number,
    alreadyAllocated: number,
    now: number,
  ): void {
    this.#container?.admitted(alreadyAllocated);
    if (needed === 0) {
      return;
    }
    this.#pending.add(needed, now);
    if (reservation.consumer.in === 'heap') {
      this.#heapPending.add(needed, now);
    }
    let own = this.#pendingOf.get(reservation);
    if (own === undefined) {
      own = new PendingGrants(this.#pendingMs);
      this.#pendingOf.set(reservation, own);
    }
    own.add(needed, now);
  }

  #retire(reservation: MemoryReservation, bytes: number, order: 'newest' | 'oldest'): void {
    const totals = reservation.consumer.in === 'heap' ? this.#heapTotals : this.#totals;
    this.#pendingOf.get(reservation)?.retire(bytes, order, this.clock(), totals);
  }
}

function checkNumber(name: string, value: unknown, max = Number.MAX_SAFE_INTEGER): number {
  const accepted = `a number over 0 and at most ${max}`;
  if (typeof value !== 'number') {
    throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', name, value, accepted);
  }
  if (!(value > 0 && value <= max)) {
    throw new ArgumentRangeError('ERR_OOM_GUARD_INVALID_ARGUMENT', name, value, accepted);
  }
  return value;
}
