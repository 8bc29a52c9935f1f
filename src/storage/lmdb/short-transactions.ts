// Runs background work in transactions that are short enough not to delay requests. LMDB needs free pages even for
// erasing, so after a transaction has failed for lack of disk space, the next transactions write as little as possible.

import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { undoneBy } from '../store.js';
import type { Store } from '../store.js';

/**
 * Maximum time, in ms, that a transaction may block the event loop, not counting the rows of the response being
 * processed.
 */
const SLICE_MS = 5;
/**
 * Number of small transactions after a failed transaction. They are small because a failing transaction also fails the
 * requests' saves that are committed together with it.
 */
const TIGHT = 256;

/** Called after each step of a transaction. Returns whether the transaction should end. */
export type IsFull = () => boolean;

export class ShortTransactions {
  #tight = 0;
  #isClosed = false;

  constructor(private readonly store: Store) {}

  get isTight(): boolean {
    return this.#tight > 0;
  }
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Work in progress stops after its current transaction. */
  close(): void {
    this.#isClosed = true;
  }

  /**
   * If a transaction fails for lack of disk space, it is retried once, with `isFull` returning true from the first
   * step.
   */
  async run<T>(work: (isFull: IsFull) => T): Promise<T> {
    const attempt = (): Promise<T> =>
      this.store.transaction(() => {
        const end = performance.now() + SLICE_MS;
        return work(() => this.isTight || performance.now() > end);
      });
    try {
      const result = await attempt();
      this.#tight = Math.max(0, this.#tight - 1);
      return result;
    } catch (error) {
      if (this.isTight || undoneBy(error) === null) throw error;
      this.#tight = TIGHT;
      return attempt();
    }
  }

  /**
   * Calls `act` with each element of `all`, in order, in as many transactions as needed. Returns false if it was closed
   * before the last element.
   */
  async forEach<T>(all: readonly T[], act: (one: T) => void): Promise<boolean> {
    for (let done = 0; done < all.length; ) {
      if (this.#isClosed) return false;
      const from = done;
      done = await this.run((isFull) => {
        let at = from;
        do act(all[at++] as T);
        while (at < all.length && !isFull());
        return at;
      });
    }
    return !this.#isClosed;
  }

  /** Like forEach(), but without transactions, for work that only reads. */
  async forEachRead<T>(all: readonly T[], act: (one: T) => void): Promise<boolean> {
    let end = performance.now() + SLICE_MS;
    for (const one of all) {
      if (this.#isClosed) return false;
      act(one);
      if (performance.now() <= end) continue;
      await nextTurn();
      end = performance.now() + SLICE_MS;
    }
    return !this.#isClosed;
  }
}
