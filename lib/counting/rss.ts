/** Resident memory of this process. */
import { readFileSync } from 'node:fs';
import { loadNative } from '../native';
import type { RssReading } from './readings';

const fields = new Float64Array(4);

export function readRss(): RssReading {
  const native = loadNative();
  if (native.available && native.binding.rss(fields)) {
    const [total = 0, anon = 0, file = 0, shared = 0] = fields;
    return { total, anon, file, shared };
  }
  return readStatus() ?? onlyTotal();
}

function readStatus(): RssReading | undefined {
  try {
    const status = readFileSync('/proc/self/status', 'utf8');
    const bytes = (name: string) => {
      const match = status.match(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm'));
      if (!match) throw new Error(`no ${name}`);
      return Number(match[1]) * 1024;
    };
    return {
      total: bytes('VmRSS'),
      anon: bytes('RssAnon'),
      file: bytes('RssFile'),
      shared: bytes('RssShmem'),
    };
  } catch {
    return undefined;
  }
}

/** Where the OS does not split it, all of it counts as anonymous: the careful side. */
function onlyTotal(): RssReading {
  const total = process.memoryUsage.rss();
  return { total, anon: total, file: 0, shared: 0 };
}
