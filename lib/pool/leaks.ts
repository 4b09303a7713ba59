import { formatSize } from '../sizes';
import type { ConsumerAccount } from './consumer-registry';
import type { MemoryPool } from './memory-pool';
import type { MemoryReservation } from './memory-reservation';
import type { LeakReport } from './pool-observer';

/** What a reservation holds, apart from it, so that it can still be given back when that is gone. */
export interface Holding {
  readonly pool: MemoryPool;
  readonly account: ConsumerAccount;
  size: number;
  overcommitted: number;
}

/** Makes a reservation of what one held that was collected. */
type Revive = (holding: Holding) => MemoryReservation;

/** A leak in a loop must not flood the log. */
const MOST_WARNINGS = 100;

const warned = new Set<string>();
let revive: Revive | undefined;

const collected = new FinalizationRegistry<Holding>((holding) => {
  const { pool, account, size } = holding;
  revive?.(holding).close();
  if (size === 0) {
    return;
  }
  const { name, id } = account.consumer;
  if (pool.observer?.leaked !== undefined) {
    pool.observer.leaked({ consumer: `${name}#${id}`, bytes: size });
  } else if (!warned.has(name) && warned.size < MOST_WARNINGS) {
    warned.add(name);
    warnOfLeak({ consumer: `${name}#${id}`, bytes: size });
  }
});

/** Tells whoever reads the process's warnings. */
export function warnOfLeak({ consumer, bytes }: LeakReport): void {
  process.emitWarning(
    `A reservation of ${consumer} was dropped without being closed; its ${formatSize(bytes)} were given back. Close reservations, or declare them with \`using\``,
    { type: 'OomGuardWarning', code: 'ERR_OOM_GUARD_LEAKED' },
  );
}

/** Watches a reservation until it is closed. */
export function watchForLeak(
  reservation: MemoryReservation,
  holding: Holding,
  reviveIt: Revive,
): void {
  revive ??= reviveIt;
  collected.register(reservation, holding, holding);
}

/** It was closed. */
export function unwatchForLeak(holding: Holding): void {
  collected.unregister(holding);
}
