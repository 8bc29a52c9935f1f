// The interface of durable state: a few named tables of key → value. Everything that must outlive the
// process goes through it; lmdb-store.ts implements it on one machine, other stores may for several.

export type Key = string | (string | number)[];

/** One table. Values are plain data (objects, arrays, strings, numbers, booleans, null, Uint8Array). */
export interface Table<V> {
  /** Reads what is committed, other processes' writes included. */
  get(key: Key): V | undefined;
  /** Entries in key order, `from` inclusive, `to` exclusive. */
  range(options?: { from?: Key; to?: Key; limit?: number; reverse?: boolean }): Iterable<{ key: Key; value: V }>;
  /** Resolves when the value is on disk. */
  put(key: Key, value: V): Promise<void>;
  /** Writes only if the key is absent; resolves to whether it did. */
  insert(key: Key, value: V): Promise<boolean>;
  remove(key: Key): Promise<void>;
}

export interface Store {
  table<V>(name: TableName): Table<V>;
  /** All writes of `work` are committed together or not at all; `work` must not await. Resolves when on disk. */
  transaction<T>(work: () => T): Promise<T>;
  close(): Promise<void>;
}

/** Every table there is, in one place: LMDB needs to know how many. */
export const TABLES = [
  'meta', 'secrets', 'organizations', 'keys', 'keys-by-hash',
  'responses', 'responses-by-time', 'response-items', 'response-events',
] as const;
export type TableName = (typeof TABLES)[number];

/** State that cannot be used; the message says what to do. */
export class StorageError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'StorageError';
  }
}
