/** The build that ships and the developers' build compile the same sources. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/tools';

test('binding.gyp and CMakeLists.txt list the same engine sources', () => {
  const gyp = readFileSync(path.join(root, 'binding.gyp'), 'utf8');
  const cmake = readFileSync(path.join(root, 'native', 'CMakeLists.txt'), 'utf8');
  const shipped = [...gyp.matchAll(/"native\/(\w+\/\w+\.cc)"/g)].map((match) => match[1]);
  const list = cmake.match(/set\(ENGINE_SOURCES([^)]*)\)/)?.[1] ?? '';
  const developed = list.trim().split(/\s+/);
  expect(shipped.length).toBeGreaterThan(10);
  expect(developed.sort()).toEqual(shipped.sort());
});
