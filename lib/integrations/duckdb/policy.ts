/** Where the limit of a database goes next. Pure, so that it can be tested without one. */

const MIB = 2 ** 20;
/** Moves smaller than this are not worth a statement. */
const LEAST_RAISE = 4 * MIB;
const LEAST_CUT = MIB;
/** How much of what is in use may be taken at once. */
const CUT_SHARE = 0.1;

/** All sizes in bytes. */
export interface LimitInputs {
  /** `memory_limit` as it stands. */
  current: number;
  /** What its buffer manager holds. */
  used: number;
  /** What the rest of the process leaves. */
  room: number;
  /** Never less than this. */
  floor: number;
  /** Never more than this. */
  ceiling: number;
}

/**
 * The limit to set; `current` for none. It rises at once. It falls at once as far as nothing is in
 * use there, and slowly below that: a limit that is lowered into an operator's working set fails its
 * query.
 */
export function nextLimit({ current, used, room, floor, ceiling }: LimitInputs): number {
  const target = Math.floor(Math.max(floor, Math.min(room, ceiling)));
  if (target >= current) {
    return target - current >= LEAST_RAISE ? target : current;
  }
  const next =
    target >= used
      ? target
      : Math.max(target, Math.floor(used - Math.max(used * CUT_SHARE, LEAST_RAISE)));
  return current - next >= LEAST_CUT ? next : current;
}
