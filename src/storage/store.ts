// Durable state on one machine: a few named tables of key → value with synchronous reads, over LMDB in
// lmdb-store.ts. What implements the ports of docs/internals/storage.md is built on it; a store for several machines implements
// the ports, not this.

import { ApiError, apiError } from '../shared/errors.js';

export type Key = string | (string | number)[];

/** One table. Values are plain data (objects, arrays, strings, numbers, booleans, null, Uint8Array). */
export interface Table<V> {
  /** Reads what is committed, other processes' writes included. */
  get(key: Key): V | undefined;
  /** Entries in key order, `from` inclusive, `to` exclusive. */
  range(options?: KeyRange): Iterable<{ key: Key; value: V }>;
  /** The keys alone: nothing of the values is read. */
  keys(options?: KeyRange): Iterable<Key>;
  /** Resolves when the value is on disk; within a transaction it is written at once, and a failure is thrown there. */
  put(key: Key, value: V): Promise<void>;
  /** Writes only if the key is absent; resolves to whether it did. */
  insert(key: Key, value: V): Promise<boolean>;
  /** As put(). */
  remove(key: Key): Promise<void>;
}

/** With `reverse` the order is descending, from `from` down to before `to`. */
export interface KeyRange {
  from?: Key;
  to?: Key;
  limit?: number;
  reverse?: boolean;
}

/** A write that cannot be stored rejects with ApiError 503 `maintenance`; within a transaction it throws that. */
export interface Store {
  table<V>(name: TableName): Table<V>;
  /** All writes of `work` are committed together or not at all; `work` must not await. Resolves when on disk. */
  transaction<T>(work: () => T): Promise<T>;
  /** Reads from here on see what other threads and processes have committed until now, not only until this event-loop turn. */
  refresh(): void;
  close(): Promise<void>;
}

/** A store that one process has open, until it fails. */
export interface OpenedStore extends Store {
  /** Why nothing can be written any more until the database is opened again: every write rejects and every read throws, with ApiError 503 maintenance. */
  readonly failure: StorageError | null;
  /** Called once, at once if it has failed already. */
  onFailure(listener: (why: StorageError) => void): void;
  /** Called with the reason of each write that was undone, such as a full disk. */
  onUndone(listener: (why: StorageError) => void): void;
  /** It has failed on another thread. */
  fail(why: StorageError): void;
}

/** Every table there is, in one place: LMDB needs to know how many. */
export const TABLES = [
  'meta',
  'secrets',
  'organizations',
  'keys',
  'keys-by-hash',
  'keys-by-organization',
  'users',
  'users-by-email',
  'memberships',
  'members-by-user',
  'invites',
  'sessions',
  'tokens',
  'attempts',
  'audit',
  'second-factors',
  'identities',
  'organization-settings',
  'model-settings',
  'engine-settings',
  'engine-holds',
  'tune-runs',
  'usage-rows',
  'usage-hours',
  'usage-months',
  'served-models',
  'saved',
  'saved-contents',
  'saved-by-user',
  'usage-latencies',
  'requests',
  'requests-by-organization',
  'request-texts',
  'live-sums',
  'live-keys',
  'prices',
  'budgets',
  'responses',
  'response-resources',
  'response-inputs',
  'response-outputs',
  'response-images',
  'response-items',
  'response-events',
  'response-times',
  'responses-by-organization',
] as const;
export type TableName = (typeof TABLES)[number];

/** State that cannot be used; the message says what to do. */
export class StorageError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'StorageError';
  }
}

/** A write that LMDB undid as a whole, such as one for which the disk has no room. Later writes may succeed. */
export class UndoneWrite extends StorageError {}

/** What a client sees of a write that was not stored. The reason stays with `cause`. */
export const refusedWrite = (cause: StorageError): ApiError =>
  apiError('maintenance', 'The server cannot store anything at the moment.', null, { cause });

/** The reason if the error is that of an undone write, else null. */
export const undoneBy = (error: unknown): UndoneWrite | null =>
  error instanceof ApiError && error.cause instanceof UndoneWrite ? error.cause : null;
