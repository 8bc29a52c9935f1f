// Makes the database's file where there is none: in a folder beside, synced, and only then under its name. So a file that
// has that name was whole once, and one that is empty or cut off has been damaged since, however a first start ended.
// Several processes may do so at once (a server and the command line): the first to give the name is taken by all.

import { existsSync, linkSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { open } from 'lmdb';
import type { RootDatabaseOptionsWithPath } from 'lmdb';
import { syncPath } from './sync-path.js';

const MAKING = 'new-';

/** `file`: a data.mdb, whose folder is there. Throws what the file system and LMDB say. */
export async function ensureDatabase(file: string, options: Omit<RootDatabaseOptionsWithPath, 'path'>): Promise<void> {
  const folder = dirname(file);
  while (!existsSync(file)) {
    let making: string | null = null;
    try {
      making = mkdtempSync(join(folder, MAKING));
      await open({ ...options, path: making }).close();
      syncPath(join(making, basename(file)));
      giveName(join(making, basename(file)), file);
      // With the file its folder, and the data folder where that is new too.
      for (const above of [folder, dirname(folder), dirname(dirname(folder))]) syncFolder(above);
    } catch (error) {
      if (making !== null) rmSync(making, { recursive: true, force: true });
      if (!existsSync(file)) throw error;   // else another was first, and may have removed what was made here
    }
  }
  removeLeftovers(folder);
}

/** Once the file is there: what of this is another process's, it needs no more. */
function removeLeftovers(folder: string): void {
  for (const name of readdirSync(folder)) if (name.startsWith(MAKING)) rmSync(join(folder, name), { recursive: true, force: true });
}

/** Never in place of a file that is there. */
function giveName(made: string, file: string): void {
  try {
    linkSync(made, file);
  } catch (error) {
    if (existsSync(file)) return;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    renameSync(made, file);   // a file system without links
  }
}

/** Those above may not be readable, and some file systems sync no folders. */
function syncFolder(path: string): void {
  try {
    syncPath(path);
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
