import { ArgumentTypeError } from '../errors';
import type { TaskSummary } from './guard-task';

/** Why a task has to go. Sizes in bytes. */
export interface Pressure {
  /** `'usage'`: over the guard's limit; `'heap'`: V8's own heap is nearly full. */
  readonly source: 'usage' | 'heap';
  readonly usage: number;
  readonly limit: number;
}

/**
 * Which task is shed: `'largest'`, the one that has reserved most (overcommit included); `'next'`, the
 * one that asks for its next batch first; or what a function of the running tasks returns: one of them,
 * or `undefined` for none.
 */
export type VictimPolicy =
  | 'largest'
  | 'next'
  | ((tasks: readonly TaskSummary[], pressure: Pressure) => TaskSummary | undefined);

/** @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function checkVictim(victim: unknown): asserts victim is VictimPolicy {
  if (victim !== 'largest' && victim !== 'next' && typeof victim !== 'function') {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'victim',
      victim,
      "'largest', 'next' or a function",
    );
  }
}

/** What is known that a task holds, bytes. */
function held({ reserved, attributed }: TaskSummary): number {
  return reserved + attributed;
}

/**
 * The running task that holds most, of those that hold at least `floor` bytes. What a task holds
 * without having reserved it cannot be known, but for its DuckDB queries.
 */
export function largestTask(tasks: readonly TaskSummary[], floor: number): TaskSummary | undefined {
  let largest: TaskSummary | undefined;
  for (const task of tasks) {
    if (
      task.state === 'running' &&
      held(task) >= floor &&
      held(task) > (largest === undefined ? 0 : held(largest))
    ) {
      largest = task;
    }
  }
  return largest;
}
