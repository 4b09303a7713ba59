import { AsyncLocalStorage } from 'node:async_hooks';
import type { ConsumerAccount } from './consumer-registry';
import type { SpillReport } from './pool-observer';

interface SpillScope {
  running: boolean;
}

const scopes = new AsyncLocalStorage<SpillScope>();
let running = 0;

/** Whether the calling code runs on behalf of a spill callback that has not ended. */
export function insideSpill(): boolean {
  // A callback may start work that outlives it and inherits its scope; that work is not a spill.
  return scopes.getStore()?.running === true;
}

/** Runs one consumer's spill callback; never throws what that throws. */
export async function spillConsumer(
  account: ConsumerAccount,
  requested: number,
): Promise<SpillReport> {
  const scope: SpillScope = { running: true };
  const before = account.reserved;
  running += 1;
  let error: unknown;
  try {
    await scopes.run(scope, async () => account.consumer.spill?.(requested));
  } catch (thrown) {
    error = thrown ?? new Error(`the callback threw ${String(thrown)}`);
  } finally {
    scope.running = false;
    running -= 1;
    if (running === 0) {
      // While it is in use, Node 20 makes every promise of the process more expensive.
      scopes.disable();
    }
  }
  const freed = Math.max(0, before - account.reserved);
  return { consumer: `${account.consumer.name}#${account.consumer.id}`, requested, freed, error };
}
