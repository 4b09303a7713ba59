/** `estimateImage` against what sharp really holds at its peak. */
import { expect, test } from 'vitest';
import {
  estimateImage,
  type ImageMetadata,
  type ImageOperations,
} from '../../lib/integrations/sharp';
import { runFixture } from '../support/child';

const MiB = 2 ** 20;

interface Source {
  width: number;
  height: number;
  format: string;
  channels?: number;
}

interface Measured {
  metadata: ImageMetadata;
  peak: number;
}

const jpeg = (width: number, height: number): Source => ({ width, height, format: 'jpeg' });

test.each<[Source, ImageOperations]>([
  [jpeg(4000, 3000), { resize: { width: 300 }, toBuffer: 'jpeg' }],
  [jpeg(4000, 3000), { resize: { width: 3000 }, toBuffer: 'jpeg' }],
  [jpeg(4000, 3000), { rotate: 90, toBuffer: 'jpeg' }],
  [jpeg(6000, 4000), { toBuffer: 'raw' }],
  [jpeg(3000, 2000), { toBuffer: 'png' }],
  [jpeg(2000, 1500), { toBuffer: 'avif' }],
  [
    { width: 3000, height: 2000, format: 'png' },
    { resize: { width: 600 }, toBuffer: 'png' },
  ],
  [
    { width: 3000, height: 2000, format: 'png', channels: 4 },
    { rotate: 90, toBuffer: 'webp' },
  ],
  [
    { width: 3000, height: 2000, format: 'webp' },
    { resize: { width: 600 }, toBuffer: 'webp' },
  ],
  [{ width: 3000, height: 2000, format: 'webp' }, { toBuffer: 'jpeg' }],
  [{ width: 1000, height: 1000, format: 'raw' }, { toBuffer: 'avif' }],
  [
    { width: 3000, height: 3000, format: 'raw' },
    { blur: 5, toBuffer: 'jpeg' },
  ],
])('%j, %j', async (source, operations) => {
  const { metadata, peak } = await runFixture<Measured>(
    'sharp-peaks.cjs',
    [JSON.stringify({ source, operations })],
    { nodeArgs: ['--expose-gc'] },
  );
  const estimate = estimateImage(metadata, operations);
  expect(peak).toBeGreaterThan(0);
  expect(estimate).toBeGreaterThanOrEqual(peak);
  expect(estimate).toBeLessThanOrEqual(4 * peak + 32 * MiB);
});
