import { ArgumentTypeError, StateError } from '../errors';
import { GuardLimits } from './guard-limits';
import type { GuardDependencies, MemoryGuardOptions } from './guard-options';
import { MemoryGuard } from './memory-guard';

/** `createMemoryGuard` with what it uses of the process handed in. */
export function createGuard(
  options: MemoryGuardOptions,
  processDependencies: GuardDependencies,
): MemoryGuard {
  const { limit: wanted = 'auto', mode } = options;
  if (mode !== undefined && mode !== 'enforce' && mode !== 'observe') {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'mode',
      mode,
      "'enforce' or 'observe'",
    );
  }
  const { share } = options;
  if (share !== undefined && (typeof share !== 'string' || share === '')) {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'share',
      share,
      'a non-empty string',
    );
  }
  const dependencies: GuardDependencies = {
    ...processDependencies,
    readings: options.readings ?? processDependencies.readings,
    clock: options.clock ?? processDependencies.clock,
    // Its clock and its numbers are this process's.
    ledger:
      options.readings === undefined && options.clock === undefined
        ? processDependencies.ledger
        : undefined,
    // It would watch this process, not the numbers that were brought along.
    watch: options.readings === undefined ? processDependencies.watch : undefined,
  };
  const limits = new GuardLimits({
    limit: wanted,
    breakerLimit: options.breakerLimit,
    containerMargin: options.containerMargin,
    readings: dependencies.readings,
    totalMemory: dependencies.totalMemory(),
  });
  const warnings = limits.warnings();
  const enforces = mode === 'enforce' || (mode === undefined && limits.bytes !== undefined);
  // Numbers that were brought along need no counting.
  if (options.readings === undefined) {
    const { available, reason = 'for an unknown reason' } = dependencies.startCounting();
    if (!available) {
      const message = `Native memory cannot be counted here: ${reason}`;
      if (enforces && options.allowDegraded !== true) {
        throw new StateError(
          'ERR_OOM_GUARD_UNAVAILABLE',
          `${message}. Pass allowDegraded: true to enforce the limit on the V8 heap and the kernel's numbers alone, or mode: 'observe'`,
        );
      }
      warnings.push({ code: 'ERR_OOM_GUARD_UNAVAILABLE', message });
    }
  }
  // What exists already is counted by now, and no longer part of what is not.
  limits.refresh();
  return new MemoryGuard(
    { mode: limits.bytes === undefined ? 'track' : (mode ?? 'enforce'), limits, warnings },
    options,
    dependencies,
  );
}
