// Store over LMDB, values by msgpackr. Several processes may have it open at once (a server and the
// command line); each sees what others have committed from its next event-loop turn on.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ABORT, open } from 'lmdb';
import type { Database, RootDatabase } from 'lmdb';
import { keyTheHashes } from '../accounts/api-keys.js';
import { indexByOrganization } from './response-tables.js';
import { splitInputs } from './response-rows.js';
import { StorageError, TABLES } from './store.js';
import type { Key, KeyRange, Store, Table, TableName } from './store.js';

/** Version of what the tables hold. A store of a later version is refused; earlier ones are brought up to date here. */
export const SCHEMA_VERSION = 6;

/** From a version to the next one. Each runs in one transaction with the new version number. */
const UPGRADES: Readonly<Record<number, (store: Store) => void>> = {
  1: () => undefined,   // 2 brought the tables of stored responses; nothing was in their place
  2: splitInputs,
  3: () => undefined,   // 4 brought users, sessions, usage; nothing was in their place
  4: (store) => {
    keyTheHashes(store);
    indexByOrganization(store);
  },
  5: () => undefined,   // 6 writes responses in a form that earlier releases do not read; theirs are read as they are
};

// Address space, not memory or disk: LMDB's file grows as needed up to this.
const MAP_BYTES = 64 * 1024 ** 3;

/** Opens or creates the database in `dataDir`. Throws StorageError. */
export async function openStore(dataDir: string): Promise<Store> {
  let root: RootDatabase;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    root = open({ path: join(dataDir, 'db'), maxDbs: TABLES.length + 8, mapSize: MAP_BYTES, compression: false });
  } catch (error) {
    throw new StorageError(`The database in ${dataDir} cannot be opened: ${(error as Error).message}`, error);
  }
  const store = new LmdbStore(root);
  try {
    await upgrade(store, dataDir);
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

async function upgrade(store: Store, dataDir: string): Promise<void> {
  const meta = store.table<number>('meta');
  await meta.insert('schema', SCHEMA_VERSION);
  for (;;) {
    const version = meta.get('schema') as number;
    if (version === SCHEMA_VERSION) return;
    const step = UPGRADES[version];
    if (step === undefined) {
      throw new StorageError(`The database in ${dataDir} has schema version ${String(version)}; this release reads ${SCHEMA_VERSION}. Use the release that wrote it, or another data_dir.`);
    }
    await store.transaction(() => {
      step(store);
      void meta.put('schema', version + 1);
    });
  }
}

const WRITTEN = Promise.resolve();

class LmdbStore implements Store {
  /** Within the callback of a transaction: writes take effect at once and fail by throwing. */
  inTransaction = false;
  private readonly tables = new Map<TableName, Database<unknown, Key>>();

  constructor(private readonly root: RootDatabase) {
    for (const name of TABLES) this.tables.set(name, root.openDB<unknown, Key>({ name, encoding: 'msgpack' }));
  }

  table<V>(name: TableName): Table<V> {
    return new LmdbTable<V>(this, this.tables.get(name) as Database<V, Key>);
  }

  async transaction<T>(work: () => T): Promise<T> {
    // LMDB commits what many callers asked for together; a child transaction can be undone alone.
    const outcome: { result?: T; error?: unknown; failed: boolean } = { failed: false };
    await this.onDisk(this.root.childTransaction(() => {
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
    }));
    if (outcome.failed) throw outcome.error;
    return outcome.result as T;
  }

  /** Resolves when what was written is flushed. */
  async onDisk<T>(written: Promise<T>): Promise<T> {
    // At the end of an event-loop turn the library opens one more promise for all that was written in it, and
    // would let the failure of that one go unhandled.
    setImmediate(() => { this.root.committed.then(() => undefined, () => undefined); });
    try {
      const result = await written;
      await this.root.flushed;
      return result;
    } catch (error) {
      // The library tells the reason of a failed commit (a full disk) by a second promise, which must not stay unhandled.
      const reason = (error as { commitError?: Promise<never> }).commitError;
      const cause: unknown = reason === undefined ? error : await reason.catch((why: unknown) => why);
      throw new StorageError(`The database could not be written: ${(cause as Error).message}`, cause);
    }
  }

  refresh(): void {
    if (!this.inTransaction) this.root.resetReadTxn();
  }

  async close(): Promise<void> {
    await this.root.close();
  }
}

class LmdbTable<V> implements Table<V> {
  constructor(private readonly store: LmdbStore, private readonly database: Database<V, Key>) {}

  get(key: Key): V | undefined {
    return this.database.get(key);
  }

  *range(options: KeyRange = {}): Iterable<{ key: Key; value: V }> {
    yield* this.database.getRange(rangeOptions(options));
  }

  *keys(options: KeyRange = {}): Iterable<Key> {
    yield* this.database.getKeys(rangeOptions(options));
  }

  put(key: Key, value: V): Promise<void> {
    return this.written(() => this.database.put(key, value));
  }

  insert(key: Key, value: V): Promise<boolean> {
    return this.store.onDisk(this.database.ifNoExists(key, () => { void this.database.put(key, value); }));
  }

  remove(key: Key): Promise<void> {
    return this.written(() => this.database.remove(key));
  }

  private written(write: () => Promise<boolean>): Promise<void> {
    if (!this.store.inTransaction) return this.store.onDisk((async () => { await write(); })());
    try {
      void write();
    } catch (error) {
      throw new StorageError(`The database could not be written: ${(error as Error).message}`, error);
    }
    return WRITTEN;
  }
}

function rangeOptions({ from, to, limit, reverse }: KeyRange): { start?: Key; end?: Key; limit?: number; reverse?: boolean } {
  return {
    ...(from === undefined ? {} : { start: from }), ...(to === undefined ? {} : { end: to }),
    ...(limit === undefined ? {} : { limit }), ...(reverse === undefined ? {} : { reverse }),
  };
}
