import os from 'node:os';
import { processReadings, releaseFreeMemory, startCounting, Watchdog } from '../counting';
import { ProcessLedger } from '../pool';
import { createGuard } from './create';
import type { GuardDependencies, MemoryGuardOptions } from './guard-options';
import type { MemoryGuard } from './memory-guard';

export type {
  GuardAdvisory,
  GuardEvents,
  GuardRefusal,
  GuardTrip,
  GuardWarning,
} from './events';
export type { GuardMode, MemoryGuardOptions } from './guard-options';
export type { GuardStats } from './guard-stats';
export type { GuardTask, TaskSummary } from './guard-task';
export type { MemoryGuard } from './memory-guard';

const PROCESS: GuardDependencies = {
  startCounting,
  readings: processReadings,
  ledger: (options) => ProcessLedger.open(options),
  releaseFreeMemory,
  clock: () => performance.now(),
  totalMemory: () => os.totalmem(),
  watch: () => {
    const watchdog = new Watchdog();
    return { peakUsage: () => watchdog.read().peakUsage, close: () => watchdog.close() };
  },
  every: (ms, fn) => {
    const timer = setInterval(fn, ms).unref();
    return () => clearInterval(timer);
  },
  later: (fn) => {
    const immediate = setImmediate(fn).unref();
    return () => clearImmediate(immediate);
  },
};

/**
 * Starts counting and returns a guard that runs tasks under one memory limit.
 *
 * @throws ArgumentTypeError or ArgumentRangeError with a `code` for an option that is none; an
 *   unparsable or non-positive limit is `ERR_OOM_GUARD_INVALID_SIZE`
 * @throws StateError `ERR_OOM_GUARD_UNAVAILABLE` when native memory cannot be counted and neither
 *   `allowDegraded` nor `mode: 'observe'` was given
 */
export function createMemoryGuard(options: MemoryGuardOptions = {}): MemoryGuard {
  return createGuard(options, PROCESS);
}
