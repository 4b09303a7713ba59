// Benchmarks run in processes of their own: an allocator can only be preloaded.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';

export const root = path.join(import.meta.dirname, '..', '..');

/** Debian's allocators, where they are installed. */
export function preload(name) {
  const file = { jemalloc: 'libjemalloc.so.2', tcmalloc: 'libtcmalloc_minimal.so.4' }[name];
  for (const directory of [`/usr/lib/${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu`]) {
    const candidate = path.join(directory, file);
    if (existsSync(candidate)) return candidate;
  }
  throw new Error(`${name} is not installed (${file})`);
}

/** Runs a script of bench/children and returns the JSON that it prints. */
export function runChild(script, args = [], { env = {}, nodeArgs = [] } = {}) {
  const file = path.join(root, 'bench', 'children', script);
  const text = execFileSync(process.execPath, [...nodeArgs, file, ...args.map(String)], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  });
  return JSON.parse(text);
}
