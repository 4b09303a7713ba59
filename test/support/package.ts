/** The package as users have it: in the `node_modules` of a directory elsewhere. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
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

/** A copy of the package, its addon included, that calls itself another version; where it lies. */
export function packageCopy(version: string): string {
  const copy = path.join(temporaryDirectory(), 'node_modules', 'oom-guard');
  mkdirSync(copy, { recursive: true });
  // `npm run prebuild` leaves the addon in prebuilds/ only.
  const addons = ['build/Release/oom_guard.node', 'prebuilds'];
  for (const part of ['dist', ...addons.filter((file) => existsSync(path.join(root, file)))]) {
    cpSync(path.join(root, part), path.join(copy, part), { recursive: true });
  }
  const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  writeFileSync(path.join(copy, 'package.json'), JSON.stringify({ ...manifest, version }));
  symlinkSync(path.join(root, 'node_modules'), path.join(copy, 'node_modules'));
  return copy;
}
