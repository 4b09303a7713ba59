import { AsyncLocalStorage } from 'node:async_hooks';
import { formatSize } from '../sizes';
import type { ConsumerAccount } from './consumer-registry';
import type { SpillReport } from './pool-observer';

interface SpillScope {
  /** Whose callback it is; `undefined` for what is not a consumer's, such as emptying a cache. */
  readonly account: ConsumerAccount | undefined;
  running: boolean;
  /** It asked for room that only spilling could have made. */
  recursed: boolean;
}

const scopes = new AsyncLocalStorage<SpillScope>();
let running = 0;

function currentScope(): SpillScope | undefined {
  if (running === 0) {
    return undefined;
  }
  const scope = scopes.getStore();
  // A callback may start work that outlives it and inherits its scope; that work is not a spill.
  return scope?.running === true ? scope : undefined;
}

/** Whether the calling code runs on behalf of a spill callback that has not ended. */
export function insideSpill(): boolean {
  return currentScope() !== undefined;
}

/** Whether the calling code runs on behalf of the spill callback of this very consumer. */
export function insideSpillOf(account: ConsumerAccount): boolean {
  return currentScope()?.account === account;
}

/** The calling spill callback has asked for room that there is not. */
export function noteRecursion(): void {
  const scope = currentScope();
  if (scope !== undefined) {
    scope.recursed = true;
  }
}

/**
 * Runs what a reclaim waits for. As in a spill callback, what it asks for is granted or refused at once:
 * whoever waits for room waits for it.
 */
export async function runForRoom<T>(work: () => Promise<T>): Promise<T> {
  const scope: SpillScope = { account: undefined, running: true, recursed: false };
  running += 1;
  try {
    return await scopes.run(scope, work);
  } finally {
    leave(scope);
  }
}

function leave(scope: SpillScope): void {
  scope.running = false;
  running -= 1;
  if (running === 0) {
    // While it is in use, Node 20 makes every promise of the process more expensive.
    scopes.disable();
  }
}

/** Runs one consumer's spill callback; never throws what that throws. */
export async function spillConsumer(
  account: ConsumerAccount,
  requested: number,
): Promise<SpillReport> {
  const scope: SpillScope = { account, running: true, recursed: false };
  const before = account.reserved;
  running += 1;
  let error: unknown;
  try {
    await scopes.run(scope, async () => account.consumer.spill?.(requested));
  } catch (thrown) {
    error = thrown ?? new Error(`the callback threw ${String(thrown)}`);
  } finally {
    leave(scope);
  }
  return {
    consumer: `${account.consumer.name}#${account.consumer.id}`,
    requested,
    freed: Math.max(0, before - account.reserved),
    error,
    recursed: scope.recursed,
    kept: account.exempted,
  };
}

/** What went wrong with a spill, in words; nothing when it did its work. */
export function describeFailure({ consumer, freed, error, recursed, kept }: SpillReport): string[] {
  const notes: string[] = [];
  if (error !== undefined) {
    notes.push(`failed (${error instanceof Error ? error.message : String(error)})`);
  } else if (freed === 0) {
    notes.push('freed nothing');
  }
  if (recursed) {
    notes.push('asked for room while it was to make some');
  }
  if (kept > 0) {
    notes.push(`kept ${formatSize(kept)} of what it may hold only while it spills`);
  }
  return notes.length === 0 ? [] : [`${consumer} ${notes.join(', ')}`];
}
