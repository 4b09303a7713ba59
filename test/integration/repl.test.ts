/** `memory()` in a real REPL prints the table, within 80 columns. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { root } from '../support/tools';

function type(...lines: string[]): string {
  const script = path.join(root, 'test', 'fixtures', 'repl.py');
  const screen = execFileSync('python3', [script, process.execPath, ...lines], { cwd: root });
  return stripVTControlCharacters(screen.toString()).replaceAll('\r', '');
}

test('the table stands in the REPL', () => {
  const screen = type(
    "const guard = require('./dist')",
    'void guard.startCounting()',
    'void (held = Buffer.alloc(64 << 20))',
    'guard.memory()',
  );
  const table = screen.slice(screen.lastIndexOf('┌'));
  expect(table).toMatch(/malloc \(glibc\)\s*│ callsites\s*│ \d+(\.\d)? MiB\s*│ libc\.so\.6/);
  expect(table).toMatch(/live\s*│\s*│ (6[5-9]|7\d)(\.\d)? MiB/);
  expect(table).toMatch(/V8 heap used .* limit /);
  expect(table).toMatch(/RSS/);
  expect(table).toMatch(/anonymous/);
  expect(table).toMatch(/container limit/);
  expect(table).toMatch(/not covered:\n\s+WebAssembly memory: /);
  for (const line of table.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
}, 60_000);

test('before counting has started the table says so', () => {
  expect(type("require('./dist').memory()")).toMatch(/not counting/);
}, 60_000);
