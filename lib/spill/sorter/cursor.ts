/** A position in a sorted sequence of rows. */
export interface Cursor {
  /**
   * Its place among the sequences: of two equal rows the one of the lower rank came first. That is
   * what makes the sort stable.
   */
  readonly rank: number;
  /** Whether its rows are held in memory, and not in a run on disk. */
  readonly inMemory: boolean;
  /** Goes to the next row; false at the end of what is loaded. */
  advance(): boolean;
  /** Loads more and goes to its first row; false at the end. Called first, too. */
  load(): Promise<boolean>;
  /** Another one on the same row. Of rows in memory only. */
  fork(): this;
  /** Lets go of what it reads from. */
  close(): Promise<void>;
}

/** Which of two rows comes first: below 0 the first, above 0 the second. */
export type CursorOrder<C> = (a: C, b: C) => number;
