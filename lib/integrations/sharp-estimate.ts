import { ArgumentRangeError, ArgumentTypeError } from '../errors';

/** What is known of an image before it is decoded: of sharp's `metadata()`, as far as it matters here. */
export interface ImageMetadata {
  /** Pixels. */
  width: number;
  /** Pixels. */
  height: number;
  /** 1 to 5. Default 3, or 4 with `hasAlpha`. */
  channels?: number | undefined;
  hasAlpha?: boolean | undefined;
  /** sharp's name of the sample type, such as `uchar`, `ushort` or `float`. Default `uchar`. */
  depth?: string | undefined;
  /** Of an animation or a document, if all of them are read. Default 1. */
  pages?: number | undefined;
  /** What it is encoded as: `jpeg`, `png`, `webp`, `raw` and so on. */
  format?: string | undefined;
}

/** What is to be done with it. */
export interface ImageOperations {
  /** Pixels; one of them alone keeps the aspect ratio. */
  resize?: { width?: number | undefined; height?: number | undefined } | undefined;
  /** Anything that needs the whole image at once: rotating, also by what EXIF says. */
  rotate?: boolean | number | undefined;
  blur?: boolean | number | undefined;
  /** What it is encoded as in the end. Default the format that it has. */
  toBuffer?: string | undefined;
}

const MIB = 2 ** 20;
/** Threads' tiles, tables of codecs. */
const FIXED = 8 * MIB;
const SAMPLE_BYTES: Readonly<Record<string, number>> = {
  char: 1,
  uchar: 1,
  short: 2,
  ushort: 2,
  int: 4,
  uint: 4,
  float: 4,
  double: 8,
  complex: 8,
  dpcomplex: 16,
};
/** Of what was loaded, how much is held while it passes through. Measured, see {@link estimateImage}. */
const PASSING = 1.7;
const WHOLE = 3.5;
const BLURRED = 2.5;
/** libwebp decodes the whole image, in several planes, unless it is scaled while loading. */
const FROM_WEBP = 8;
/** Scaled, it held 6 MB of 18 in most runs and 25 in one. */
const SCALED_WEBP = 1.2;
/** Of the pixels that go in, how much an encoder holds. */
const ENCODERS: Readonly<Record<string, number>> = {
  jpeg: 0.3,
  jpg: 0.3,
  png: 0.5,
  webp: 2,
  avif: 22,
  heif: 22,
  raw: 1.2,
};
const UNKNOWN_ENCODER = 2;
const MOST_JPEG_SHRINK = 8;

/**
 * How much memory sharp will need for one image at its peak, bytes: decoded size, working buffers and
 * encoder. For `guard.admit({ estimate })`, before anything is decoded. The encoded input is not in it.
 *
 * The factors were measured over twelve combinations of jpeg, png, webp and raw sources of 1 to 24
 * megapixels with resizing, rotating, blurring and four encoders; there the estimate lies between the
 * measured peak and four times that plus 32 MiB. avif takes some 20 times the decoded size, whatever
 * the source.
 *
 * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function estimateImage(metadata: ImageMetadata, operations: ImageOperations = {}): number {
  const code = 'ERR_OOM_GUARD_INVALID_ARGUMENT';
  if (typeof metadata !== 'object' || metadata === null) {
    throw new ArgumentTypeError(
      code,
      'metadata',
      metadata,
      "what sharp's metadata() resolves with",
    );
  }
  if (typeof operations !== 'object' || operations === null) {
    throw new ArgumentTypeError(code, 'operations', operations, 'an object');
  }
  const width = count('width', metadata.width);
  const height = count('height', metadata.height);
  const channels = count('channels', metadata.channels ?? (metadata.hasAlpha === true ? 4 : 3));
  const pages = count('pages', metadata.pages ?? 1);
  const pixelBytes = channels * (SAMPLE_BYTES[metadata.depth ?? 'uchar'] ?? 1);
  const scale = scaleOf(width, height, operations);
  const { rotate = false, blur = false } = operations;
  const { loaded, factor } = loadedShare(metadata.format, scale);
  const decoded = width * height * pages * pixelBytes;
  const passing = Math.max(
    factor,
    rotate !== false ? WHOLE : 0,
    blur !== false && blur !== 0 ? BLURRED : 0,
  );
  const encoder = ENCODERS[operations.toBuffer ?? metadata.format ?? ''] ?? UNKNOWN_ENCODER;
  return Math.ceil(FIXED + decoded * loaded * passing + decoded * scale * scale * encoder);
}

/** Linear, of the output to the source; enlarging counts too. */
function scaleOf(width: number, height: number, { resize }: ImageOperations): number {
  if (resize === undefined) return 1;
  const scales: number[] = [];
  if (resize.width !== undefined) scales.push(count('resize.width', resize.width) / width);
  if (resize.height !== undefined) scales.push(count('resize.height', resize.height) / height);
  return scales.length === 0 ? 1 : Math.max(...scales);
}

/** jpeg is scaled while it is loaded: how much of the pixels that leaves. */
function loadedShare(format: string | undefined, scale: number) {
  if (format === 'webp') {
    return { loaded: 1, factor: scale < 1 ? SCALED_WEBP : FROM_WEBP };
  }
  let shrink = 1;
  if (format === 'jpeg' || format === 'jpg') {
    while (shrink < MOST_JPEG_SHRINK && 2 * shrink * scale <= 1) shrink *= 2;
  }
  return { loaded: 1 / shrink ** 2, factor: PASSING };
}

function count(name: string, value: unknown): number {
  const accepted = 'a number over 0';
  const code = 'ERR_OOM_GUARD_INVALID_ARGUMENT';
  if (typeof value !== 'number') throw new ArgumentTypeError(code, name, value, accepted);
  if (!(value > 0 && value < Number.MAX_SAFE_INTEGER)) {
    throw new ArgumentRangeError(code, name, value, accepted);
  }
  return value;
}
