// Writes to LMDB's environment by one thread, until they are on disk, and what tells that it takes none any more. The thread
// that opened the store only; all threads of a process share the environment.
//
// A page that could not be written (a full disk) undoes its transaction, and the next one may succeed. A sync or a meta page
// that could not be written is the end: LMDB refuses every transaction from then on (MDB_PANIC), or, where only the sync failed,
// goes on as if the kernel still had what it may have thrown away. The library does not settle what waits then: a write that
// could not begin is told by its status alone, and a meta page that was synced but not marked as such by nothing at all.
// So three things are looked at: whether anything was committed since a failed batch began, the status of each batch, and
// whether a read can begin. From a failure on nothing here touches the library: each read that cannot begin makes its text
// of the error longer, in a buffer of 300 bytes, and a process would end at random instead of in order.

import { setTimeout as sleep } from 'node:timers/promises';
import type { RootDatabase } from 'lmdb';
import type { ApiError } from '../../shared/errors.js';
import { Roster } from '../../shared/roster.js';
import { refusedWrite, StorageError, UndoneWrite } from '../store.js';

const PANIC = -30795;
/** What the library says where a page could not be written, unless it was written in part: the transaction has been undone as a whole. */
const UNDONE = 'Attempting to write page';
/** For the reason of a commit that is known to have failed; it is told in the same turn, or never. Nothing of the disk is waited for. */
const REASON_MS = 1_000;

/** Of the library, not in its types. */
interface Environment {
  startWriting(address: number, done: (status: number) => unknown): unknown;
  /** Gives back the lock that a batch holds. */
  resumeWriting(): void;
  /** `lastTxnId`: of the last transaction that any thread committed, synced or not. */
  info(): { lastTxnId: number };
}

export class Writes {
  failure: StorageError | null = null;
  /** Those that wait. */
  readonly #waiting = new Roster<(error: ApiError) => void>();
  /** Whether the last batch failed: the library's close() waits for its flush, which never comes. */
  #failedLast = false;
  /** Whether the last batch that failed is known to have been undone, since nothing was committed from its start to its end. A page written in part and a failed sync are both EIO. */
  #undone = false;
  #endClosing: (() => void) | null = null;
  #settled: (() => void) | null = null;
  readonly #listeners: ((why: StorageError) => void)[] = [];
  readonly #undoneListeners: ((why: StorageError) => void)[] = [];

  constructor(private readonly root: RootDatabase) {
    const { env } = root as unknown as { env: Environment };
    const start = env.startWriting;
    // Of this object alone; the class has it read-only. The same function is told of progress (1, 2) and of the end.
    const value: Environment['startWriting'] = (address, done) => {
      const before = env.info().lastTxnId;
      return start.call(env, address, (status) => {
        if (status !== 0 && status !== 1 && status !== 2) this.#undone = env.info().lastTxnId === before;
        try {
          return done(status);
        } finally {
          if (status === PANIC) {
            // The batch did not begin, and kept the lock that the environment's end waits for: the process could not exit.
            env.resumeWriting();
            this.fail(lost('LMDB refuses every transaction after a fault of the disk'));
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

  /** Resolves when what `write` writes is flushed. Rejects with ApiError 503 if it was undone or the store has failed. */
  onDisk<T>(write: () => Promise<T>): Promise<T> {
    if (this.failure !== null) return Promise.reject(refusedWrite(this.failure));
    return new Promise<T>((resolve, reject) => {
      const flushed = this.#flushed(write()); // throws where the library takes it for no write at all: rejected
      const place = this.#waiting.add(reject);
      flushed.then(resolve, reject).finally(() => {
        this.#waiting.remove(place);
        if (this.#waiting.size === 0) this.#settled?.();
      });
    });
  }

  /** Resolves when no write waits, or the last batch or the store has failed: each ends with a read, and behind the library's close() there is none. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#settled = resolve;
      if (this.#waiting.size === 0 || this.#failedLast || this.failure !== null) resolve();
    });
  }

  /** Resolves when `closed` does, or the last batch or the store has failed: what is under way then is nobody's. */
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

  /** For a read, before it asks the library. Throws ApiError 503 if the store has failed. */
  ensureReadable(): void {
    if (this.failure !== null) throw refusedWrite(this.failure);
  }

  /** What a read throws instead of what the library threw. */
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

  /** Nothing is acknowledged from here on. */
  fail(why: StorageError): void {
    if (this.failure !== null) return;
    this.failure = why;
    for (const reject of this.#waiting) reject(refusedWrite(why));
    this.#settled?.();
    for (const listener of this.#listeners) listener(why);
  }

  async #flushed<T>(written: Promise<T>): Promise<T> {
    // At the end of an event-loop turn the library opens one more promise for all that was written in it, and
    // would let the failure of that one go unhandled.
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
      // The library tells the reason of a failed commit (a full disk) by a second promise, which must not stay unhandled.
      const undone = this.#undone;
      const reason = (error as { commitError?: Promise<never> }).commitError;
      const told = reason?.catch((why: unknown) => why);
      const cause: unknown = told === undefined ? error : await Promise.race([told, sleep(REASON_MS, error)]);
      const { message } = cause as Error;
      if (told !== undefined && !undone && !message.includes(UNDONE) && !isLimit(cause))
        this.fail(lost(message, cause));
      this.#ensureAlive(); // an undone one may have failed at its meta page
      const why = new UndoneWrite(`The database could not be written: ${message}`, cause);
      for (const listener of this.#undoneListeners) listener(why);
      throw refusedWrite(why);
    }
    this.#ensureAlive();
    return result;
  }

  /** The library says nothing of a meta page that it could not mark as synced: that transaction would be lost with the power. */
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

/** LMDB's own errors (a transaction or a map that is full): nothing has been written. */
function isLimit(error: unknown): boolean {
  const code = codeOf(error);
  return typeof code === 'number' && code < 0 && code !== PANIC;
}

const lost = (why: string, cause?: unknown): StorageError =>
  new StorageError(`The database takes no writes any more until the server is started again: ${why}`, cause);
