// Store over LMDB, values by msgpackr. Several processes may have it open at once (a server and the
// command line); each sees what others have committed from its next event-loop turn on.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ABORT, open } from 'lmdb';
import type { Database, RootDatabase } from 'lmdb';
import { StorageError, TABLES } from './store.js';
import type { Key, Store, Table, TableName } from './store.js';

/** Version of what the tables hold. A store of a later version is refused; earlier ones are brought up to date here. */
export const SCHEMA_VERSION = 1;

// Address space, not memory or disk: LMDB's file grows as needed up to this.
const MAP_BYTES = 64 * 1024 ** 3;

/** Opens or creates the database in `dataDir`. Throws StorageError. */
export async function openStore(dataDir: string): Promise<Store> {
  let root: RootDatabase;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    root = open({ path: join(dataDir, 'db'), maxDbs: TABLES.length + 4, mapSize: MAP_BYTES, compression: false });
  } catch (error) {
    throw new StorageError(`The database in ${dataDir} cannot be opened: ${(error as Error).message}`, error);
  }
  const store = new LmdbStore(root);
  try {
    await checkSchema(store.table<number>('meta'), dataDir);
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

async function checkSchema(meta: Table<number>, dataDir: string): Promise<void> {
  await meta.insert('schema', SCHEMA_VERSION);
  const version = meta.get('schema');
  if (version !== SCHEMA_VERSION) {
    throw new StorageError(`The database in ${dataDir} has schema version ${String(version)}; this release reads ${SCHEMA_VERSION}. Use the release that wrote it, or another data_dir.`);
  }
}

class LmdbStore implements Store {
  private readonly tables = new Map<TableName, Database<unknown, Key>>();

  constructor(private readonly root: RootDatabase) {
    for (const name of TABLES) this.tables.set(name, root.openDB<unknown, Key>({ name, encoding: 'msgpack' }));
  }

  table<V>(name: TableName): Table<V> {
    return new LmdbTable<V>(this.tables.get(name) as Database<V, Key>);
  }

  async transaction<T>(work: () => T): Promise<T> {
    // LMDB commits what many callers asked for together; a child transaction can be undone alone.
    const outcome: { result?: T; error?: unknown; failed: boolean } = { failed: false };
    await this.root.childTransaction(() => {
      try {
        outcome.result = work();
        return undefined;
      } catch (error) {
        outcome.failed = true;
        outcome.error = error;
        return ABORT;
      }
    });
    await this.root.flushed;
    if (outcome.failed) throw outcome.error;
    return outcome.result as T;
  }

  async close(): Promise<void> {
    await this.root.close();
  }
}

class LmdbTable<V> implements Table<V> {
  constructor(private readonly database: Database<V, Key>) {}

  get(key: Key): V | undefined {
    return this.database.get(key);
  }

  *range(options: { from?: Key; to?: Key; limit?: number; reverse?: boolean } = {}): Iterable<{ key: Key; value: V }> {
    const { from, to, limit, reverse } = options;
    yield* this.database.getRange({
      ...(from === undefined ? {} : { start: from }), ...(to === undefined ? {} : { end: to }),
      ...(limit === undefined ? {} : { limit }), ...(reverse === undefined ? {} : { reverse }),
    });
  }

  async put(key: Key, value: V): Promise<void> {
    await this.database.put(key, value);
    await this.database.flushed;
  }

  async insert(key: Key, value: V): Promise<boolean> {
    const inserted = await this.database.ifNoExists(key, () => { void this.database.put(key, value); });
    await this.database.flushed;
    return inserted;
  }

  async remove(key: Key): Promise<void> {
    await this.database.remove(key);
    await this.database.flushed;
  }
}
