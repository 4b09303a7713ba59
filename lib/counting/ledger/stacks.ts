/** Which anonymous mappings are threads' stacks. */
import { readdirSync } from 'node:fs';
import type { OwnMemory } from './own-memory';
import type { Mapping } from './smaps';

/**
 * The stacks of threads, also those that the C library keeps for the next thread. Since Linux 6.7 a
 * mapping made as a stack is marked as never to become huge pages (`nh`); before, the threads' stack
 * pointers tell. In both cases an inaccessible guard page lies right below. A kept or running
 * thread's stack on an older kernel is recognised by having the size of one that was told.
 */
export function findStacks(
  mappings: readonly Mapping[],
  threads: readonly string[],
  memory: OwnMemory,
): Set<Mapping> {
  const guarded = mappings.filter(
    (mapping, index) =>
      mapping.path === '' &&
      mapping.permissions === 'rw-p' &&
      !mapping.flags.includes('dc') &&
      !mapping.flags.includes('nr') &&
      isGuard(mappings[index - 1], mapping),
  );
  const named = mappings.filter(
    ({ path }) => path.startsWith('[stack') || path.includes('pthread stack'),
  );
  const marked = guarded.filter(({ flags }) => flags.includes('nh'));
  if (marked.length > 0) return new Set([...named, ...marked]);
  const pointers = memory.stackPointers(threads);
  const told = guarded.filter(({ start, end }) =>
    pointers.some((pointer) => pointer >= start && pointer < end),
  );
  const sizes = new Set(told.map(({ start, end }) => end - start));
  return new Set([...named, ...guarded.filter(({ start, end }) => sizes.has(end - start))]);
}

function isGuard(below: Mapping | undefined, mapping: Mapping): boolean {
  return below !== undefined && below.end === mapping.start && below.permissions === '---p';
}

/** Ids of this process's threads; empty where the kernel does not list them. */
export function listThreads(): string[] {
  try {
    return readdirSync('/proc/self/task');
  } catch {
    return [];
  }
}
