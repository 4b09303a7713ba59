import { filesize } from 'filesize';

/**
 * A size for people: `formatSize(1_572_864)` is `'1.5 MiB'`.
 *
 * @param bytes any number of bytes; negative ones keep their sign, infinite ones are spelled out
 */
export function formatSize(bytes: number): string {
  if (!Number.isFinite(bytes)) {
    return Number.isNaN(bytes) ? 'unknown' : bytes > 0 ? 'unlimited' : '-unlimited';
  }
  return filesize(bytes, { base: 2, standard: 'iec', round: 1 });
}
