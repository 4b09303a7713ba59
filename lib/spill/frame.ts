/**
 * How a batch lies in a spill file: a header of 16 bytes, then the payload. Little-endian words:
 *
 *     0  magic, 'OGSP'
 *     1  number of the batch in the file, from 0
 *     2  length of the payload, bytes
 *     3  CRC-32 of words 0 to 2 and the payload
 */
import { crc32 } from 'node:zlib';
import { SpillCorruptionError } from './errors';

/** Bytes of a header. */
export const headerBytes = 16;

/** Longest payload, bytes: what one read or write call of Node takes, well under 2 GiB. */
export const maxPayloadBytes = 2 ** 30;

const magic = 0x5053474f;
const checksumOffset = 12;

/** What a header says. */
export interface FrameHeader {
  /** Payload, bytes. */
  length: number;
  checksum: number;
}

/** The header of payload `number`. */
export function frameHeader(number: number, payload: Uint8Array): Buffer {
  const header = Buffer.allocUnsafe(headerBytes);
  header.writeUInt32LE(magic, 0);
  header.writeUInt32LE(number, 4);
  header.writeUInt32LE(payload.byteLength, 8);
  header.writeUInt32LE(checksum(header, payload), checksumOffset);
  return header;
}

/**
 * Reads header `number` at byte `offset` of `file`, where at most `room` bytes of payload can be.
 *
 * @throws SpillCorruptionError
 */
export function readHeader(
  header: Buffer,
  number: number,
  { file, offset, room }: { file: string; offset: number; room: number },
): FrameHeader {
  const word = (at: number) => header.readUInt32LE(at);
  if (word(0) !== magic) {
    throw new SpillCorruptionError(file, offset, hex(magic), hex(word(0)));
  }
  if (word(4) !== number) {
    throw new SpillCorruptionError(file, offset, `batch ${number}`, `batch ${word(4)}`);
  }
  const length = word(8);
  if (length > room) {
    throw new SpillCorruptionError(file, offset, `a length of at most ${room} bytes`, `${length}`);
  }
  return { length, checksum: word(checksumOffset) };
}

/** CRC-32 of what `header` says and of the payload. */
export function checksum(header: Buffer, payload: Uint8Array): number {
  const ofHeader = crc32(header.subarray(0, checksumOffset));
  // Of no bytes at no address zlib returns 0, whatever it begins with.
  return payload.byteLength === 0 ? ofHeader : crc32(payload, ofHeader);
}

/** A word for messages. */
export function hex(word: number): string {
  return `0x${word.toString(16).padStart(8, '0')}`;
}
