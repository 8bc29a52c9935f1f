// Durable state on one machine: named key-value tables with synchronous reads, implemented with LMDB in lmdb-store.ts.
// The LMDB implementations of the ports in docs/internals/storage.md use it; stores for several machines implement the
// ports directly.

import { ApiError, apiError } from '../shared/errors.js';

export type Key = string | (string | number)[];

/** One table. Values are plain data (objects, arrays, strings, numbers, booleans, null, Uint8Array). */
export interface Table<V> {
  /** Reads committed data, including other processes' writes. */
  get(key: Key): V | undefined;
  /** Returns the entries in key order, `from` inclusive, `to` exclusive. */
  range(options?: KeyRange): Iterable<{ key: Key; value: V }>;
  /** Returns only the keys, without reading any values. */
  keys(options?: KeyRange): Iterable<Key>;
  /** Resolves when the value is on disk. Within a transaction, it is written immediately and failures are thrown. */
  put(key: Key, value: V): Promise<void>;
  /** Writes only if the key is absent. Resolves to whether it did. */
  insert(key: Key, value: V): Promise<boolean>;
  /** Like put(). */
  remove(key: Key): Promise<void>;
}

/** With `reverse`, the order is descending, starting at `from` and ending before `to`. */
export interface KeyRange {
  from?: Key;
  to?: Key;
  limit?: number;
  reverse?: boolean;
}

/** A write that cannot be stored rejects with ApiError 503 `maintenance`; within a transaction, the error is thrown. */
export interface Store {
  table<V>(name: TableName): Table<V>;
  /** Commits all of `work`'s writes together or not at all; `work` must not await. Resolves when they are on disk. */
  transaction<T>(work: () => T): Promise<T>;
  /**
   * Makes all commits of other threads and processes so far visible to later reads, not only commits up to the start of
   * this event-loop turn.
   */
  refresh(): void;
  close(): Promise<void>;
}

/** An opened store, which also reports its failure. */
export interface OpenedStore extends Store {
  /**
   * Why the store has failed; null if it has not. After a failure, the database must be reopened: until then, every
   * write rejects and every read throws ApiError 503 maintenance.
   */
  readonly failure: StorageError | null;
  /** `listener` is called once, or immediately if the store has already failed. */
  onFailure(listener: (why: StorageError) => void): void;
  /** The listener is called for each write that was rolled back, with the reason, such as a full disk. */
  onUndone(listener: (why: StorageError) => void): void;
  /** Reports that the store has failed on another thread. */
  fail(why: StorageError): void;
}

/** All tables are in one list, because LMDB must know how many there are. */
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
  'service-accounts',
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
  'prompt-pins',
  'usage-rows',
  'usage-hours',
  'usage-months',
  'served-models',
  'adapters',
  'saved',
  'saved-contents',
  'saved-by-user',
  'usage-latencies',
  'requests',
  'requests-by-organization',
  'requests-by-id',
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
  'alert-incidents',
  'conversations',
  'conversation-items',
  'conversation-images',
  'conversation-item-ids',
  'conversation-times',
  'conversations-by-organization',
  'replays',
  'replays-by-time',
  'replays-by-response',
  'replay-sizes',
  'chat-completions',
  'chat-completion-texts',
  'chat-completion-times',
  'webhook-endpoints',
  'webhook-jobs',
  'webhook-due',
  'webhook-pending',
  'webhook-deliveries',
  'conversation-counts',
  'files',
  'files-by-organization',
  'file-contents',
  'file-rows',
  'file-times',
  'file-holds',
  'file-sizes',
  'uploads',
  'uploads-by-organization',
  'upload-parts',
  'batches',
  'batches-by-organization',
  'batch-lines',
  'batch-queue',
  'batch-results',
  'batch-times',
] as const;
export type TableName = (typeof TABLES)[number];

/** Thrown if persistent state cannot be used. The message says what to do. */
export class StorageError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'StorageError';
  }
}

/**
 * Thrown for a write that LMDB rolled back completely, for example because the disk is full. Later writes may
 * succeed.
 */
export class UndoneWrite extends StorageError {}

/** The error that a client receives for a write that was not stored. The reason is kept in `cause`. */
export const refusedWrite = (cause: StorageError): ApiError =>
  apiError('maintenance', 'The server cannot store data right now.', null, { cause });

/** The rolled-back write that caused the error; null if the error has another cause. */
export const undoneBy = (error: unknown): UndoneWrite | null =>
  error instanceof ApiError && error.cause instanceof UndoneWrite ? error.cause : null;
