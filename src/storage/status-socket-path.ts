// The Unix socket in the data directory that a running server uses to report its status. Only the server's user can
// connect, as for the other files in the directory.

import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';

const NAME = 'status.sock';
/** The kernel's limit is 107 bytes. */
const MAX_PATH_BYTES = 100;

export const statusSocketPath = (dataDir: string): string => join(dataDir, NAME);

/**
 * Calls `use` with a path of the socket that is short enough for the kernel. The path is valid until the promise
 * settles.
 */
export async function withStatusSocket<T>(dataDir: string, use: (path: string) => Promise<T>): Promise<T> {
  const path = statusSocketPath(dataDir);
  if (Buffer.byteLength(path) <= MAX_PATH_BYTES) return await use(path);
  const folder = openSync(dataDir, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return await use(`/proc/self/fd/${folder}/${NAME}`);
  } finally {
    closeSync(folder);
  }
}
