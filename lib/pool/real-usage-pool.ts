import { processReadings } from '../counting/live';
import type { HeapReading, Readings } from '../counting/readings';
import type { RefusalSource } from '../errors';
import { checkPositive } from '../numbers';
import { parseSize, type Size } from '../sizes';
import { ContainerHeadroom } from './container-headroom';
import type { GrowRequest, GrowVerdict } from './grow-request';
import { LocalLedger } from './local-ledger';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryPool, MemoryPoolOptions, RefusalFigures } from './memory-pool';
import { MemoryPoolDecorator } from './memory-pool-decorator';
import type { MemoryReservation } from './memory-reservation';
import { PendingGrants } from './pending-grants';
import { ledgerKey, ProcessLedger } from './process-ledger';
import type { Reclaimer, WhenLimited } from './reclaimer';
import type { LedgerLimits, UsageLedger } from './usage-ledger';

const DEFAULT_HEAP_RATIO = 0.8;
const DEFAULT_PENDING_MS = 1000;
const DEFAULT_CONTAINER_MAX_AGE_MS = 10;
const DEFAULT_EXEMPTION_RATIO = 0.1;
const DEFAULT_EXEMPTION_MAX = 64 * 2 ** 20;
/** Waiting for a grant to age ends after as many steps as a grant can count, and one for the clock. */
const MOST_STEPS = 10;

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
  /**
   * Where requests are compared with the limit and booked. Default, for `processReadings` and the
   * default clock once counting is on, a `ProcessLedger`, which is shared with pools around the same
   * kind of pool with the same limit, those of other isolates too; else a `LocalLedger` of this pool's
   * own, made of `readings` and `clock`. It has an age of grants of its own; `pendingMs` is for the
   * default.
   */
  ledger?: UsageLedger | undefined;
  /**
   * How much of the limit is kept for consumers that cannot spill: those that can leave it alone
   * until the others hold as much. Bytes, text, or 0, the default.
   */
  unspillableReserve?: Size | undefined;
  /** See {@link MemoryPoolOptions.spillExemption}. Default 10 % of the limit, at most 64 MiB. */
  spillExemption?: Size | undefined;
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
 * never let in on the same reading. With a `ProcessLedger` that holds for the callers of all
 * isolates, and what their pools have reserved together is held to the inner pool's limit.
 */
export class RealUsagePool extends MemoryPoolDecorator {
  override readonly name = 'real_usage';
  #limit: number;
  readonly #readings: Readings;
  readonly #reclaimer: Reclaimer | undefined;
  readonly #heapRatio: number;
  readonly #container: ContainerHeadroom | undefined;
  readonly #ledger: UsageLedger;
  readonly #limits: LedgerLimits;
  readonly #heapPending = new PendingGrants();

