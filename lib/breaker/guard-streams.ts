import { Transform, type TransformCallback } from 'node:stream';
import { TransformStream } from 'node:stream/web';
import { ArgumentTypeError } from '../errors';
import { type GuardBatchesOptions, shedError } from './guard-batches';

/** Options of {@link guardTransform}. */
export interface GuardTransformOptions extends GuardBatchesOptions {
  /** Chunks are any values but `null`, instead of bytes. Default false. */
  objectMode?: boolean | undefined;
}

/**
 * A `Transform` that passes chunks through untouched and in order and looks at the breaker before it
 * hands each on. When that has tripped, the stream is destroyed with the error of the shed task; in a
 * `pipeline` that closes the source. It holds one chunk, no more.
 *
 * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function guardTransform(options: GuardTransformOptions): Transform {
  checkOptions(options);
  const { objectMode = false } = options;
  if (typeof objectMode !== 'boolean') {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'objectMode',
      objectMode,
      'true or false',
    );
  }
  return new GuardTransform(options, objectMode);
}

/**
 * The same as {@link guardTransform} for Web streams: for `pipeThrough`. When the breaker has tripped,
 * both sides are errored and the source is cancelled.
 *
 * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function guardTransformStream<T = unknown>(
  options: GuardBatchesOptions,
): TransformStream<T, T> {
  checkOptions(options);
  return new TransformStream<T, T>({
    async transform(chunk, controller) {
      const verdict = options.breaker.check();
      if (verdict === true || (verdict !== false && (await verdict))) {
        throw shedError(options);
      }
      controller.enqueue(chunk);
    },
    // The writable side with a high-water mark of 0 would never ask for anything; the chunk it has
    // room for is the one in hand.
  });
}

class GuardTransform extends Transform {
  readonly #options: GuardBatchesOptions;

  constructor(options: GuardBatchesOptions, objectMode: boolean) {
    // Zero on both sides: a chunk is taken, and the next only when that one was read.
    super({ objectMode, readableHighWaterMark: 0, writableHighWaterMark: 0 });
    this.#options = options;
  }

  override _transform(chunk: unknown, _encoding: BufferEncoding, callback: TransformCallback) {
    let verdict: boolean | Promise<boolean>;
    try {
      verdict = this.#options.breaker.check();
    } catch (error) {
      callback(error as Error);
      return;
    }
    if (typeof verdict === 'boolean') {
      this.#decide(verdict, chunk, callback);
      return;
    }
    verdict.then(
      (tripped) => this.#decide(tripped, chunk, callback),
      (error: unknown) => callback(error as Error),
    );
  }

  #decide(tripped: boolean, chunk: unknown, callback: TransformCallback): void {
    // It may have been destroyed while the verdict was waited for: that reason stands.
    if (this.destroyed) {
      callback();
      return;
    }
    if (tripped) {
      callback(shedError(this.#options) as Error);
      return;
    }
    // Not through the callback, which drops `undefined`.
    this.push(chunk);
    callback();
  }
}

function checkOptions(options: GuardBatchesOptions): void {
  if (typeof options?.breaker?.check !== 'function') {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'breaker',
      options?.breaker,
      'an object with a check() method',
    );
  }
}
