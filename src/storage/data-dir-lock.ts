// Ensures that only one server uses a data directory. The kernel holds the lock on a file in the directory, so the lock
// also works between containers that share the directory. It is released however the process ends, so it is never
// stale. The file's content only identifies the holder.

import {
  closeSync,
  fstatSync,
  ftruncateSync,
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
import { makeFolder } from '../shared/make-folder.js';

export interface DataDirLock {
  /** Idempotent. */
  release(): void;
}

/** The path of the lock file, which has no other purpose. */
export const lockPath = (dataDir: string): string => join(dataDir, 'lock');
const NAME_BYTES = 256;

/** Throws StorageError if another server holds the lock. */
export function lockDataDir(dataDir: string): DataDirLock {
  try {
    makeFolder(dataDir, 0o700);
  } catch (error) {
    throw new StorageError(
      `Cannot create the data directory: ${(error as Error).message}. Use another directory with --data-dir.`,
      error,
    );
  }
  const descriptor = openLocked(dataDir);
  try {
    ftruncateSync(descriptor);
    writeSync(descriptor, `process ${process.pid} on ${hostname()}\n`, 0);
  } catch {
    // If the disk is full, the lock is held anyway; opening the database will report the error.
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
      // Node.js opens files close-on-exec, so child processes do not inherit the lock.
      descriptor = openSync(lockPath(dataDir), 'a+', 0o600);
      const locked = loadAddon().lockFile(descriptor);
      if (!locked) {
        throw new StorageError(
          `Another server is using the data directory ${dataDir}${lockHolder(dataDir)}. Stop it, or use another directory with --data-dir.`,
        );
      }
      if (isAt(lockPath(dataDir), descriptor)) return descriptor;
      closeSync(descriptor); // the file was deleted in the meantime, so other processes would not open the locked file
    } catch (error) {
      if (descriptor !== null) closeSync(descriptor);
      if (error instanceof StorageError) throw error;
      throw new StorageError(`Cannot lock the data directory ${dataDir}: ${(error as Error).message}`, error);
    }
  }
}

function isAt(path: string, descriptor: number): boolean {
  const held = fstatSync(descriptor);
  const there = statSync(path, { throwIfNoEntry: false });
  return there?.ino === held.ino && there.dev === held.dev;
}

/** The address of a running server. Written when the server is ready, and removed when it exits. */
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

/** Null if there is no record. A record may have been left behind by a killed server. */
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
    // Missing or incomplete, which is treated as no record.
  }
  return null;
}

function lockHolder(dataDir: string): string {
  const bytes = readFileSync(lockPath(dataDir)).subarray(0, NAME_BYTES);
  const [name = ''] = bytes.toString('utf8').split('\n');
  const record = readServerRecord(dataDir);
  const parts = [name.replace(/[^\x20-\x7e]/g, ''), record?.url ?? ''].filter((part) => part !== '');
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
