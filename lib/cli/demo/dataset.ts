/**
 * The data set: a Parquet file of the shape of TPC-H's `lineitem`, derived from its specification
 * (columns, types, ranges and dependencies), not made by its generator. Every value is a hash of
 * the row's or the order's number, so the same DuckDB writes the same file every time.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { onExit } from '../../on-exit';

/** Part of the file's name: a new number when the rows change. */
const formatVersion = 1;

/** Most rows the job's sort key has room for (see lineitem.ts). */
export const maxRows = 8_000_000;

/** Rows of a Parquet row group: small, so that DuckDB reads it in little memory. */
const rowGroupRows = 61_440;

/** The data set as found or made. */
export interface Dataset {
  file: string;
  /** File size, bytes. */
  bytes: number;
  rows: number;
  /** False when it was kept from an earlier run. */
  created: boolean;
}

/**
 * Returns the file for `rows` rows, writing it first if there is none. `onProgress` is told the
 * share done, 0 to 1. Written under another name and renamed, so what has the name is complete.
 */
export async function ensureDataset(
  rows: number,
  onProgress: (share: number) => void,
): Promise<Dataset> {
  const file = path.join(cacheDirectory(), `lineitem-v${formatVersion}-${rows}.parquet`);
  const existing = fs.statSync(file, { throwIfNoEntry: false });
  if (existing) return { file, bytes: existing.size, rows, created: false };

  const temporary = `${file}.${process.pid}.tmp`;
  const remove = () => fs.rmSync(temporary, { force: true });
  const forget = onExit(remove);
  try {
    await writeParquet(temporary, rows, onProgress);
    fs.renameSync(temporary, file);
  } finally {
    remove();
    forget();
  }
  return { file, bytes: fs.statSync(file).size, rows, created: true };
}

/** `OOM_GUARD_DEMO_DIR`, else the user's cache directory, else (not writable) the temporary one. */
function cacheDirectory(): string {
  const chosen = process.env.OOM_GUARD_DEMO_DIR;
  if (chosen) {
    fs.mkdirSync(chosen, { recursive: true });
    return path.resolve(chosen);
  }
  const base = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
  const usual = path.join(base, 'oom-guard');
  try {
    fs.mkdirSync(usual, { recursive: true });
    fs.accessSync(usual, fs.constants.W_OK);
    return usual;
  } catch {
    // A directory for each user: the temporary one is everybody's.
    const fallback = path.join(os.tmpdir(), `oom-guard-cache-${os.userInfo().uid}`);
    fs.mkdirSync(fallback, { recursive: true, mode: 0o700 });
    return fallback;
  }
}

async function writeParquet(
  file: string,
  rows: number,
  onProgress: (share: number) => void,
): Promise<void> {
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(':memory:', {
    threads: '2',
    memory_limit: '600MB',
  });
  try {
    const connection = await instance.connect();
    const timer = setInterval(() => {
      // Below 0 as long as DuckDB cannot tell.
      onProgress(Math.max(0, connection.progress.percentage) / 100);
    }, 250);
    try {
      await connection.run('SET enable_progress_bar = true; SET enable_progress_bar_print = false');
      await connection.run(
        `COPY (${lineitemQuery(rows)}) TO ${text(file)}
         (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE ${rowGroupRows})`,
      );
    } finally {
      clearInterval(timer);
      connection.closeSync();
    }
  } finally {
    instance.closeSync();
  }
}

/** Orders have 1 to 7 lines as in TPC-H: seven orders, 28 lines, over and over. */
const orderOfPlace = [1, 2, 3, 4, 5, 6, 7].flatMap((lines) => Array(lines).fill(lines - 1));
const lineOfPlace = [1, 2, 3, 4, 5, 6, 7].flatMap((lines) =>
  Array.from({ length: lines }, (_, line) => line + 1),
);

const shipInstructions = ['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'];
const shipModes = ['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB'];

