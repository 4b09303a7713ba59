/** The package as users have it: in the `node_modules` of a directory elsewhere. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';
import { root } from './tools';

/** A directory that is removed after the tests of this file. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'oom-guard-test-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A project that depends on this package, by a link. */
export function linkedProject(): string {
  const directory = temporaryDirectory();
  mkdirSync(path.join(directory, 'node_modules'));
  symlinkSync(root, path.join(directory, 'node_modules', 'oom-guard'));
  return directory;
}

/** A project with a copy of the package in which no addon was ever built. */
export function projectWithoutAddon(): string {
  const directory = temporaryDirectory();
  const copy = path.join(directory, 'node_modules', 'oom-guard');
  mkdirSync(copy, { recursive: true });
  for (const part of ['package.json', 'dist']) {
    cpSync(path.join(root, part), path.join(copy, part), { recursive: true });
  }
  symlinkSync(path.join(root, 'node_modules'), path.join(copy, 'node_modules'));
  return directory;
}
