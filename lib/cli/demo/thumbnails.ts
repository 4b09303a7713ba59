/** The other tenant of the process: sharp, rendering thumbnails as long as the job runs. */
import { setTimeout as delay } from 'node:timers/promises';

/** Rests between thumbnails, so that two cores are left with time for the job, milliseconds. */
const rest = 40;

/** A renderer at work. */
export interface Thumbnails {
  /** Thumbnails rendered so far. */
  readonly count: number;
  /** Stops after the one in work. Rejects if one failed. */
  stop(): Promise<void>;
}

/** Starts rendering. sharp's memory is not reserved anywhere: it is seen because it is counted. */
export async function startThumbnails(): Promise<Thumbnails> {
  const { default: sharp } = await import('sharp');
  sharp.concurrency(1);
  sharp.cache(false);
  const picture = await sharp({
    create: {
      width: 1600,
      height: 1200,
      channels: 3,
      background: '#888',
      noise: { type: 'gaussian', mean: 128, sigma: 40 },
    },
  })
    .jpeg()
    .toBuffer();

  const sizes = [64, 128, 256, 384];
  let count = 0;
  let stopped = false;
  const work = async () => {
    while (!stopped) {
      await sharp(picture)
        .resize(sizes[count % sizes.length])
        .jpeg()
        .toBuffer();
      count++;
      await delay(rest);
    }
  };
  const done = work();
  // Reported by stop(); until then it must not count as unhandled.
  done.catch(() => {});
  return {
    get count() {
      return count;
    },
    stop() {
      stopped = true;
      return done;
    },
  };
}