  /**
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE` for the limit, the
   *   margin, the reserve and the exemption, `ERR_OOM_GUARD_INVALID_ARGUMENT` for the rest
   */
  constructor(inner: MemoryPool, options: RealUsagePoolOptions) {
    const limit = parseSize(options.limit, { name: 'limit' });
    super(inner, {
      ...options,
      spillExemption: options.spillExemption ?? defaultExemption(limit),
    });
    this.#limit = limit;
    this.#readings = options.readings;
    this.#reclaimer = options.reclaimer;
    this.#heapRatio = checkPositive('heapRatio', options.heapRatio ?? DEFAULT_HEAP_RATIO, 1);
    const pendingMs = checkPositive('pendingMs', options.pendingMs ?? DEFAULT_PENDING_MS);
    this.#ledger =
      options.ledger ??
      processLedger(inner, options, pendingMs) ??
      new LocalLedger({ readings: options.readings, clock: this.clock, pendingMs });
    this.#limits = {
      usage: limit,
      reserved: Number.MAX_SAFE_INTEGER,
      unspillableReserve: reserveOf(options.unspillableReserve, limit),
      room: Number.POSITIVE_INFINITY,
      roomExisting: 0,
      roomUntil: Number.POSITIVE_INFINITY,
    };
    if (options.containerCheck !== false) {
      this.#container = new ContainerHeadroom({
        read: () => this.#readings.container(),
        margin: options.containerMargin,
        maxAgeMs: checkPositive(
          'containerMaxAgeMs',
          options.containerMaxAgeMs ?? DEFAULT_CONTAINER_MAX_AGE_MS,
        ),
      });
      // Read when it is first needed.
      this.#limits.roomUntil = -1;
    }
  }

  /** What usage is held to, bytes. */
  get limit(): number {
    return this.#limit;
  }

  /**
   * Moves what usage is held to, bytes. What was granted stays.
   *
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE`
   */
  setLimit(bytes: number): void {
    this.#limit = parseSize(bytes, { name: 'limit' });
    this.#limits.usage = this.#limit;
  }

  /** Bytes granted that are not yet counted as allocated, whoever in the process got them. */
  get pending(): number {
    return this.#ledger.pending;
  }

  override get totalReserved(): number {
    return this.#ledger.reserved;
  }

  override requestGrow(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): GrowVerdict {
    const { consumer } = reservation;
    const needed = bytes - alreadyAllocated;
    if (consumer.in === 'heap' && !this.#heapAllows(needed)) {
      return 'heap';
    }
    const inner = this.inner.memoryLimit;
    this.#limits.reserved = inner.kind === 'finite' ? inner.bytes : Number.MAX_SAFE_INTEGER;
    let verdict: GrowVerdict = this.#ledger.book(bytes, needed, consumer.canSpill, this.#limits);
    if (verdict === 'container') {
      verdict = this.#bookAfterReading(bytes, needed, consumer.canSpill);
    }
    if (verdict !== 'granted') {
      return verdict;
    }
    const { step } = this.#ledger;
    verdict = this.inner.requestGrow(reservation, bytes, alreadyAllocated);
    if (verdict === 'granted') {
      this.#book(reservation, needed, step);
    } else {
      this.#ledger.giveBack(bytes, consumer.canSpill);
      this.#ledger.retire(step, needed, false);
    }
    return verdict;
  }

  override overcommit(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): void {
    this.inner.overcommit(reservation, bytes, alreadyAllocated);
    const needed = bytes - alreadyAllocated;
    this.#ledger.bookUnchecked(bytes, needed, reservation.consumer.canSpill);
    this.#book(reservation, needed, this.#ledger.step);
  }

  override shrink(reservation: MemoryReservation, bytes: number): void {
    this.inner.shrink(reservation, bytes);
    this.#ledger.giveBack(bytes, reservation.consumer.canSpill);
    this.#retire(reservation, bytes, 'newest', this.#ledger.step);
  }

  override allocated(reservation: MemoryReservation, bytes: number): void {
    this.inner.allocated(reservation, bytes);
    this.#retire(reservation, bytes, 'oldest', this.#ledger.tick());
  }

  override moved(from: MemoryReservation, to: MemoryReservation, bytes: number): void {
    this.inner.moved(from, to, bytes);
    if (from.grants?.pool === this) {
      from.grants.wheel.moveTo(this.#wheelOf(to), bytes, this.#ledger.tick());
    }
  }

  override refresh(): void {
    this.inner.refresh();
    this.#ledger.refresh();
  }

  override contends(
    source: RefusalSource,
    consumer: MemoryConsumer,
    bytes: number,
    other: MemoryConsumer,
  ): boolean {
    switch (source) {
      case 'pool':
        return this.inner.contends(source, consumer, bytes, other);
      case 'heap':
        return other.in === 'heap';
      default:
        return true;
    }
  }

  override refusalFigures(source: RefusalSource, reservation: MemoryReservation): RefusalFigures {
    const live = this.#readings.live();
    const { pending } = this.#ledger;
    switch (source) {
      case 'usage':
        return {
          limit: this.#limit - this.#keptFrom(reservation.consumer),
          measured: this.#readings.usage() + pending,
          live,
        };
      case 'heap': {
        const { used, limit } = this.#heap();
        return {
          limit: Math.floor(limit * this.#heapRatio),
          measured: used + this.#heapPending.total(this.#ledger.step),
          live,
        };
      }
      case 'container': {
        this.#container?.refresh(this.#ledger, this.#limits);
        this.#container?.keep(this.#limits);
        const limit = this.#container?.limit ?? Number.POSITIVE_INFINITY;
        return {
          limit: Number.isFinite(limit) ? limit : undefined,
          measured: (this.#container?.anon ?? 0) + pending,
          live,
        };
      }
      case 'pool':
        return { ...this.#poolFigures(reservation), live };
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
    return this.#attemptAnew(request);
  }

  async #collectGarbage(
    request: GrowRequest,
    verdict: GrowVerdict,
    whenLimited: WhenLimited,
  ): Promise<GrowVerdict> {
    if (verdict === 'granted' || verdict === 'pool' || this.#reclaimer === undefined) {
      return verdict;
    }
    const outcome = await this.#reclaimer.collectGarbage({
      whenLimited,
      since: request.arrivedAt,
      needed: this.#missing(request, verdict),
    });
    if (outcome.suppressed) {
      request.suppressed.add('garbage');
      return verdict;
    }
    request.suppressed.delete('garbage');
    return this.#attemptAnew(request);
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
    for (let steps = 0; steps < MOST_STEPS; steps++) {
      if (verdict === 'granted' || !this.#onlyPendingRefuses(request, verdict)) {
        return verdict;
      }
      await this.delay(this.#ledger.stepMs);
      verdict = this.#attemptAnew(request);
    }
    return verdict;
  }

  /** How much would have to go for the request to be granted, bytes. */
  #missing({ reservation, bytes, alreadyAllocated }: GrowRequest, source: RefusalSource): number {
    const { limit = 0, measured } = this.refusalFigures(source, reservation);
    return Math.max(0, measured + bytes - alreadyAllocated - limit);
  }

  #attemptAnew(request: GrowRequest): GrowVerdict {
    this.refresh();
    return request.attempt();
  }

  #onlyPendingRefuses(request: GrowRequest, verdict: RefusalSource): boolean {
    if (verdict === 'pool') {
      return false;
    }
    const { limit, measured } = this.refusalFigures(verdict, request.reservation);
    const pending =
      verdict === 'heap' ? this.#heapPending.total(this.#ledger.step) : this.#ledger.pending;
    const needed = request.bytes - request.alreadyAllocated;
    return pending > 0 && limit !== undefined && measured - pending + needed <= limit;
  }

  #heap(): HeapReading {
    this.#ledger.tick();
    return this.#ledger.heap();
  }

  #heapAllows(needed: number): boolean {
    const { used, limit } = this.#heap();
    const pending = this.#heapPending.total(this.#ledger.step);
    return used + pending + needed <= limit * this.#heapRatio;
  }

  /** Once more with a reading of the container from now, which has seen what exists already. */
  #bookAfterReading(bytes: number, needed: number, canSpill: boolean): GrowVerdict {
    const limits = this.#limits;
    this.#container?.refresh(this.#ledger, limits);
    limits.roomExisting += bytes - needed;
    const verdict = this.#ledger.book(bytes, needed, canSpill, limits);
    // For the requests to come: it may have missed them all the same, if they exist only on paper.
    limits.roomExisting -= bytes - needed;
    this.#container?.keep(limits);
    return verdict;
  }

  /** What this consumer has to leave to those that cannot spill, bytes. */
  #keptFrom(consumer: MemoryConsumer): number {
    return consumer.canSpill
      ? Math.max(0, this.#limits.unspillableReserve - this.#ledger.unspillable)
      : 0;
  }

  /** Those of the inner pool, or of all isolates together where these leave less. */
  #poolFigures(reservation: MemoryReservation): RefusalFigures {
    const own = this.inner.refusalFigures('pool', reservation);
    const { memoryLimit } = this.inner;
    const { reserved } = this.#ledger;
    return memoryLimit.kind === 'finite' &&
      memoryLimit.bytes - reserved < (own.limit ?? Number.POSITIVE_INFINITY) - own.measured
      ? { limit: memoryLimit.bytes, measured: reserved, live: undefined }
      : own;
  }

  #book(reservation: MemoryReservation, needed: number, step: number): void {
    if (needed === 0) {
      return;
    }
    if (reservation.consumer.in === 'heap') {
      this.#heapPending.add(needed, step);
    }
    this.#wheelOf(reservation).add(needed, step);
  }

  /** Its wheel is kept with the reservation: a map of them would cost more than the booking. */
  #wheelOf(reservation: MemoryReservation): PendingGrants {
    const { grants } = reservation;
    if (grants?.pool === this) {
      return grants.wheel;
    }
    const wheel = new PendingGrants();
    reservation.grants = { pool: this, wheel };
    return wheel;
  }

  #retire(
    reservation: MemoryReservation,
    bytes: number,
    order: 'newest' | 'oldest',
    step: number,
  ): void {
    const { grants } = reservation;
    if (grants?.pool === this) {
      const heap = reservation.consumer.in === 'heap' ? this.#heapPending : undefined;
      grants.wheel.retire(bytes, order, step, this.#ledger, heap);
    }
  }
}

/** For this process's numbers on its own clock; `undefined` where they are invented or not to be had. */
function processLedger(
  inner: MemoryPool,
  { readings, clock }: RealUsagePoolOptions,
  pendingMs: number,
): UsageLedger | undefined {
  return readings === processReadings && clock === undefined
    ? ProcessLedger.open({ key: ledgerKey(inner), pendingMs })
    : undefined;
}

function defaultExemption(limit: number): number {
  return Math.min(Math.floor(limit * DEFAULT_EXEMPTION_RATIO), DEFAULT_EXEMPTION_MAX);
}

function reserveOf(reserve: Size | undefined, limit: number): number {
  if (reserve === undefined || reserve === 0) {
    return 0;
  }
  return Math.min(limit, parseSize(reserve, { name: 'unspillableReserve' }));
}
