// Builds and runs the native tests: node native/test/run.mjs [--sanitize=address,undefined|thread]
// [--fuzz-seconds=10] [ctest arguments]. Exits with ctest's code.
import { spawnSync } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';

const native = path.join(import.meta.dirname, '..');
const args = process.argv.slice(2);
const option = (name) => args.find((arg) => arg.startsWith(`--${name}=`))?.split('=')[1];
const sanitize = option('sanitize') ?? '';
const settings = [
  `-DOOM_GUARD_SANITIZE=${sanitize}`,
  `-DOOM_GUARD_FUZZ_SECONDS=${option('fuzz-seconds') ?? 10}`,
];
const build = path.join(native, 'build', sanitize ? `test-${sanitize.replace(',', '-')}` : 'test');

function run(command, commandArgs, quiet) {
  const { status, stdout, error } = spawnSync(command, commandArgs, {
    stdio: ['ignore', quiet ? 'pipe' : 'inherit', 'inherit'],
    encoding: 'utf8',
  });
  if (error) console.error(`${command} cannot be run: ${error.message}`);
  if (status !== 0) {
    if (quiet && stdout) console.error(stdout);
    process.exit(status ?? 1);
  }
}

const compiler = sanitize ? ['-DCMAKE_C_COMPILER=clang', '-DCMAKE_CXX_COMPILER=clang++'] : [];
run('cmake', ['-S', native, '-B', build, ...settings, ...compiler], true);
const onAllCores = ['--parallel', String(os.cpus().length)];
run('cmake', ['--build', build, ...onAllCores], true);
// Tests of times have the cores to themselves (RUN_SERIAL).
run('ctest', [
  '--test-dir',
  build,
  '--output-on-failure',
  ...onAllCores,
  ...args.filter((arg) => !/^--(sanitize|fuzz-seconds)=/.test(arg)),
]);
