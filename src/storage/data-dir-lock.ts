// One server per data folder. The lock is the kernel's, on a file in the folder: it holds between containers that
// share the folder, and goes when the process ends, however it ends, so it is never stale. What is written in the
// file only names the holder.

import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { loadAddon } from '../engine/load-addon.js';
import { StorageError } from './store.js';

export interface DataDirLock {
  /** Idempotent. */
  release(): void;
}

/** A file of no other use. */
export const lockPath = (dataDir: string): string => join(dataDir, 'lock');
const NAME_BYTES = 256;

/** Throws StorageError if another server has the folder. */
export function lockDataDir(dataDir: string): DataDirLock {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new StorageError(`The data folder ${dataDir} cannot be created: ${(error as Error).message}`, error);
  }
  const descriptor = openLocked(dataDir);
  try {
    ftruncateSync(descriptor);
    writeSync(descriptor, `process ${process.pid} on ${hostname()}\n`, 0);
  } catch {
    // A full disk: the lock holds all the same, and opening the database says what is wrong.
  }
  let held = true;
  return {
    release: () => {
      if (held) closeSync(descriptor);
      held = false;
    },
  };
}

function openLocked(dataDir: string): number {
  for (;;) {
    let descriptor: number | null = null;
    try {
      descriptor = openSync(lockPath(dataDir), 'a+', 0o600); // closed in children, as Node opens everything
      const locked = loadAddon().lockFile(descriptor);
      if (!locked) {
        throw new StorageError(
          `Another server uses the data folder ${dataDir}${whoHas(dataDir)}. Stop it, or give this one another folder with --data-dir.`,
        );
      }
      if (isAt(lockPath(dataDir), descriptor)) return descriptor;
      closeSync(descriptor); // somebody removed the file in between: what is locked is not what others will open
    } catch (error) {
      if (descriptor !== null) closeSync(descriptor);
      if (error instanceof StorageError) throw error;
      throw new StorageError(`The data folder ${dataDir} cannot be locked: ${(error as Error).message}`, error);
    }
  }
}

function isAt(path: string, descriptor: number): boolean {
  const held = fstatSync(descriptor);
  const there = statSync(path, { throwIfNoEntry: false });
  return there?.ino === held.ino && there.dev === held.dev;
}

/** Where a running server can be reached: written when it is ready, removed when it ends. */
export interface ServerRecord {
  pid: number;
  url: string;
}

const recordPath = (dataDir: string): string => join(dataDir, 'server.json');

export function writeServerRecord(dataDir: string, record: ServerRecord): void {
  writeFileSync(recordPath(dataDir), `${JSON.stringify(record)}\n`, { mode: 0o600 });
}

export function removeServerRecord(dataDir: string): void {
  rmSync(recordPath(dataDir), { force: true });
}

/** Null if there is none. It may be left over from a server that was killed. */
export function readServerRecord(dataDir: string): ServerRecord | null {
  try {
    const record: unknown = JSON.parse(readFileSync(recordPath(dataDir), 'utf8'));
    if (
      typeof record === 'object' &&
      record !== null &&
      'pid' in record &&
      'url' in record &&
      typeof record.pid === 'number' &&
      typeof record.url === 'string'
    )
      return { pid: record.pid, url: record.url };
  } catch {
    // absent or half written: as good as none
  }
  return null;
}

function whoHas(dataDir: string): string {
  const bytes = readFileSync(lockPath(dataDir)).subarray(0, NAME_BYTES);
  const [name = ''] = bytes.toString('utf8').split('\n');
  const record = readServerRecord(dataDir);
  const parts = [name.replace(/[^\x20-\x7e]/g, ''), record?.url ?? ''].filter((part) => part !== '');
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
