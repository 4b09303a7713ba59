// count.mjs <directory> <checks passed> <checks failed>: adds up what the runners reported, prints
// "N passed, M failed" as the last line and exits with 1 when anything failed. A runner that left no
// report failed.
import { readFileSync } from 'node:fs';
import path from 'node:path';

const [directory, checksPassed, checksFailed] = process.argv.slice(2);
const total = { passed: Number(checksPassed), failed: Number(checksFailed), skipped: 0 };

function add(name, read) {
  try {
    const { passed, failed, skipped } = read(readFileSync(path.join(directory, name), 'utf8'));
    console.log(`${name}: ${passed} passed, ${failed} failed, ${skipped} skipped`);
    total.passed += passed;
    total.failed += failed;
    total.skipped += skipped;
    if (passed + failed === 0) throw new Error('no test ran');
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    total.failed += 1;
  }
}

/** JUnit, as ctest writes it. */
function junit(text) {
  const attribute = (name) => Number(text.match(new RegExp(`${name}="(\\d+)"`))?.[1] ?? 0);
  const skipped = attribute('skipped') + attribute('disabled');
  const failed = attribute('failures') + attribute('errors');
  return { passed: attribute('tests') - failed - skipped, failed, skipped };
}

/** What vitest's JSON reporter writes. A file that could not be loaded has no tests. */
function vitest(text) {
  const report = JSON.parse(text);
  const broken = report.testResults.filter(
    (file) => file.status === 'failed' && file.assertionResults.every((t) => t.status !== 'failed'),
  ).length;
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + broken,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

for (const name of ['native.xml', 'asan.xml', 'tsan.xml']) add(name, junit);
add('vitest.json', vitest);

// Here everything is installed: what is skipped was not tested.
if (total.skipped > 0) {
  console.log(`${total.skipped} tests were skipped: counted as failed`);
  total.failed += total.skipped;
}
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;
