/** A chart of a run: usage, RSS and the limits over time. */
import { formatSize } from '../../format';
import type { Outcome } from './run-job';
import type { Paint } from './terminal';

const columns = 68;
const rows = 12;
const labelWidth = 9;
/** The axis goes up in multiples of this, bytes. */
const axisStep = 10 * 2 ** 20;

/** asciichart's: origin, axis, two ends, level, four corners, upright. */
const lineSymbols = ['┼', '┤', '╶', '╴', '─', '╰', '╭', '╮', '╯', '│'];

interface Series {
  name: string;
  values: number[];
  symbols: readonly string[];
  sign: string;
  color: Parameters<Paint>[1];
}

/** Draws `outcome` for a terminal of 80 columns. Lines differ by their signs, too, not by colour alone. */
export async function chart(outcome: Outcome, paint: Paint): Promise<string> {
  const { plot } = await import('asciichart');
  const { samples, plan } = outcome;
  const series: Series[] = [
    dotted('RSS', resample(samples.map((sample) => sample.rss)), '·', 'yellow'),
    {
      name: 'live + V8 heap',
      values: resample(samples.map((sample) => sample.live + sample.heap)),
      symbols: lineSymbols,
      sign: '─',
      color: 'green',
    },
  ];
  if (plan.guardLimit !== null) series.unshift(level('guard limit', plan.guardLimit, '-', 'cyan'));
  if (plan.kernelLimit !== null) {
    series.unshift(level('kernel limit', plan.kernelLimit, '=', 'red'));
  }
  const highest = Math.max(...series.flatMap(({ values }) => values));
  const max = Math.ceil(highest / rows / axisStep) * axisStep * rows;
  const format = (value: number) => formatSize(Math.max(0, value)).padStart(labelWidth);
  // asciichart keeps a label in one cell, so two cells of offset are label and axis.
  // One by one, with signs of their own and the same scale, then laid over each other.
  const layers = series.map(({ values, symbols }) =>
    plot(values, { min: 0, max, height: rows, offset: 2, symbols, format }).split('\n'),
  );
  const lines = (layers[0] ?? []).map((_, y) => overlay(layers, series, y, paint));
  const seconds = ((samples.at(-1)?.at ?? 0) / 1000).toFixed(0);
  const legend = series.map(({ name, sign, color }) => paint(`${sign}${sign} ${name}`, color));
  const end = `${seconds} s`;
  return [
    ...lines,
    `${' '.repeat(labelWidth)} 0 s${end.padStart(columns - '0 s'.length)}`,
    `${' '.repeat(labelWidth + 1)}${legend.reverse().join('   ')}`,
  ].join('\n');
}

/** Line `y`: in each column the last series that has something there. Label and axis are shared. */
function overlay(layers: string[][], series: Series[], y: number, paint: Paint): string {
  const lines = layers.map((layer) => [...(layer[y] ?? '')]);
  let text = (lines[0] ?? []).slice(0, labelWidth + 1).join('');
  let stretch = '';
  let owner: Series | undefined;
  const flush = () => {
    text += owner ? paint(stretch, owner.color) : stretch;
    stretch = '';
  };
  for (let x = labelWidth + 1; x <= labelWidth + columns; x++) {
    const top = lines.findLastIndex((line) => (line[x] ?? ' ') !== ' ');
    if (series[top] !== owner) flush();
    owner = series[top];
    stretch += top < 0 ? ' ' : lines[top]?.[x];
  }
  flush();
  return text.trimEnd();
}

function dotted(name: string, values: number[], sign: string, color: Series['color']): Series {
  const symbols = lineSymbols.map((symbol, index) => (index < 2 ? symbol : sign));
  return { name, values, symbols, sign, color };
}

function level(name: string, value: number, sign: string, color: Series['color']): Series {
  return dotted(name, Array(columns).fill(value), sign, color);
}

/** The highest value of each of as many stretches as the chart has columns. */
function resample(values: readonly number[]): number[] {
  if (values.length === 0) return [0];
  return Array.from({ length: columns }, (_, column) => {
    const from = Math.floor((column * values.length) / columns);
    const to = Math.max(from + 1, Math.floor(((column + 1) * values.length) / columns));
    return Math.max(...values.slice(from, to));
  });
}
