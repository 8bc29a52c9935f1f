// Syncs a file, or a directory's entries, to disk. Blocks the thread, so call it only where no requests are served.

import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Throws the file system's error. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
