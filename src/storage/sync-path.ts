// Puts a file, or the names in a folder, on disk. Blocks: any thread, where nobody waits for answers.

import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Throws what the file system says. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
