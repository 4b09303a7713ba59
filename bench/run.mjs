// node bench/run.mjs <name> [arguments]: runs one benchmark, which prints one JSON object.
import { readdirSync } from 'node:fs';

const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.mjs') && file !== 'run.mjs')
  .map((file) => file.slice(0, -'.mjs'.length))
  .sort();
const [name, ...args] = process.argv.slice(2);

if (names.includes(name)) {
  const { default: bench } = await import(`./${name}.mjs`);
  console.log(JSON.stringify(await bench(args), null, 2));
} else {
  console.error(`usage: npm run bench -- <name> [arguments]\nnames: ${names.join(', ')}`);
  process.exitCode = 2;
}
