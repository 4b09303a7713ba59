import { ResourcesExhaustedError } from '../../errors';
import type { MemoryPool } from '../../pool';

const OUT_OF_MEMORY = /^(?:\w+ Error: )?Out of Memory Error/;
/** Such as "could not allocate block of size 256.0 KiB (259.9 MiB/260.0 MiB used)". */
const FIGURES = /of size ([\d.]+ \w+) \(([\d.]+ \w+)\/([\d.]+ \w+) used\)/;
const UNITS: Readonly<Record<string, number>> = {
  bytes: 1,
  byte: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** Whether DuckDB has failed a statement for want of memory. Its errors have no code. */
export function isOutOfMemory(error: unknown): error is Error {
  return error instanceof Error && OUT_OF_MEMORY.test(error.message);
}

/** DuckDB's own refusal as ours, with the figures that its text gives. */
export function exhaustedBy(
  error: Error,
  consumer: string,
  pool: MemoryPool | undefined,
): ResourcesExhaustedError {
  const [, requested, used, limit] = FIGURES.exec(error.message) ?? [];
  const measured = bytesOf(used) ?? 0;
  const limitBytes = bytesOf(limit);
  return new ResourcesExhaustedError({
    requested: bytesOf(requested) ?? 0,
    source: 'duckdb',
    consumer,
    limit: limitBytes,
    measured,
    available: limitBytes === undefined ? undefined : Math.max(0, limitBytes - measured),
    reserved: pool?.totalReserved ?? 0,
    consumers: pool?.consumers.largest() ?? [],
    cause: error,
  });
}

/** What DuckDB prints as `18.8 GiB`; `undefined` for anything else. */
export function bytesOf(text: string | undefined): number | undefined {
  const [number, unit] = text?.split(' ') ?? [];
  const factor = unit === undefined ? undefined : UNITS[unit];
  return factor === undefined ? undefined : Math.round(Number(number) * factor);
}
