// Makes the database's file where there is none: in a folder beside, synced, and only then under its name. So a file that
// has that name was whole once, and one that is empty or cut off has been damaged since, however a first start ended.
// Several processes may do so at once (a server and the command line): the first to give the name is taken by all.
// The two pages are written here and not by LMDB: a process in which LMDB cannot write them ends with SIGSEGV, for the
// library uses what it has freed; here the disk's own error is what is said.

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

/** `file`: a data.mdb, whose folder is there. `mapBytes`: up to which it may grow. Throws what the file system says. */
export function ensureDatabase(file: string, mapBytes: number): void {
  const folder = dirname(file);
  while (!existsSync(file)) {
    let making: string | null = null;
    try {
      making = mkdtempSync(join(folder, MAKING));
      writeSynced(join(making, basename(file)), emptyDatabase(mapBytes));
      giveName(join(making, basename(file)), file);
      // With the file its folder, and the data folder where that is new too.
      for (const above of [folder, dirname(folder), dirname(dirname(folder))]) syncFolder(above);
    } catch (error) {
      if (making !== null) rmSync(making, { recursive: true, force: true });
      if (!existsSync(file)) throw error; // else another was first, and may have removed what was made here
    }
  }
  removeLeftovers(folder);
}

/** Once the file is there: what of this is another process's, it needs no more. */
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

/** Never in place of a file that is there. */
function giveName(made: string, file: string): void {
  try {
    linkSync(made, file);
  } catch (error) {
    if (existsSync(file)) return;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error;
    renameSync(made, file); // a file system without links
  }
}

/** Those above may not be readable, and some file systems sync no folders. */
function syncFolder(path: string): void {
  try {
    syncPath(path);
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error;
  }
}
