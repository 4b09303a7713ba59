/** Ranges of addresses. */

/** From `start` to before `end`. */
export interface Range {
  start: number;
  end: number;
}

/** The parts of `whole` that lie in none of `parts`, which are sorted and do not overlap. */
export function gaps(whole: Range, parts: readonly Range[]): Range[] {
  const left: Range[] = [];
  let at = whole.start;
  for (const part of parts) {
    if (part.start > at) left.push({ start: at, end: part.start });
    at = Math.max(at, part.end);
  }
  if (at < whole.end) left.push({ start: at, end: whole.end });
  return left;
}

/** What both have in common; `undefined` when nothing. */
export function intersect(a: Range, b: Range): Range | undefined {
  const start = Math.max(a.start, b.start);
  const end = Math.min(a.end, b.end);
  return start < end ? { start, end } : undefined;
}
