/**
 * What a test needs beside npm's modules. Missing tools are skipped and named, or, with
 * OOM_GUARD_TEST_ALL=1, fail.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'vitest';

export const root = path.join(__dirname, '..', '..');
const all = process.env.OOM_GUARD_TEST_ALL === '1';

/** Whether a tool can be used. */
export function requireTool(name: string, available: boolean, why: string): boolean {
  if (!available && all) throw new Error(`${name} is missing: ${why}`);
  return available;
}

/** A `describe` that is skipped, with the reason in its name, when the tool is missing. */
export function describeWith(
  name: string,
  tool: { name: string; available: boolean; why: string },
  body: () => void,
): void {
  if (tool.available) {
    describe(name, body);
  } else if (all) {
    describe(name, () => {
      test(`needs ${tool.name}`, () => {
        throw new Error(`${tool.name} is missing: ${tool.why}`);
      });
    });
  } else {
    describe.skipIf(true)(`${name} (needs ${tool.name}: ${tool.why})`, body);
  }
}

const INSTALL_TOOLS = 'npm ci --ignore-scripts --prefix test/tools';

/** A module of test/tools, or a file in one. */
export function toolModule(name: string) {
  const where = path.join(root, 'test', 'tools', 'node_modules', name);
  return { name, available: existsSync(where), why: INSTALL_TOOLS, path: where };
}

/** A Node binary: this one for its own major version, else one of test/tools. */
export function nodeBinary(major: number) {
  if (process.versions.node.startsWith(`${major}.`)) {
    return { name: `Node ${major}`, available: true, why: '', path: process.execPath };
  }
  const binary = path.join(root, 'test', 'tools', 'node_modules', `node-${major}`, 'bin', 'node');
  return { name: `Node ${major}`, available: existsSync(binary), why: INSTALL_TOOLS, path: binary };
}

/** What the native tests' build leaves. */
export function nativeTestFile(name: string) {
  const file = path.join(root, 'native', 'build', 'test', 'test', name);
  return { name, available: existsSync(file), why: 'npm run test:native', path: file };
}

/** A library that the loader finds by its name, to be preloaded. Debian's package names it. */
export function preloadable(library: string, debianPackage: string) {
  const { stderr, error } = spawnSync('/bin/true', [], {
    env: { LD_PRELOAD: library },
    encoding: 'utf8',
  });
  // The loader says so and goes on when it finds none.
  const available = process.platform === 'linux' && error === undefined && stderr === '';
  return { name: library, available, why: `apt-get install ${debianPackage}` };
}
