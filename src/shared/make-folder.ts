// Creates directories. Node's own recursive mkdir never returns if a file system such as /proc refuses with ENOENT (as
// of Node 24), so src/ uses only this function.

import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOENT: 'this file system does not allow new directories there',
  ENOTDIR: 'it is not a directory',
  EEXIST: 'it is not a directory',
  ENOSPC: 'no space left on the device',
  EDQUOT: 'the disk quota is exceeded',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'too many symbolic links',
};

/**
 * Creates a directory and its missing parents, all with the same mode. Does nothing if the directory exists. Throws an
 * Error that names the path that could not be created; its `code` is the file system's.
 */
export function makeFolder(path: string, mode = 0o777): void {
  const missing: string[] = [];
  let at = resolve(path);
  try {
    for (; !isFolder(at); at = dirname(at)) missing.push(at);
    for (at of missing.reverse()) makeOne(at, mode);
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw Object.assign(new Error(`${at}: ${REASONS[code] ?? message}`, { cause: error }), { code });
  }
}

function isFolder(path: string): boolean {
  let found: ReturnType<typeof statSync>;
  try {
    found = statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    // ENOTDIR: a parent is a file, which the caller visits next.
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return false;
    throw error;
  }
  if (found !== undefined && !found.isDirectory())
    throw Object.assign(new Error(`${path} is not a directory`), { code: 'ENOTDIR' });
  return found !== undefined;
}

/** Another process may create the directory at the same time. */
function makeOne(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !isFolder(path)) throw error;
  }
}
