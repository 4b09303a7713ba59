/** The table that a snapshot prints as: at most 80 columns. */
import path from 'node:path';
import Table from 'cli-table3';
import { formatSize } from '../format';
import type { MemoryData } from './memory';

/** Sum of these and five borders is 80. */
const WIDTHS = [27, 11, 13, 24];

export function renderMemory(data: MemoryData): string {
  const table = new Table({
    colWidths: WIDTHS,
    wordWrap: true,
    wrapOnWordBoundary: false,
    style: { head: [], border: [], compact: true },
    head: ['memory', 'mechanism', 'bytes', 'owner'],
  });
  for (const allocator of data.allocators) {
    table.push([
      allocator.name,
      allocator.mechanism,
      size(allocator.live),
      path.basename(allocator.owner),
    ]);
  }
  table.push(['live', '', size(data.live), data.counting ? '' : 'not counting']);
  for (const { name, entries } of data.breakdowns) {
    for (const { tag, bytes, spilledBytes } of entries) {
      const spilled = spilledBytes > 0 ? `${size(spilledBytes)} on disk` : '';
      table.push([`  ${tag}`, '', size(bytes), spilled === '' ? name : `${name}, ${spilled}`]);
    }
  }
  table.push([
    'usage: live + V8 heaps',
    '',
    size(data.usage),
    `${data.isolates} isolate${data.isolates === 1 ? '' : 's'}`,
  ]);
  if (data.peak !== undefined) table.push(['usage, highest', '', size(data.peak.usage), '']);
  table.push(['V8 heap used', '', size(data.heap.used), `limit ${size(data.heap.limit)}`]);
  table.push(['RSS, all', '', size(data.rss.total), '']);
  table.push(['RSS, anonymous', '', size(data.rss.anon), '']);
  table.push(['RSS, mapped files', '', size(data.rss.file), '']);
  if (data.rss.shared > 0) table.push(['RSS, shared', '', size(data.rss.shared), '']);
  if (data.container?.limit !== undefined) {
    table.push([
      'container limit',
      '',
      size(data.container.limit),
      `anonymous ${size(data.container.anon)}`,
    ]);
  } else {
    table.push(['container limit', '', 'none', '']);
  }
  return [table.toString(), 'not covered:', ...data.notCovered.map(describe)].join('\n');
}

function size(bytes: number): string {
  return bytes < 0 ? `-${formatSize(-bytes)}` : formatSize(bytes);
}

/** One line, cut at 80 columns. */
function describe(gap: { what: string; reason: string }): string {
  const line = `  ${gap.what}: ${gap.reason}`;
  return line.length <= 80 ? line : `${line.slice(0, 79)}…`;
}
