import { MessageChannel, type MessagePort } from 'node:worker_threads';

/** Node 22 and later. */
interface Transferable extends ArrayBuffer {
  transfer?(newLength: number): ArrayBuffer;
}

let nowhere: MessagePort | undefined;

/**
 * Gives the memory of `bytes` back now, not when a garbage collection finds it: for what is made in
 * quantity where memory is short. Only for memory that nobody else uses, so not for slices of Node's
 * pool: `bytes`, and all else that is a view of the same memory, is empty afterwards.
 */
export function freeBytes(bytes: Uint8Array): void {
  const buffer = bytes.buffer as Transferable;
  try {
    if (buffer.transfer !== undefined) {
      buffer.transfer(0);
      return;
    }
    if (nowhere === undefined) {
      const { port1, port2 } = new MessageChannel();
      port1.close();
      port2.close();
      nowhere = port1;
    }
    // A closed port takes what is transferred to it, and drops it.
    nowhere.postMessage(undefined, [buffer]);
  } catch {
    // Memory that cannot be transferred waits for the garbage collection.
  }
}
