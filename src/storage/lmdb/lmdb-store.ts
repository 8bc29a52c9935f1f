// A Store on LMDB, with values encoded by msgpackr. Several processes (a server and the command line) may have it open
// concurrently. Other processes' commits become visible with the next event-loop turn.

import { existsSync, openSync, closeSync, fsyncSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { ABORT, open } from 'lmdb';
import type { Database, RootDatabase, RootDatabaseOptionsWithPath } from 'lmdb';
import { showBytes } from '../../config/kinds.js';
import { checkHead, DamagedFile } from './database-file.js';
import { indexByOrganization } from './responses/response-tables.js';
import { splitInputs } from './responses/response-rows.js';
import { Writes } from './writes.js';
import { MissingDatabase } from '../missing-database.js';
import { ensureDatabase } from './new-database.js';
import { refusedWrite, StorageError, TABLES, undoneBy, UndoneWrite } from '../store.js';
import { indexRequestsById } from './upgrade-requests.js';
import { addFileScopes, flagRevokedKeys, keyTheHashes } from './upgrade-keys.js';
import type { Key, KeyRange, OpenedStore, Store, Table, TableName } from '../store.js';
import { loadAddon } from '../../engine/load-addon.js';
import { makeFolder } from '../../shared/make-folder.js';

/** Version of the tables' content. A newer store is refused; an older store is upgraded by this file. */
export const SCHEMA_VERSION = 15;

/** Upgrades from each version to the next. Each upgrade runs in the transaction that writes the new version number. */
const UPGRADES: Readonly<Record<number, (store: Store) => void>> = {
  1: () => undefined, // version 2 added the tables of stored responses; nothing to convert
  2: splitInputs,
  3: () => undefined, // version 4 added users, sessions and usage; nothing to convert
  4: (store) => {
    keyTheHashes(store);
    indexByOrganization(store);
  },
  5: () => undefined, // version 6 writes responses in a form that earlier releases cannot read; old rows stay readable
  6: () => undefined, // version 7 added the request log; nothing to convert
  7: flagRevokedKeys,
  8: indexRequestsById,
  9: () => undefined, // version 10 added service accounts and address lists; nothing to convert
  10: () => undefined, // version 11 added token IDs of tool calls and reasoning; nothing to convert
  11: addFileScopes, // version 12 also added files
  12: () => undefined, // version 13 added batches; nothing to convert
  13: () => undefined, // version 14 added LoRA adapters; nothing to convert
  14: () => undefined, // version 15 added stored chat completions and webhooks; nothing to convert
};

// This is address space, not memory or disk: LMDB's file grows as needed up to this size.
const MAP_BYTES = 64 * 1024 ** 3;

const OPTIONS = { maxDbs: TABLES.length + 8, mapSize: MAP_BYTES, compression: false };

// Free space needed to open the database, with some margin. LMDB maps its reader table, and the process would crash if
// the disk had no room for one of its pages.
const ROOM_BYTES = 1024 ** 2;

/** The file that contains the whole database. */
export const databasePath = (dataDir: string): string => join(dataDir, 'db', 'data.mdb');

/** The file of the database in `dataDir`. Throws MissingDatabase. */
export function existingDatabase(dataDir: string): string {
  const file = databasePath(dataDir);
  if (!existsSync(file))
    throw new MissingDatabase(
      `No database found in ${dataDir}. Check --data-dir; the first start of the server creates the database.`,
    );
  return file;
}

/** Opens or creates the database in `dataDir`. Throws StorageError. */
export async function openStore(dataDir: string): Promise<OpenedStore> {
  const root = openEnvironment(dataDir);
  let store: LmdbStore;
  try {
    store = new LmdbStore(root);
  } catch (error) {
    await root.close();
    throw unusable(dataDir, error);
  }
  try {
    await upgrade(store, dataDir);
  } catch (error) {
    await store.close();
    throw error instanceof StorageError ? error : unusable(dataDir, store.failure ?? undoneBy(error) ?? error);
  }
  return store;
}

/** Opens LMDB's environment without creating or upgrading tables. Throws StorageError. */
function openEnvironment(dataDir: string): RootDatabase {
  makeDatabase(dataDir);
  try {
    checkHead(databasePath(dataDir));
    return openLmdb({ path: join(dataDir, 'db'), ...OPTIONS });
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** Creates an empty database file if there is none. Throws StorageError. */
export function makeDatabase(dataDir: string): void {
  try {
    makeFolder(join(dataDir, 'db'), 0o700);
    if (!existsSync(databasePath(dataDir)) || !existsSync(join(dataDir, 'db', 'lock.mdb'))) probe(join(dataDir, 'db'));
    ensureDatabase(databasePath(dataDir), MAP_BYTES);
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/**
 * Throws StorageError if no more data can be written to the directory, so that a server fails at startup rather than at
 * its first request.
 */
export function ensureRoom(dataDir: string): void {
  try {
    makeFolder(join(dataDir, 'db'), 0o700);
    probe(join(dataDir, 'db'));
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** Throws the file system's error. */
function probe(folder: string): void {
  const path = join(folder, `room-${process.pid}-${threadId}`);
  const descriptor = openSync(path, 'w', 0o600);
  try {
    for (let written = 0; written < ROOM_BYTES; )
      written += writeSync(descriptor, new Uint8Array(ROOM_BYTES - written));
    fsyncSync(descriptor); // some file systems report a full disk only here
  } finally {
    closeSync(descriptor);
    rmSync(path, { force: true });
  }
}

function unusable(dataDir: string, error: unknown): StorageError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof DamagedFile) {
    return new StorageError(
      `The database ${databasePath(dataDir)} ${message}. Run "monolith data check" for details. "monolith data restore BACKUP" replaces it with a backup; without one, move the file away to start with an empty database.`,
      error,
    );
  }
  if (
    code === 'ENOSPC' ||
    code === 'EDQUOT' ||
    code === 'EFBIG' ||
    /No space left|quota|File too large/i.test(message)
  ) {
    return new StorageError(
      `Not enough disk space for the database in the data directory ${dataDir}: ${freeBytes(dataDir)} free. Free some space, or use another directory with --data-dir.`,
      error,
    );
  }
  return new StorageError(`Cannot open the database in ${dataDir}: ${message}`, error);
}

function freeBytes(path: string): string {
  try {
    const { bavail, bsize } = statfsSync(path);
    return showBytes(bavail * bsize);
  } catch {
    return 'nothing';
  }
}

async function upgrade(store: Store, dataDir: string): Promise<void> {
  const meta = store.table<number>('meta');
  await meta.insert('schema', SCHEMA_VERSION);
  for (;;) {
    const version = meta.get('schema') as number;
    if (version === SCHEMA_VERSION) return;
    const step = UPGRADES[version];
    if (step === undefined) {
      throw new StorageError(
        `The database in ${dataDir} has schema version ${String(version)}; this release requires ${SCHEMA_VERSION}. Use the release that wrote it, or another data_dir.`,
      );
    }
    await store.transaction(() => {
      step(store);
      void meta.put('schema', version + 1);
    });
  }
}

const WRITTEN = Promise.resolve();

class LmdbStore implements OpenedStore {
  /** Whether a transaction's callback is running, in which writes take effect immediately and throw if they fail. */
  inTransaction = false;
  readonly writes: Writes;
  private readonly tables = new Map<TableName, Database<unknown, Key>>();

  constructor(private readonly root: RootDatabase) {
    this.writes = new Writes(root);
    for (const name of TABLES) this.tables.set(name, root.openDB<unknown, Key>({ name, encoding: 'msgpack' }));
  }

  table<V>(name: TableName): Table<V> {
    return new LmdbTable<V>(this, this.tables.get(name) as Database<V, Key>);
  }

  async transaction<T>(work: () => T): Promise<T> {
    // LMDB commits the transactions of several callers together. Each is a child transaction, so that it can be rolled
    // back separately.
    const outcome: { result?: T; error?: unknown; failed: boolean } = { failed: false };
    await this.writes.onDisk(() =>
      this.root.childTransaction(() => {
        if (this.writes.failure !== null) return ABORT; // the caller has already received an error
        this.inTransaction = true;
        try {
          outcome.result = work();
          return undefined;
        } catch (error) {
          outcome.failed = true;
          outcome.error = error;
          return ABORT;
        } finally {
          this.inTransaction = false;
        }
      }),
    );
    if (outcome.failed) throw outcome.error;
    return outcome.result as T;
  }

  refresh(): void {
    if (!this.inTransaction && this.writes.failure === null) this.root.resetReadTxn();
  }

  get failure(): StorageError | null {
    return this.writes.failure;
  }

  onFailure(listener: (why: StorageError) => void): void {
    this.writes.onFailure(listener);
  }

  onUndone(listener: (why: StorageError) => void): void {
    this.writes.onUndone(listener);
  }

  fail(why: StorageError): void {
    this.writes.fail(why);
  }

  async close(): Promise<void> {
    await this.writes.settled();
    // Checked because, after a failure, the library would wait forever for writes that never complete.
    if (this.writes.failure === null) await this.writes.closing(this.root.close());
  }
}

class LmdbTable<V> implements Table<V> {
  constructor(
    private readonly store: LmdbStore,
    private readonly database: Database<V, Key>,
  ) {}

  get(key: Key): V | undefined {
    this.store.writes.ensureReadable();
    try {
      return this.database.get(key);
    } catch (error) {
      throw this.store.writes.readFailure(error);
    }
  }

  *range(options: KeyRange = {}): Iterable<{ key: Key; value: V }> {
    this.store.writes.ensureReadable();
    try {
      yield* this.database.getRange(rangeOptions(options));
    } catch (error) {
      throw this.store.writes.readFailure(error);
    }
  }

  *keys(options: KeyRange = {}): Iterable<Key> {
    this.store.writes.ensureReadable();
    try {
      yield* this.database.getKeys(rangeOptions(options));
    } catch (error) {
      throw this.store.writes.readFailure(error);
    }
  }

  put(key: Key, value: V): Promise<void> {
    return this.written(() => this.database.put(key, value));
  }

  insert(key: Key, value: V): Promise<boolean> {
    return this.store.writes.onDisk(() =>
      this.database.ifNoExists(key, () => {
        void this.database.put(key, value);
      }),
    );
  }

  remove(key: Key): Promise<void> {
    return this.written(() => this.database.remove(key));
  }

  private written(write: () => Promise<boolean>): Promise<void> {
    if (!this.store.inTransaction)
      return this.store.writes.onDisk(async () => {
        await write();
      });
    try {
      void write();
    } catch (error) {
      throw refusedWrite(new UndoneWrite(`Writing the database failed: ${(error as Error).message}`, error));
    }
    return WRITTEN;
  }
}

function rangeOptions({ from, to, limit, reverse }: KeyRange): {
  start?: Key;
  end?: Key;
  limit?: number;
  reverse?: boolean;
} {
  return {
    ...(from === undefined ? {} : { start: from }),
    ...(to === undefined ? {} : { end: to }),
    ...(limit === undefined ? {} : { limit }),
    ...(reverse === undefined ? {} : { reverse }),
  };
}

/**
 * Opens an LMDB environment for writing. All code must use this function, because it first enlarges the package's
 * buffer for error messages. Throws Error.
 */
function openLmdb(options: RootDatabaseOptionsWithPath): RootDatabase {
  loadAddon().guardLmdbErrors();
  return open(options);
}