/** 32 words of TPC-H's own vocabulary for comments. */
const words = [
  ...['furiously', 'quickly', 'carefully', 'blithely', 'ironic', 'final', 'express', 'regular'],
  ...['pending', 'special', 'bold', 'silent', 'even', 'unusual', 'deposits', 'packages'],
  ...['accounts', 'requests', 'foxes', 'ideas', 'theodolites', 'instructions', 'platelets'],
  ...['pinto beans', 'dependencies', 'sleep', 'nag', 'haggle', 'wake', 'cajole', 'boost', 'detect'],
];

/** A number from 0 to `below` − 1 out of the bits of hash column `hash` from bit `shift` on. */
function draw(hash: string, shift: number, below: number): string {
  return `((${hash} >> ${shift}) % ${below})::INTEGER`;
}

function pick(hash: string, shift: number, values: readonly string[]): string {
  return `[${values.map(text).join(', ')}][1 + ${draw(hash, shift, values.length)}]`;
}

function text(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

function lineitemQuery(rows: number): string {
  const comment = [8, 13, 18, 23, 28].map((shift) => pick('h2', shift, words)).join(', ');
  return `
    WITH numbered AS (
      SELECT i, (i % 28)::INTEGER + 1 AS place, hash(i, 42) AS h, hash(i, 43) AS h2
      FROM range(${rows}) AS lines(i)
    ), placed AS (
      SELECT *, (i // 28) * 7 + [${orderOfPlace}][place] AS ordinal, [${lineOfPlace}][place] AS line
      FROM numbered
    ), ordered AS (
      SELECT *, DATE '1992-01-01' + (hash(ordinal, 1) % 2406)::INTEGER AS orderdate,
        1 + ${draw('h', 0, 200_000)} AS part, 1 + ${draw('h', 18, 50)} AS quantity
      FROM placed
    ), shipped AS (
      SELECT *, orderdate + 1 + ${draw('h', 24, 121)} AS shipdate FROM ordered
    ), received AS (
      SELECT *, shipdate + 1 + ${draw('h', 42, 30)} AS receiptdate FROM shipped
    )
    SELECT
      ((ordinal // 8) * 32 + ordinal % 8 + 1)::INTEGER AS l_orderkey,
      part AS l_partkey,
      (part + ${draw('h', 30, 4)} * 2501) % 10000 + 1 AS l_suppkey,
      line::INTEGER AS l_linenumber,
      quantity::DECIMAL(15,2) AS l_quantity,
      (quantity * (90000 + (part // 10) % 20001 + 100 * (part % 1000)) / 100)::DECIMAL(15,2)
        AS l_extendedprice,
      (${draw('h', 34, 11)} / 100)::DECIMAL(15,2) AS l_discount,
      (${draw('h', 38, 9)} / 100)::DECIMAL(15,2) AS l_tax,
      CASE WHEN receiptdate > DATE '1995-06-17' THEN 'N'
           WHEN (h >> 48) % 2 = 0 THEN 'R' ELSE 'A' END AS l_returnflag,
      CASE WHEN shipdate > DATE '1995-06-17' THEN 'O' ELSE 'F' END AS l_linestatus,
      shipdate AS l_shipdate,
      orderdate + 30 + ${draw('h', 50, 61)} AS l_commitdate,
      receiptdate AS l_receiptdate,
      ${pick('h2', 0, shipInstructions)} AS l_shipinstruct,
      ${pick('h2', 4, shipModes)} AS l_shipmode,
      substr(concat_ws(' ', ${comment}), 1, 10 + ${draw('h2', 33, 34)}) AS l_comment
    FROM received`;
}

/** The dictionaries of the columns with few values, by position, for readers of the file. */
export const dictionaries = {
  l_returnflag: ['A', 'N', 'R'],
  l_linestatus: ['F', 'O'],
  l_shipinstruct: shipInstructions,
  l_shipmode: shipModes,
} as const;
