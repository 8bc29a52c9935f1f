// Queue for lookups of API keys that this thread does not know: at most two lookups run at a time, client addresses
// take turns, and requests from an address that has sent too many unknown keys within a minute are rejected. This
// limits the database load that guessed keys can cause. Lookups of known keys bypass the queue. Event-loop thread only.

import { apiError } from '../shared/errors.js';
import { addressGroup } from './attempts.js';
import type { UnknownKeys } from './unknown-keys.js';

const AT_ONCE = 2;
const MAX_WAITING = 1_000;

export class KeyLookups {
  #running = 0;
  #waiting = 0;
  /** The waiting lookups of each client address, in the order in which the addresses take turns. */
  readonly #lines = new Map<string, (() => void)[]>();

  constructor(private readonly unknown: UnknownKeys | null) {}

  /**
   * Runs `find` when its turn comes. Resolves to undefined if the key is unknown. `address`: the client's address; null
   * = not limited. Rejects with ApiError 429 if the address has sent too many unknown keys, or with 503 if too many
   * lookups are waiting.
   */
  async run<T>(address: string | null, find: () => Promise<T | undefined>): Promise<T | undefined> {
    this.#refuse(address === null ? 0 : (this.unknown?.wait(address) ?? 0));
    if (this.#running >= AT_ONCE) await this.#turn(address === null ? '' : addressGroup(address));
    else this.#running++;
    try {
      return await this.#counted(address, find);
    } finally {
      this.#next();
    }
  }

  async #counted<T>(address: string | null, find: () => Promise<T | undefined>): Promise<T | undefined> {
    const { unknown } = this;
    if (address === null || unknown === null) return find();
    // The attempt is counted before its outcome is known, because other threads may be looking up keys for the same
    // address at the same time.
    this.#refuse(unknown.take(address));
    let isUnknown = false;
    try {
      const found = await find();
      isUnknown = found === undefined;
      return found;
    } finally {
      if (!isUnknown) unknown.giveBack(address);
    }
  }

  #refuse(waitMs: number): void {
    if (waitMs === 0) return;
    const seconds = Math.ceil(waitMs / 1_000);
    throw apiError(
      'too_many_attempts',
      `Too many unknown API keys from this address. Try again in ${seconds} second${seconds === 1 ? '' : 's'}.`,
      null,
      { retryAfterMs: waitMs },
    );
  }

  /** Resolves when a running lookup has finished and the waiting one can start. */
  #turn(line: string): Promise<void> {
    if (this.#waiting >= MAX_WAITING)
      throw apiError('capacity_exhausted', 'The server is looking up too many unknown API keys. Retry shortly.');
    this.#waiting++;
    return new Promise((resolve) => {
      const waiting = this.#lines.get(line);
      if (waiting === undefined) this.#lines.set(line, [resolve]);
      else waiting.push(resolve);
    });
  }

  #next(): void {
    for (const [line, waiting] of this.#lines) {
      const start = waiting.shift();
      this.#lines.delete(line);
      if (waiting.length > 0) this.#lines.set(line, waiting); // moves the address to the end of the queue
      if (start === undefined) continue;
      this.#waiting--;
      start();
      return;
    }
    this.#running--;
  }
}
