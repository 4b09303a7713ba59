/** The ledger's parts on invented mappings and memory. */
import { describe, expect, test } from 'vitest';
import { Ledger } from '../../lib/counting/ledger';
import { findAbseilArena } from '../../lib/counting/ledger/abseil';
import { classify } from '../../lib/counting/ledger/classify';
import { findArenaHeaps, findMappedChunks } from '../../lib/counting/ledger/glibc-heap';
import { makeLines } from '../../lib/counting/ledger/lines';
import type { OwnMemory } from '../../lib/counting/ledger/own-memory';
import { type Mapping, parseSmaps } from '../../lib/counting/ledger/smaps';
import { findStacks } from '../../lib/counting/ledger/stacks';

const PAGE = 4096;
const KIB = 1024;
const MIB = 1024 * KIB;

const TEXT = `00400000-00b6f000 r--p 00000000 fe:00 260689                             /usr/bin/node
Size:               7612 kB
KernelPageSize:        4 kB
Rss:                5948 kB
Pss:                5948 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
7f53f2bc0000-7f53f2c00000 rw-p 00000000 00:00 0
Size:                256 kB
Rss:                 248 kB
Anonymous:           248 kB
VmFlags: rd wr mr mw me dc nr
7f53f3000000-7f53f3001000 rw-s 00000000 00:01 12    /memfd:a name (deleted)
Rss:                   4 kB
Anonymous:             0 kB
VmFlags: rd wr sh mr mw me ms
7ffe2d554000-7ffe2d575000 rw-p 00000000 00:00 0                          [stack]
Rss:                  64 kB
Anonymous:            64 kB
VmFlags: rd wr mr mw me gd ac
`;

/** Memory of which only what is written here can be read. */
class FakeMemory implements OwnMemory {
  readonly #words = new Map<number, bigint>();
  readonly readable = true;
  pointers: number[] = [];
  residentOf: (start: number, end: number) => number = () => 0;

