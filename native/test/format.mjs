// clang-format over all C and C++ files: node native/test/format.mjs --check | --write
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';

const native = path.join(import.meta.dirname, '..');
const mode = process.argv[2] === '--write' ? ['-i'] : ['--dry-run', '--Werror'];
const files = readdirSync(native, { recursive: true })
  .filter((name) => /\.(cc|c|h)$/.test(name) && !/^build/.test(name))
  .map((name) => path.join(native, name));
const { status, error } = spawnSync('clang-format', [...mode, ...files], { stdio: 'inherit' });
if (error)
  console.error(`clang-format cannot be run (apt-get install clang-format): ${error.message}`);
process.exit(status ?? 1);
