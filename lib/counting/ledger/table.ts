/** The table that a ledger prints as: at most 80 columns. */
import path from 'node:path';
import Table from 'cli-table3';
import { formatSize } from '../../format';
import type { LedgerData } from '../ledger';

/** Sum of these and five borders is 80. */
const WIDTHS = [13, 24, 12, 26];

export function renderLedger(data: LedgerData): string {
  const table = new Table({
    colWidths: WIDTHS,
    colAligns: ['left', 'left', 'right', 'left'],
    wordWrap: true,
    wrapOnWordBoundary: false,
    style: { head: [], border: [], compact: true },
    head: ['ledger', 'what', 'resident', 'note'],
  });
  for (const { category, name, bytes, note } of data.lines) {
    const shown = category === 'files' ? path.basename(name) : name;
    table.push([category, shown, formatSize(bytes), note]);
  }
  table.push(['RSS', '', formatSize(data.rss), `${percent(data)} % unexplained`]);
  const below =
    data.untouched > 0 ? [`live but never written to: ${formatSize(data.untouched)}`] : [];
  if (data.reason !== undefined) below.push(data.reason);
  return [table.toString(), ...below].join('\n');
}

function percent({ rss, unexplained }: LedgerData): string {
  return rss === 0 ? '0' : ((100 * unexplained) / rss).toFixed(1);
}
