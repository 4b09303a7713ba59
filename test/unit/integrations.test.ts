import { describe, expect, it } from 'vitest';
import { estimateImage, sharpCache } from '../../lib/integrations/sharp';
import { sqliteCache } from '../../lib/integrations/sqlite';
import { MIB } from './fakes';

describe('estimateImage', () => {
  const photo = { width: 4000, height: 3000, channels: 3, format: 'jpeg' };

  it('grows with pixels, channels, depth and pages', () => {
    const plain = estimateImage(photo);
    expect(plain).toBeGreaterThan(36e6);
    expect(estimateImage({ ...photo, height: 6000 })).toBeGreaterThan(1.8 * plain);
    expect(estimateImage({ ...photo, channels: 4 })).toBeGreaterThan(plain);
    expect(estimateImage({ ...photo, channels: undefined, hasAlpha: true })).toBe(
      estimateImage({ ...photo, channels: 4 }),
    );
    expect(estimateImage({ ...photo, depth: 'ushort' })).toBeGreaterThan(1.8 * plain);
    expect(estimateImage({ ...photo, pages: 10 })).toBeGreaterThan(8 * plain);
  });

  it('knows that jpeg and webp are scaled while they load, and png is not', () => {
    const resize = { width: 400 };
    const small = (format: string) => estimateImage({ ...photo, format }, { resize });
    expect(small('jpeg')).toBeLessThan(12 * MIB);
    expect(small('webp')).toBeLessThan(small('png'));
    expect(small('png')).toBeGreaterThan(60 * MIB);
  });

  it('knows what needs the whole image, and which encoders are hungry', () => {
    const plain = estimateImage(photo);
    expect(estimateImage(photo, { rotate: 90 })).toBeGreaterThan(1.5 * plain);
    expect(estimateImage(photo, { rotate: true })).toBe(estimateImage(photo, { rotate: 90 }));
    expect(estimateImage(photo, { rotate: false })).toBe(plain);
    expect(estimateImage(photo, { toBuffer: 'avif' })).toBeGreaterThan(8 * plain);
    expect(estimateImage(photo, { resize: { width: 8000 } })).toBeGreaterThan(plain);
  });

  it.each<[unknown, unknown]>([
    [undefined, undefined],
    [{}, undefined],
    [{ width: 0, height: 1 }, undefined],
    [{ width: '10', height: 1 }, undefined],
    [{ width: 10, height: 10, channels: -1 }, undefined],
    [{ width: 10, height: 10 }, 5],
    [{ width: 10, height: 10 }, { resize: { width: Number.NaN } }],
  ])('refuses %o, %o', (metadata, operations) => {
    expect(() => estimateImage(metadata as never, operations as never)).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }),
    );
  });
});

describe('caches', () => {
  it("sharp's is emptied and has its size back", () => {
    const calls: unknown[] = [];
    const sharp = {
      cache: (options?: boolean | object) => {
        calls.push(options);
        return { memory: { max: 50 }, files: { max: 20 }, items: { max: 100 } };
      },
    };
    sharpCache(sharp)();
    expect(calls).toEqual([undefined, false, { memory: 50, files: 20, items: 100 }]);
    expect(() => sharpCache({} as never)).toThrow(/sharp must be the sharp module/);
  });

  it("SQLite's is told to shrink, whichever module it is", () => {
    const calls: unknown[] = [];
    sqliteCache({ pragma: (source) => calls.push(['pragma', source]) })();
    sqliteCache({ exec: (source) => calls.push(['exec', source]) })();
    expect(calls).toEqual([
      ['pragma', 'shrink_memory'],
      ['exec', 'PRAGMA shrink_memory'],
    ]);
    expect(() => sqliteCache(null as never)).toThrow(/database must be a database/);
    expect(() => sqliteCache({} as never)).toThrow(/database must be a database/);
  });
});
