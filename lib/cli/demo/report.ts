/** The table of outcomes, and what is to be said about them. */
import Table from 'cli-table3';
import { formatSize } from '../../format';
import type { Outcome } from './run-job';
import type { Paint } from './terminal';

/** A row for each run. */
export function outcomeTable(outcomes: readonly Outcome[], paint: Paint): string {
  const table = new Table({
    head: [
      'rows in',
      'run',
      'exit',
      'live',
      'V8 heap',
      'RSS',
      'spilled',
      'refused',
      'time',
      'result',
    ],
    colAligns: ['left', 'left', 'left', ...Array(6).fill('right'), 'left'],
    // The library would colour the frame whatever the terminal.
    style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': 1 },
    chars: frame,
  });
  for (const outcome of outcomes) {
    const { plan, result } = outcome;
    table.push([
      plan.kind,
      plan.role,
      paint(describeExit(outcome), outcome.exit === 0 ? 'green' : 'red'),
      formatSize(outcome.peakLive),
      formatSize(outcome.peakHeap),
      formatSize(outcome.peakRss),
      formatSize(outcome.spilled),
      String(outcome.refusals),
      `${(outcome.duration / 1000).toFixed(1)} s`,
      result ? result.hash.slice(0, 8) : '-',
    ]);
  }
  return `${table.toString()}\nlive, V8 heap and RSS: highest seen; refused: requests without room at first;\nresult: head of the SHA-256 of the sorted rows and the aggregates`;
}

const frame = Object.fromEntries(
  ['top', 'bottom', 'left', 'right', 'mid', 'middle']
    .flatMap((side) => [side, `${side}-mid`, `${side}-left`, `${side}-right`, `mid-${side}`])
    .concat('left-mid', 'mid', 'mid-mid', 'right-mid')
    .map((name) => [name, '']),
);

function describeExit({ exit, oomKilled }: Outcome): string {
  if (oomKilled) return `${exit} kernel`;
  return exit === 134 ? '134 V8' : String(exit);
}

/** What is not as it should be: empty when the demo has shown what it is to show. */
export function unexpected(outcomes: readonly Outcome[]): string[] {
  const problems: string[] = [];
  for (const outcome of outcomes) {
    const { plan, exit, stderr } = outcome;
    const name = `${plan.kind}, ${plan.role}`;
    if (plan.role !== 'unguarded') {
      if (exit !== 0 || !outcome.result) {
        problems.push(`${name}: should have finished, ended with ${exit}\n${stderr}`);
      }
    } else if (plan.kind === 'buffers' && !(exit === 137 && outcome.oomKilled)) {
      problems.push(`${name}: should have been killed by the kernel (137), ended with ${exit}`);
    } else if (plan.kind === 'objects' && exit !== 134) {
      problems.push(`${name}: should have been aborted by V8 (134), ended with ${exit}`);
    }
    if (plan.role === 'guarded' && outcome.spilled === 0) {
      problems.push(`${name}: should have spilled, but memory was never short`);
    }
  }
  const hashes = new Set(outcomes.flatMap(({ result }) => (result ? [result.hash] : [])));
  if (hashes.size > 1) {
    problems.push(`the results differ: ${[...hashes].map((hash) => hash.slice(0, 8)).join(', ')}`);
  }
  return problems;
}
