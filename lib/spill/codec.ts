/** Turns batches into bytes and back. */
export interface SpillCodec<Batch> {
  /** For messages. */
  readonly name: string;
  /**
   * The bytes of a batch, at most 1 GiB; they are left alone once the append has ended. May be a
   * view of what the batch holds, which must then not change until that.
   */
  encode(batch: Batch): Uint8Array;
  /**
   * Told of bytes from `encode` that are written, or given up, so that their memory can be used again.
   */
  release?(bytes: Uint8Array): void;
  /** The batch of these bytes, which are its own to keep: nobody else uses their memory. */
  decode(bytes: Buffer): Batch;
}
