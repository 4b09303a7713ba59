import v8 from 'node:v8';
import type { HeapReading } from '../counting/readings';
import { countingBinding } from '../counting/start';
import type { NativeBinding } from '../native';
import { checkPositive } from '../numbers';
import type { MemoryPool } from './memory-pool';
import { GRANT_STEPS } from './pending-grants';
import type { BookingVerdict, LedgerLimits, UsageLedger } from './usage-ledger';

// Where each number of the mailbox lies; the same as in native/addon.cc.
const SLOT = 0;
const BYTES = 1;
const NEEDED = 2;
const FLAGS = 3;
const USAGE_LIMIT = 4;
const RESERVED_LIMIT = 5;
const UNSPILLABLE_RESERVE = 6;
const ROOM = 7;
const ROOM_EXISTING = 8;
const ROOM_UNTIL = 9;
const ANSWER = 10;
const STEP = 11;
const USAGE = 12;
const PENDING = 13;
const RESERVED = 14;
const EXISTING = 15;
const NOW = 16;
const UNSPILLABLE = 17;
const FIELDS = 18;

const CAN_SPILL = 1;
const UNCHECKED = 2;
const EXISTS = 4;
const HEAP_IS_FRESH = 8;

const HEAP_TOO_OLD = -1;
const VERDICTS: readonly BookingVerdict[] = ['granted', 'usage', 'container', 'pool'];

type ReservationsBinding = Required<
  Pick<
    NativeBinding,
    | 'reservationsAcquire'
    | 'reservationsBook'
    | 'reservationsGiveBack'
    | 'reservationsRetire'
    | 'reservationsRead'
    | 'usage'
  >
>;

// One per isolate: calls are synchronous and take what they need out of it at once.
const box = new Float64Array(new ArrayBuffer(FIELDS * Float64Array.BYTES_PER_ELEMENT));
const opened = new Map<string, ProcessLedger>();

/** Options of {@link ProcessLedger.open}. */
export interface ProcessLedgerOptions {
  /** Ledgers of the same key share their reserved total, whichever isolate they are in. */
  key: string;
  /** For how long a grant counts, ms, over 0. */
  pendingMs: number;
}

/**
 * The ledger that all isolates of this process share. What a Worker has booked is given back when it
 * ends, however it ends.
 *
 * Usage is read natively: live bytes, exact but for what is in flight, which can only make them too
 * large, and the heaps that the isolates publish. This isolate's own heap is read again when the last
 * reading is a millisecond old, because reading it costs more than all the rest.
 */
export class ProcessLedger implements UsageLedger {
  readonly stepMs: number;
  readonly #binding: ReservationsBinding;
  readonly #slot: number;
  // Always the same object: a reading leaves no garbage.
  readonly #heap: { used: number; limit: number } = { used: 0, limit: 0 };
  #step = 0;
  #now = 0;
  #existing = 0;
  #peakUsage = 0;

  private constructor(binding: ReservationsBinding, slot: number, pendingMs: number) {
    this.#binding = binding;
    this.#slot = slot;
    this.stepMs = pendingMs / GRANT_STEPS;
    this.refresh();
    this.tick();
  }

  /**
   * This isolate's ledger of that key and age; the same one each time. `undefined` where nothing is
   * counted, or when 512 of them are open in the process.
   *
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` for `pendingMs`
   */
  static open({ key, pendingMs }: ProcessLedgerOptions): ProcessLedger | undefined {
    checkPositive('pendingMs', pendingMs);
    const name = `${pendingMs}/${key}`;
    const known = opened.get(name);
    if (known !== undefined) {
      return known;
    }
    const binding = countingBinding();
    if (!isComplete(binding)) {
      return undefined;
    }
    const slot = binding.reservationsAcquire(box, key, pendingMs);
    if (slot < 0) {
      return undefined;
    }
    const ledger = new ProcessLedger(binding, slot, pendingMs);
    opened.set(name, ledger);
    return ledger;
  }

  get step(): number {
    return this.#step;
  }

  get now(): number {
    return this.#now;
  }

  get pending(): number {
    this.tick();
    return box[PENDING] as number;
  }

  get reserved(): number {
    this.tick();
    return box[RESERVED] as number;
  }

  get unspillable(): number {
    this.tick();
    return box[UNSPILLABLE] as number;
  }

  get existing(): number {
    return this.#existing;
  }

  get peakUsage(): number {
    return this.#peakUsage;
  }

  book(bytes: number, needed: number, canSpill: boolean, limits: LedgerLimits): BookingVerdict {
    box[SLOT] = this.#slot;
    box[BYTES] = bytes;
    box[NEEDED] = needed;
    box[FLAGS] = canSpill ? CAN_SPILL : 0;
    box[USAGE_LIMIT] = limits.usage;
    box[RESERVED_LIMIT] = limits.reserved;
    box[UNSPILLABLE_RESERVE] = limits.unspillableReserve;
    box[ROOM] = limits.room;
    box[ROOM_EXISTING] = limits.roomExisting;
    box[ROOM_UNTIL] = limits.roomUntil;
    this.#binding.reservationsBook();
    if (box[ANSWER] === HEAP_TOO_OLD) {
      this.refresh();
      box[FLAGS] = (canSpill ? CAN_SPILL : 0) | HEAP_IS_FRESH;
      this.#binding.reservationsBook();
    }
    this.#taken();
    const usage = box[USAGE] as number;
    if (usage > this.#peakUsage) {
      this.#peakUsage = usage;
    }
    return VERDICTS[box[ANSWER] as number] ?? 'usage';
  }

  bookUnchecked(bytes: number, needed: number, canSpill: boolean): void {
    box[SLOT] = this.#slot;
    box[BYTES] = bytes;
    box[NEEDED] = needed;
    box[FLAGS] = UNCHECKED | (canSpill ? CAN_SPILL : 0);
    this.#binding.reservationsBook();
    this.#taken();
  }

  giveBack(bytes: number, canSpill: boolean): void {
    box[SLOT] = this.#slot;
    box[BYTES] = bytes;
    box[FLAGS] = canSpill ? CAN_SPILL : 0;
    this.#binding.reservationsGiveBack();
    this.#step = box[STEP] as number;
  }

  retire(step: number, bytes: number, allocated: boolean): void {
    box[SLOT] = this.#slot;
    box[BYTES] = bytes;
    box[STEP] = step;
    box[FLAGS] = allocated ? EXISTS : 0;
    this.#binding.reservationsRetire();
  }

  tick(): number {
    box[SLOT] = this.#slot;
    this.#binding.reservationsRead();
    if (box[ANSWER] === HEAP_TOO_OLD) {
      this.refresh();
    }
    this.#taken();
    return this.#step;
  }

  heap(): HeapReading {
    return this.#heap;
  }

  refresh(): void {
    const { used_heap_size: used, heap_size_limit: limit } = v8.getHeapStatistics();
    this.#heap.used = used;
    this.#heap.limit = limit;
    this.#binding.usage(used);
  }

  #taken(): void {
    this.#step = box[STEP] as number;
    this.#now = box[NOW] as number;
    this.#existing = box[EXISTING] as number;
  }
}

/** Pools around the same kind of pool with the same limit have the same key. */
export function ledgerKey({ name, memoryLimit }: MemoryPool): string {
  return `${name}/${memoryLimit.kind === 'finite' ? memoryLimit.bytes : memoryLimit.kind}`;
}

function isComplete(
  binding: Partial<NativeBinding> | undefined,
): binding is NativeBinding & ReservationsBinding {
  return typeof binding?.reservationsBook === 'function';
}
