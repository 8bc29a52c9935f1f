// Store over LMDB, values by msgpackr. Several processes may have it open at once (a server and the
// command line); each sees what others have committed from its next event-loop turn on.

import { existsSync, mkdirSync, openSync, closeSync, fsyncSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { ABORT } from 'lmdb';
import type { Database, RootDatabase } from 'lmdb';
import { showBytes } from '../../config/kinds.js';
import { checkHead, DamagedFile } from './database-file.js';
import { indexByOrganization } from './responses/response-tables.js';
import { splitInputs } from './responses/response-rows.js';
import { Writes } from './writes.js';
import { ensureDatabase } from './new-database.js';
import { openLmdb } from './open-lmdb.js';
import { refusedWrite, StorageError, TABLES, undoneBy, UndoneWrite } from '../store.js';
import { flagRevokedKeys, keyTheHashes } from './upgrade-keys.js';
import type { Key, KeyRange, OpenedStore, Store, Table, TableName } from '../store.js';

/** Version of what the tables hold. A store of a later version is refused; earlier ones are brought up to date here. */
export const SCHEMA_VERSION = 8;

/** From a version to the next one. Each runs in one transaction with the new version number. */
const UPGRADES: Readonly<Record<number, (store: Store) => void>> = {
  1: () => undefined, // 2 brought the tables of stored responses; nothing was in their place
  2: splitInputs,
  3: () => undefined, // 4 brought users, sessions, usage; nothing was in their place
  4: (store) => {
    keyTheHashes(store);
    indexByOrganization(store);
  },
  5: () => undefined, // 6 writes responses in a form that earlier releases do not read; theirs are read as they are
  6: () => undefined, // 7 brought the request log; nothing was in its place
  7: flagRevokedKeys,
};

// Address space, not memory or disk: LMDB's file grows as needed up to this.
const MAP_BYTES = 64 * 1024 ** 3;

const OPTIONS = { maxDbs: TABLES.length + 8, mapSize: MAP_BYTES, compression: false };

// What a new database takes, with some to spare: LMDB maps its table of readers, and a page of that which the disk
// has no room for would end the process.
const ROOM_BYTES = 1024 ** 2;

/** The file that has everything. */
export const databasePath = (dataDir: string): string => join(dataDir, 'db', 'data.mdb');

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

/** LMDB's own handle; tables are neither made nor brought up to date. Throws StorageError. */
function openEnvironment(dataDir: string): RootDatabase {
  makeDatabase(dataDir);
  try {
    checkHead(databasePath(dataDir));
    return openLmdb({ path: join(dataDir, 'db'), ...OPTIONS });
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** Has the file be there, with no table in it yet, if it is not. Throws StorageError. */
export function makeDatabase(dataDir: string): void {
  try {
    mkdirSync(join(dataDir, 'db'), { recursive: true, mode: 0o700 });
    if (!existsSync(databasePath(dataDir)) || !existsSync(join(dataDir, 'db', 'lock.mdb'))) probe(join(dataDir, 'db'));
    ensureDatabase(databasePath(dataDir), MAP_BYTES);
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** Throws StorageError if the folder takes nothing more: what a server is told at its start, not with its first request. */
export function ensureRoom(dataDir: string): void {
  try {
    mkdirSync(join(dataDir, 'db'), { recursive: true, mode: 0o700 });
    probe(join(dataDir, 'db'));
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** Throws what the file system says. */
function probe(folder: string): void {
  const path = join(folder, `room-${process.pid}-${threadId}`);
  const descriptor = openSync(path, 'w', 0o600);
  try {
    for (let written = 0; written < ROOM_BYTES; )
      written += writeSync(descriptor, new Uint8Array(ROOM_BYTES - written));
    fsyncSync(descriptor); // some file systems find out only then
  } finally {
    closeSync(descriptor);
    rmSync(path, { force: true });
  }
}

function unusable(dataDir: string, error: unknown): StorageError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof DamagedFile) {
    return new StorageError(
      `The database ${databasePath(dataDir)} ${message}. "monolith data check" says more, "monolith data restore BACKUP" puts a copy in its place; without one, move the file away to begin anew.`,
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
      `The data folder ${dataDir} has no room for the database: its disk has ${freeBytes(dataDir)} free. Free some, or name another folder with --data-dir.`,
      error,
    );
  }
  return new StorageError(`The database in ${dataDir} cannot be opened: ${message}`, error);
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
        `The database in ${dataDir} has schema version ${String(version)}; this release reads ${SCHEMA_VERSION}. Use the release that wrote it, or another data_dir.`,
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
  /** Within the callback of a transaction: writes take effect at once and fail by throwing. */
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
    // LMDB commits what many callers asked for together; a child transaction can be undone alone.
    const outcome: { result?: T; error?: unknown; failed: boolean } = { failed: false };
    await this.writes.onDisk(() =>
      this.root.childTransaction(() => {
        if (this.writes.failure !== null) return ABORT; // whoever asked for it has been refused
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
    // Of a failed environment the library would wait for writes that it never settles.
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
      throw refusedWrite(new UndoneWrite(`The database could not be written: ${(error as Error).message}`, error));
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
