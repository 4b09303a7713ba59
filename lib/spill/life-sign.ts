/**
 * A sign of life that other containers on the same machine can read: a socket in the directory, on
 * which its owner listens. When the owner is gone, however it went, the kernel refuses connections.
 */
import net from 'node:net';
import path from 'node:path';

const name = 'alive';

/** What a socket's path may take on all systems, bytes; longer ones may be cut off silently. */
const pathBytes = 100;

/** Gives the sign in `directory` until what it returns is called. Does without where it cannot. */
export function giveLifeSign(directory: string): () => void {
  const socket = path.join(directory, name);
  if (process.platform === 'win32' || Buffer.byteLength(socket) > pathBytes) return () => {};
  const server = net.createServer((connection) => connection.destroy());
  server.on('error', () => {});
  // Exclusive: in a cluster it would otherwise be the primary that listens.
  server.listen({ path: socket, exclusive: true });
  server.unref();
  return () => server.close();
}

/**
 * Whether the owner of `directory` is known to be gone. A directory without the sign tells nothing:
 * it may just have been made. Never rejects.
 */
export function lifeSignGone(directory: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = path.join(directory, name);
    if (Buffer.byteLength(socket) > pathBytes) {
      resolve(false);
      return;
    }
    const connection = net.connect({ path: socket });
    const answer = (gone: boolean) => {
      connection.destroy();
      resolve(gone);
    };
    connection.once('connect', () => answer(false));
    connection.on('error', ({ code }: NodeJS.ErrnoException) => answer(code === 'ECONNREFUSED'));
  });
}
