import os from 'node:os';
import { ledger, processReadings, releaseFreeMemory, startCounting, Watchdog } from '../counting';
import { formatSize } from '../format';
import { ProcessLedger } from '../pool';
import { createGuard } from './create';
import type { GuardDependencies, MemoryGuardOptions } from './guard-options';
import type { MemoryGuard } from './memory-guard';

export type { AdmissionTicket } from './admission';
export type { AdmissionOptions, AdmitRequest } from './admission-options';
export { type AdmissionRefusal, AdmissionRefusedError } from './admission-refused';
export type { PublishedMessage } from './channels';
export type {
  GuardAdvisory,
  GuardEvents,
  GuardRecovery,
  GuardRefusal,
  GuardTrip,
  GuardWarning,
} from './events';
export type { GuardMode, MemoryGuardOptions } from './guard-options';
export type { GuardStats } from './guard-stats';
export type { GuardTask, TaskState, TaskSummary } from './guard-task';
export type { MemoryGuard } from './memory-guard';
export type { Pressure, VictimPolicy } from './victim';

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
  explainRss: () => {
    const lines = ledger()
      .lines.filter(({ category }) => category === 'slack')
      .sort((a, b) => b.bytes - a.bytes)
      .slice(0, 2);
    return lines.length === 0
      ? 'the rest is in no allocator that is counted'
      : `${lines.map(({ name, bytes }) => `${formatSize(bytes)} was freed and is kept by ${name}`).join(', ')}`;
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
