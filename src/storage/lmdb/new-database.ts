// Creates the database file if there is none. It is written in a separate directory, synced, and only then renamed.
// Therefore, a file with the final name was complete at some point, even if the first startup was interrupted; if it is
// empty or truncated, it has been damaged since. Several processes (a server and the command line) may do this
// concurrently; the first rename wins. The two initial pages are written here rather than by LMDB, because the library
// crashes with SIGSEGV (use after free) if it cannot write them. This code reports the disk's own error instead.

import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { emptyDatabase } from './database-file.js';
import { syncPath } from '../sync-path.js';

const MAKING = 'new-';

/**
 * `file`: a data.mdb in an existing directory. `mapBytes`: maximum size of the file. Throws the file system's error.
 */
export function ensureDatabase(file: string, mapBytes: number): void {
  const folder = dirname(file);
  while (!existsSync(file)) {
    let making: string | null = null;
    try {
      making = mkdtempSync(join(folder, MAKING));
      writeSynced(join(making, basename(file)), emptyDatabase(mapBytes));
      giveName(join(making, basename(file)), file);
      // Syncs the file's directory and, in case they are new, its parent directories.
      for (const above of [folder, dirname(folder), dirname(dirname(folder))]) syncFolder(above);
    } catch (error) {
      if (making !== null) rmSync(making, { recursive: true, force: true });
      // Otherwise, another process was faster and may have removed the file created here.
      if (!existsSync(file)) throw error;
    }
  }
  removeLeftovers(folder);
}

/** Once the file exists, other processes' temporary files are no longer needed. */
function removeLeftovers(folder: string): void {
  for (const name of readdirSync(folder))
    if (name.startsWith(MAKING)) rmSync(join(folder, name), { recursive: true, force: true });
}

function writeSynced(path: string, bytes: Uint8Array): void {
  const descriptor = openSync(path, 'wx', 0o600);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at, bytes.length - at, at);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Never replaces an existing file. */
function giveName(made: string, file: string): void {
  try {
    linkSync(made, file);
  } catch (error) {
    if (existsSync(file)) return;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error;
    renameSync(made, file); // the file system does not support hard links
  }
}

/** Ignores errors, because parent directories may be unreadable, and some file systems cannot sync directories. */
function syncFolder(path: string): void {
  try {
    syncPath(path);
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error;
  }
}
