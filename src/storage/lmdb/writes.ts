// Tracks one thread's writes to the LMDB environment until they are on disk, and detects when the environment no longer
// accepts writes. Used only on the thread that opened the store; all threads of a process share the environment.
//
// If a page cannot be written (a full disk), LMDB rolls back its transaction, and the next one may succeed. A failed
// sync or a failed write of a meta page is final: LMDB refuses every later transaction (MDB_PANIC) or, if only the sync
// failed, continues as if the kernel still had data that it may have discarded. In that case, the library does not
// settle pending promises: a write that could not start is visible only in its status, and a meta page that was synced
// but could not be marked as such is not reported at all. Therefore, three things are checked: whether anything was
// committed since a failed batch started, the status of each batch, and whether a read can start. After a failure, this
// file no longer calls the library, because each read that cannot start appends to an error text in a 300-byte buffer,
// so the process would crash at random instead of shutting down cleanly.

import { setTimeout as sleep } from 'node:timers/promises';
import type { RootDatabase } from 'lmdb';
import type { ApiError } from '../../shared/errors.js';
import { ActiveSet } from '../../shared/active-set.js';
import { refusedWrite, StorageError, UndoneWrite } from '../store.js';

const PANIC = -30795;
/**
 * The library's message if a page could not be written at all, in which case the transaction has been rolled back
 * completely. If a page was only partly written, the message is different.
 */
const UNDONE = 'Attempting to write page';
/**
 * How long to wait for the reason why a commit failed. The reason arrives in the same event-loop turn or not at all,
 * regardless of how slow the disk is.
 */
const REASON_MS = 1_000;

/** Members of the library that its types do not declare. */
interface Environment {
  startWriting(address: number, done: (status: number) => unknown): unknown;
  /** Releases the lock held by a batch. */
  resumeWriting(): void;
  /** `lastTxnId`: ID of the last transaction committed by any thread, synced or not. */
  info(): { lastTxnId: number };
}

export class Writes {
  failure: StorageError | null = null;
  /** Waiting callers. */
  readonly #waiting = new ActiveSet<(error: ApiError) => void>();
  /** Whether the last batch failed. If so, the library's close() would wait forever for its flush. */
  #failedLast = false;
  /**
   * Whether the last failed batch is known to have been rolled back, because nothing was committed between its start
   * and its end. The error code does not reveal this, because a partial page write and a failed sync both report EIO.
   */
  #undone = false;
  #endClosing: (() => void) | null = null;
  #settled: (() => void) | null = null;
  readonly #listeners: ((why: StorageError) => void)[] = [];
  readonly #undoneListeners: ((why: StorageError) => void)[] = [];

  constructor(private readonly root: RootDatabase) {
    const { env } = root as unknown as { env: Environment };
    const start = env.startWriting;
    // Overrides the property on this object, because it is read-only in the class. The callback receives progress (1,
    // 2) and is called again at the end.
    const value: Environment['startWriting'] = (address, done) => {
      const before = env.info().lastTxnId;
      return start.call(env, address, (status) => {
        if (status !== 0 && status !== 1 && status !== 2) this.#undone = env.info().lastTxnId === before;
        try {
          return done(status);
        } finally {
          if (status === PANIC) {
            // The batch did not start, but it kept the lock that closing the environment waits for, so the process
            // could not exit if it were not released here.
            env.resumeWriting();
            this.fail(lost('LMDB refuses every transaction after a disk error'));
          }
          if (status !== 1 && status !== 2) {
            this.#failedLast = status !== 0;
            if (this.#failedLast) {
              this.#settled?.();
              this.#endClosing?.();
            }
          }
        }
      });
    };
    Object.defineProperty(env, 'startWriting', { value });
  }

