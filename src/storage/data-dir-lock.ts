// One server per data folder. The lock is a name in Linux's abstract socket namespace made of the folder's
// device and inode: the kernel drops it when the process ends, however it ends, so it is never stale.

import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { StorageError } from './store.js';

export interface DataDirLock {
  release(): Promise<void>;
}

/** Throws StorageError if another server has the folder. */
export async function lockDataDir(dataDir: string): Promise<DataDirLock> {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new StorageError(`The data folder ${dataDir} cannot be created: ${(error as Error).message}`, error);
  }
  const { dev, ino } = statSync(dataDir);
  const holder = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    holder.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'EADDRINUSE'
        ? new StorageError(`Another server uses the data folder ${dataDir}${whoHas(dataDir)}. Stop it, or give this one another data_dir.`)
        : new StorageError(`The data folder ${dataDir} cannot be locked: ${error.message}`, error));
    });
    holder.listen(`\0monolith-${dev}-${ino}`, () => resolve());
  });
  holder.unref();
  return { release: () => new Promise((resolve) => holder.close(() => resolve())) };
}

/** Where a running server can be reached: written when it is ready, removed when it ends. */
export interface ServerRecord { pid: number; url: string }

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
    if (typeof record === 'object' && record !== null && 'pid' in record && 'url' in record &&
        typeof record.pid === 'number' && typeof record.url === 'string') return { pid: record.pid, url: record.url };
  } catch {
    // absent or half written: as good as none
  }
  return null;
}

function whoHas(dataDir: string): string {
  const record = readServerRecord(dataDir);
  return record === null ? '' : ` (process ${record.pid}, ${record.url})`;
}
