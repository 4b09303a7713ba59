import { type GrowVerdict, MemoryPoolDecorator, type MemoryReservation } from '../pool';

/**
 * Grants whatever the pool it wraps would refuse and tells of it: `mode: 'observe'`. What was
 * granted against its advice is booked there as overcommit.
 */
export class ObservingPool extends MemoryPoolDecorator {
  override readonly name = 'observing';

  override requestGrow(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): GrowVerdict {
    const verdict = this.inner.requestGrow(reservation, bytes, alreadyAllocated);
    if (verdict !== 'granted') {
      this.inner.overcommit(reservation, bytes, alreadyAllocated);
      this.observer?.refused(verdict, reservation, bytes, alreadyAllocated);
    }
    return 'granted';
  }
}