  /**
   * Resolves once everything written by `write` has been flushed. Rejects with ApiError 503 if the write was rolled
   * back or the store has failed.
   */
  onDisk<T>(write: () => Promise<T>): Promise<T> {
    if (this.failure !== null) return Promise.reject(refusedWrite(this.failure));
    return new Promise<T>((resolve, reject) => {
      const flushed = this.#flushed(write()); // turns the library's exception for an invalid write into a rejection
      const place = this.#waiting.add(reject);
      flushed.then(resolve, reject).finally(() => {
        this.#waiting.remove(place);
        if (this.#waiting.size === 0) this.#settled?.();
      });
    });
  }

  /**
   * Resolves when no write is pending, or when the last batch or the store has failed. Must be awaited before the
   * library is closed, because each write ends with a read, which is not possible after the library's close().
   */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#settled = resolve;
      if (this.#waiting.size === 0 || this.#failedLast || this.failure !== null) resolve();
    });
  }

  /**
   * Resolves when `closed` resolves, or when the last batch or the store has failed; in that case, any work in progress
   * is abandoned.
   */
  closing(closed: Promise<void>): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      this.#endClosing = resolve;
      this.#listeners.push(() => {
        resolve();
      });
      if (this.#failedLast) resolve();
      closed.then(resolve, reject);
    });
  }

  /** Must be called before a read. Throws ApiError 503 if the store has failed. */
  ensureReadable(): void {
    if (this.failure !== null) throw refusedWrite(this.failure);
  }

  /** The error that a read throws instead of the library's error. */
  readFailure(error: unknown): unknown {
    if (isPanic(error)) this.fail(lost((error as Error).message, error));
    return this.failure === null ? error : refusedWrite(this.failure);
  }

  onFailure(listener: (why: StorageError) => void): void {
    if (this.failure === null) this.#listeners.push(listener);
    else listener(this.failure);
  }

  onUndone(listener: (why: StorageError) => void): void {
    this.#undoneListeners.push(listener);
  }

  /** After this call, no write is acknowledged. */
  fail(why: StorageError): void {
    if (this.failure !== null) return;
    this.failure = why;
    for (const reject of this.#waiting) reject(refusedWrite(why));
    this.#settled?.();
    for (const listener of this.#listeners) listener(why);
  }

  async #flushed<T>(written: Promise<T>): Promise<T> {
    // At the end of an event-loop turn, the library creates another promise for everything written during it, whose
    // rejection would otherwise be unhandled.
    setImmediate(() => {
      this.root.committed.then(
        () => undefined,
        () => undefined,
      );
    });
    let result: T;
    try {
      result = await written;
      await this.root.flushed;
    } catch (error) {
      // The library reports the reason for a failed commit (a full disk) through a second promise, whose rejection must
      // be handled.
      const undone = this.#undone;
      const reason = (error as { commitError?: Promise<never> }).commitError;
      const failure = reason?.catch((why: unknown) => why);
      const cause: unknown = failure === undefined ? error : await Promise.race([failure, sleep(REASON_MS, error)]);
      const { message } = cause as Error;
      if (failure !== undefined && !undone && !message.includes(UNDONE) && !isLimit(cause))
        this.fail(lost(message, cause));
      this.#ensureAlive(); // a batch that was rolled back may have failed at its meta page
      const why = new UndoneWrite(`Writing the database failed: ${message}`, cause);
      for (const listener of this.#undoneListeners) listener(why);
      throw refusedWrite(why);
    }
    this.#ensureAlive();
    return result;
  }

  /**
   * The library does not report a meta page that it could not mark as synced, although a power failure would lose that
   * transaction.
   */
  #ensureAlive(): void {
    this.ensureReadable();
    try {
      this.root.resetReadTxn();
      this.root.get('');
    } catch (error) {
      throw this.readFailure(error);
    }
  }
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;
const isPanic = (error: unknown): boolean =>
  codeOf(error) === PANIC || (error instanceof Error && error.message.includes('MDB_PANIC'));

/**
 * Whether the error is one of LMDB's own limit errors (transaction or map full), after which no data has been written.
 */
function isLimit(error: unknown): boolean {
  const code = codeOf(error);
  return typeof code === 'number' && code < 0 && code !== PANIC;
}

const lost = (why: string, cause?: unknown): StorageError =>
  new StorageError(`The database accepts no more writes until the server is restarted: ${why}`, cause);