  write(address: number, ...words: bigint[]): void {
    for (const [i, word] of words.entries()) this.#words.set(address + 8 * i, word);
  }
  read(address: number, into: Buffer): boolean {
    for (let at = 0; at + 8 <= into.length; at += 8) {
      into.writeBigUInt64LE(this.#words.get(address + at) ?? 0n, at);
    }
    return true;
  }
  resident(start: number, end: number): number {
    return this.residentOf(start, end);
  }
  stackPointers(): number[] {
    return this.pointers;
  }
  close(): void {}
}

const mapping = (start: number, size: number, more: Partial<Mapping> = {}): Mapping => ({
  start,
  end: start + size,
  permissions: 'rw-p',
  offset: 0,
  path: '',
  rss: size,
  anonymous: size,
  flags: ['ac'],
  ...more,
});

const options = (memory: OwnMemory) => ({
  pageSize: PAGE,
  memory,
  threads: [],
  glibc: true,
  own: [],
});

describe('parseSmaps', () => {
  test('reads the mappings in order', () => {
    const mappings = parseSmaps(TEXT);
    expect(mappings.map(({ path }) => path)).toEqual([
      '/usr/bin/node',
      '',
      '/memfd:a name (deleted)',
      '[stack]',
    ]);
    expect(mappings[1]).toEqual({
      start: 0x7f53f2bc0000,
      end: 0x7f53f2c00000,
      permissions: 'rw-p',
      offset: 0,
      path: '',
      rss: 248 * KIB,
      anonymous: 248 * KIB,
      flags: ['rd', 'wr', 'mr', 'mw', 'me', 'dc', 'nr'],
    });
  });

  test('takes what is there: no flags, no end, nothing', () => {
    expect(parseSmaps('')).toEqual([]);
    expect(parseSmaps('Rss: 4 kB\nnonsense\n')).toEqual([]);
    expect(parseSmaps('1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB')[0]).toMatchObject({
      rss: 4096,
      flags: [],
    });
  });
});

describe('what allocators write into their memory', () => {
  const start = 0x7f0000000000;

  test('mapped blocks of glibc: plain, aligned, joined, and something else between', () => {
    const memory = new FakeMemory();
    memory.write(start, 0n, BigInt(40 * PAGE) | 2n);
    // memalign(64): the header lies 48 bytes into the block.
    memory.write(start + 40 * PAGE + 48, 48n, BigInt(10 * PAGE - 48) | 2n);
    memory.write(start + 53 * PAGE, 0n, BigInt(7 * PAGE) | 2n);
    expect(findMappedChunks({ start, end: start + 60 * PAGE }, PAGE, memory)).toEqual([
      { start, end: start + 50 * PAGE },
      { start: start + 53 * PAGE, end: start + 60 * PAGE },
    ]);
  });

  test('no blocks where the size does not fit, or the flags are of another kind', () => {
    const memory = new FakeMemory();
    memory.write(start, 0n, BigInt(40 * PAGE) | 2n);
    expect(findMappedChunks({ start, end: start + 39 * PAGE }, PAGE, memory)).toEqual([]);
    memory.write(start, 0n, BigInt(8 * PAGE) | 3n);
    expect(findMappedChunks({ start, end: start + 8 * PAGE }, PAGE, memory)).toEqual([]);
  });

  test('heaps of arenas: a first one and one that continues it', () => {
    const memory = new FakeMemory();
    const aligned = 64 * MIB * 0x1fc0;
    const arena = BigInt(aligned) + 48n;
    memory.write(aligned, arena, 0n, BigInt(64 * MIB), BigInt(64 * MIB));
    memory.write(aligned + 64 * MIB, arena, BigInt(aligned), BigInt(MIB), BigInt(2 * MIB));
    const whole = { start: aligned - 3 * PAGE, end: aligned + 66 * MIB };
    expect(findArenaHeaps(whole, PAGE, memory)).toEqual([
      { start: aligned, end: aligned + 64 * MIB },
      { start: aligned + 64 * MIB, end: aligned + 66 * MIB },
    ]);
    expect(findArenaHeaps({ start: aligned, end: aligned + MIB }, PAGE, new FakeMemory())).toEqual(
      [],
    );
  });

  test("Abseil's arenas", () => {
    const memory = new FakeMemory();
    memory.write(start, 0x1000n, 0x4c833e95n ^ BigInt(start));
    expect(findAbseilArena({ start, end: start + 2 * PAGE }, memory)).toEqual({
      start,
      end: start + PAGE,
    });
    expect(findAbseilArena({ start: start + PAGE, end: start + 2 * PAGE }, memory)).toBeUndefined();
  });
});

describe('threads’ stacks', () => {
  const guard = (at: number) => mapping(at, PAGE, { permissions: '---p', rss: 0 });
  const layout = (flags: string[]) => [
    guard(0x10000),
    mapping(0x11000, 8 * PAGE, { flags }),
    guard(0x20000),
    mapping(0x21000, 8 * PAGE, { flags }),
    mapping(0x80000, 8 * PAGE),
  ];

  test('are marked since Linux 6.7', () => {
    const mappings = layout(['ac', 'nh']);
    expect([...findStacks(mappings, [], new FakeMemory())]).toEqual([mappings[1], mappings[3]]);
  });

  test('are found by stack pointers before; one like it is a stack too', () => {
    const mappings = layout(['ac']);
    const memory = new FakeMemory();
    expect(findStacks(mappings, ['1'], memory).size).toBe(0);
    memory.pointers = [0x11000 + 100];
    expect([...findStacks(mappings, ['1'], memory)]).toEqual([mappings[1], mappings[3]]);
  });
});

describe('classify', () => {
  test('gives each mapping to one owner', () => {
    const memory = new FakeMemory();
    const wasm = mapping(1024 * MIB, MIB, { flags: ['dc', 'nr'] });
    const mappings = [
      mapping(MIB, MIB, { path: '[heap]' }),
      mapping(16 * MIB, MIB, { flags: ['dc', 'nr'] }),
      mapping(32 * MIB, 3 * MIB, { flags: ['nr'] }),
      wasm,
      mapping(wasm.end, 8 * 1024 * MIB, { permissions: '---p', rss: 0, flags: ['dc', 'nr'] }),
      mapping(2 ** 40, MIB, { path: '/lib/a.so', rss: MIB, anonymous: 5 * PAGE }),
      mapping(2 ** 41, 4 * PAGE, { path: '/dev/shm/x', permissions: 'rw-s', anonymous: 0 }),
      mapping(2 ** 42, PAGE, { path: '[vdso]' }),
      mapping(2 ** 43, 7 * PAGE),
    ];
    const to = classify(mappings, options(memory));
    expect(to.arenas.resident).toBe(MIB);
    expect(to.v8.resident).toBe(MIB);
    expect(to.unreserved.resident).toBe(3 * MIB);
    expect(to.wasm.resident).toBe(MIB);
    expect(to.moduleData.resident).toBe(5 * PAGE);
    expect(to.files.get('/lib/a.so')?.resident).toBe(MIB - 5 * PAGE);
    expect(to.shared.resident).toBe(4 * PAGE);
    expect(to.kernel.resident).toBe(PAGE);
    expect(to.rest).toEqual([
      { range: { start: 2 ** 43, end: 2 ** 43 + 7 * PAGE }, resident: 7 * PAGE },
    ]);
  });

  test('splits a mapping that the kernel joined, to the byte', () => {
    const start = 0x7f0000000000;
    const memory = new FakeMemory();
    memory.write(start + 2 * PAGE, 0n, BigInt(32 * PAGE) | 2n);
    memory.residentOf = (from, end) => (end - from) / 2;
    const other = mapping(MIB, PAGE, { flags: ['nr'] });
    const joined = mapping(start, 40 * PAGE, { rss: 30 * PAGE });
    const to = classify([other, joined], options(memory));
    expect(to.chunks).toEqual({ mapped: 32 * PAGE, resident: 16 * PAGE });
    const left = to.rest.reduce((sum, { resident }) => sum + resident, 0);
    expect(to.chunks.resident + left).toBe(30 * PAGE);
  });
});

test('what was unmapped since the mappings were listed is told', () => {
  const memory = new FakeMemory();
  memory.read = () => false;
  const mappings = [mapping(MIB, PAGE, { flags: ['nr'] }), mapping(2 ** 43, 7 * PAGE)];
  expect(classify(mappings, options(memory)).vanished).toBe(7 * PAGE);
});

describe('lines', () => {
  const classified = () => {
    const start = 0x7f0000000000;
    const memory = new FakeMemory();
    memory.write(start, 0n, BigInt(MIB) | 2n);
    return classify(
      [
        mapping(MIB, 2 * MIB, { path: '[heap]' }),
        mapping(16 * MIB, 3 * MIB + PAGE, { flags: ['dc', 'nr'] }),
        mapping(32 * MIB, 5 * MIB, { flags: ['nr'] }),
        mapping(start, MIB, { rss: 256 * KIB }),
      ],
      options(memory),
    );
  };
  const inputs = {
    spaces: [
      { name: 'old_space', resident: 2 * MIB },
      { name: 'new_space', resident: 7 * MIB },
    ],
    threads: 1,
    glibc: true,
    uncounted: '',
  };
  const RSS = 10 * MIB + PAGE + 256 * KIB;

  test('add up to the byte, live apart from slack and from what was never written to', () => {
    const allocators = [
      { name: 'malloc (glibc)', mechanism: 'callsites' as const, live: 2 * MIB },
      { name: 'jemalloc (a_)', mechanism: 'hooks' as const, live: 1000 },
      { name: 'jemalloc (b_)', mechanism: 'stats' as const, live: 3000 },
    ].map((allocator) => ({ ...allocator, statistics: undefined }));
    const { lines, untouched } = makeLines({ ...inputs, classified: classified(), allocators });
    expect(lines.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(RSS);
    expect(lines.every(({ bytes }) => bytes >= 0 && Number.isInteger(bytes))).toBe(true);
    const bytes = (category: string, name: string) =>
      lines.find((line) => line.category === category && line.name === name)?.bytes;
    expect(untouched).toBe(768 * KIB);
    expect(bytes('live', 'malloc (glibc)')).toBe(MIB + 256 * KIB);
    expect(bytes('slack', 'malloc (glibc)')).toBe(MIB);
    expect(bytes('live', 'jemalloc (a_)')).toBe(1000);
    expect(bytes('slack', 'jemalloc (b_)')).toBe((5 * MIB * 3) / 4 - 3000);
    expect(bytes('unexplained', 'unexplained')).toBe(0);
  });

  test('say what is not attributed when nothing is counted', () => {
    const made = makeLines({
      ...inputs,
      classified: classified(),
      allocators: [],
      uncounted: 'off',
    });
    const ledger = new Ledger({ rss: RSS, ...made });
    expect(ledger.unexplained).toBe(5 * MIB);
    expect(ledger.lines.map(({ category }) => category)).toContain('live+slack');
  });
});

test('a ledger prints in 80 columns', () => {
  const ledger = new Ledger({
    rss: 5000 * MIB,
    untouched: 3 * MIB,
    lines: [
      {
        category: 'files',
        name: `/x/${'long-module-name'.repeat(5)}.node`,
        bytes: 1023.9 * MIB,
        note: '',
      },
      { category: 'unexplained', name: 'unexplained', bytes: 5, note: 'largest at 7f0000000000' },
    ],
  });
  const widths = ledger.toString().split('\n');
  expect(Math.max(...widths.map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(JSON.parse(JSON.stringify(ledger))).toMatchObject({ rss: 5000 * MIB, unexplained: 5 });
});
