/** The number that gates: bytes handed out and not given back. */
import { loadNative } from '../native';
import { ContainerReader } from './container';
import { readHeap, usedHeap } from './heap';
import type { Readings } from './readings';
import { readRss } from './rss';
import { countingBinding } from './start';

/**
 * Bytes that the counted allocators of this process have handed out and not got back. 0 while
 * nothing is counted. Never negative; {@link rawLiveBytes} is not clamped.
 */
export function liveBytes(): number {
  const live = rawLiveBytes();
  return Math.max(live, 0);
}

/** Like {@link liveBytes}, but below zero when more was freed than was seen allocated. */
export function rawLiveBytes(): number {
  return countingBinding()?.live() ?? 0;
}

/** One shard of the counter: totals since counting began, bytes. They never fall. */
export interface Shard {
  allocated: number;
  freed: number;
}

/**
 * The 64 shards of the counter, summed over all allocators. Each thread books into one of them.
 * Empty while nothing is counted.
 */
export function shards(): Shard[] {
  const binding = countingBinding();
  const totals = new Float64Array(binding === undefined ? 0 : 2 * binding.shardCount);
  binding?.shards(totals);
  return Array.from({ length: totals.length / 2 }, (_, index) => ({
    allocated: totals[index * 2] as number,
    freed: totals[index * 2 + 1] as number,
  }));
}

/** Live bytes plus the used heap of every isolate that has started counting. */
export function usageBytes(): number {
  const heap = usedHeap();
  return countingBinding()?.usage(heap) ?? heap;
}

/** How many isolates publish their heap, this one included. */
export function countedIsolates(): number {
  return countingBinding()?.heapCount() ?? 1;
}

let container: ContainerReader | undefined;

export function containerReader(): ContainerReader {
  container ??= new ContainerReader();
  return container;
}

/** What this process really reads. */
export const processReadings: Readings = {
  live: liveBytes,
  usage: usageBytes,
  heap: readHeap,
  container: () => containerReader().read(),
  rss: readRss,
};

/** Page size of the machine, bytes; `undefined` where the addon cannot be loaded. */
export function pageSize(): number | undefined {
  const native = loadNative();
  return native.available ? native.binding.pageSize : undefined;
}
