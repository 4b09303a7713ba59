/** `npm run demo`. */
import { runDemo, settingsFrom } from './demo/main';

async function main(): Promise<void> {
  process.exitCode = await runDemo(settingsFrom(process.env));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
