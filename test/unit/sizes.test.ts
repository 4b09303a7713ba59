import { describe, expect, it } from 'vitest';
import { formatSize, parseSize } from '../../lib/sizes';

describe('parseSize', () => {
  it.each([
    [1, 1],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ['512MiB', 512 * 2 ** 20],
    ['512Mi', 512 * 2 ** 20],
    ['512 MiB', 512 * 2 ** 20],
    ['1.5GB', 1_500_000_000],
    ['1.5gb', 1_500_000_000],
    ['2GiB', 2 ** 31],
    ['2Ti', 2 ** 41],
    ['10kB', 10_000],
    ['100B', 100],
    ['0.3KiB', 307],
  ])('reads %j as %d bytes', (value, bytes) => {
    expect(parseSize(value, { name: 'limit' })).toBe(bytes);
  });

  it('takes a percentage of what it is told, rounded down', () => {
    expect(parseSize('70%', { name: 'limit', percentOf: 1001 })).toBe(700);
    expect(parseSize('12.5 %', { name: 'limit', percentOf: 1000 })).toBe(125);
    expect(() => parseSize('70%', { name: 'limit' })).toThrow(RangeError);
  });

  it.each([
    [0],
    [-1],
    [1.5],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [2 ** 53],
    [''],
    ['512'],
    ['512M'],
    ['512m'],
    ['-1GB'],
    ['+1GB'],
    ['1e9B'],
    ['GB'],
    ['1.GB'],
    ['.5GB'],
    ['1,5GB'],
    [' 1GB'],
    ['1GB '],
    ['1GBit'],
    ['512MiBx'],
    ['0B'],
    ['0.5B'],
    ['8PiB'],
    ['0%'],
    ['-5%'],
  ])('refuses %j, naming it and the accepted forms', (value) => {
    expect(() => parseSize(value, { name: 'limit', percentOf: 100 })).toThrow(
      expect.objectContaining({
        code: 'ERR_OOM_GUARD_INVALID_SIZE',
        value,
        message: expect.stringMatching(/^limit must be .*512MiB.*512Mi.*1\.5GB.*70%.*; got /),
      }),
    );
    expect(() => parseSize(value, { name: 'limit', percentOf: 100 })).toThrow(RangeError);
  });

  it.each([[undefined], [null], [10n], [{}], [[1]], [true]])('refuses %s as a type', (value) => {
    expect(() => parseSize(value, { name: 'limit' })).toThrow(TypeError);
    expect(() => parseSize(value, { name: 'limit' })).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_SIZE', value }),
    );
  });
});

describe('formatSize', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1_572_864, '1.5 MiB'],
    [500 * 2 ** 20, '500 MiB'],
    [Number.POSITIVE_INFINITY, 'unlimited'],
    [Number.NaN, 'unknown'],
  ])('writes %d as %s', (bytes, text) => {
    expect(formatSize(bytes)).toBe(text);
  });
});
