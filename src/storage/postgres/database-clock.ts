// The database's clock as one thread estimates it: every process that shares the database judges ends by the same clock, however
// wrong its own is. Between samples the monotonic clock carries it on, so setting this machine's wall clock has no effect.

import { performance } from 'node:perf_hooks';
import type { Queryable } from './database.js';

/** An SQL expression: the database's clock, in milliseconds since 1970. */
export const DATABASE_NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** An estimate is replaced by a less exact one after this long: clocks drift. */
const KEPT_MS = 60_000;

export class DatabaseClock {
  /** Database clock minus monotonic clock, in milliseconds. Before the first sample: this machine's wall clock. */
  #offset: number;
  /** Bound on the error of #offset. */
  #error = Infinity;
  #sampledAt = 0;

  /** `wall` and `elapsed`: this machine's two clocks, in milliseconds. */
  constructor(
    private readonly wall: () => number = Date.now,
    private readonly elapsed: () => number = () => performance.now(),
  ) {
    this.#offset = wall() - elapsed();
  }

  /** Rejects with ApiError 503 if the database cannot be reached. */
  static async measured(database: Queryable): Promise<DatabaseClock> {
    const clock = new DatabaseClock();
    await clock.measure(database);
    return clock;
  }

  async measure(database: Queryable): Promise<void> {
    const sentAt = this.elapsed();
    const [row] = await database.query<{ now: number }>(`SELECT ${DATABASE_NOW} AS now`);
    if (row !== undefined) this.sample(sentAt, row.now);
  }

  /** The database's clock showed `now` between `sentAt` (of the monotonic clock) and this moment. */
  sample(sentAt: number, now: number): void {
    const receivedAt = this.elapsed();
    const error = (receivedAt - sentAt) / 2;
    const offset = now - (sentAt + receivedAt) / 2;
    // A slow answer says little. It counts if it contradicts the estimate: then the database's clock was set, or is another machine's.
    if (
      error > this.#error &&
      receivedAt - this.#sampledAt < KEPT_MS &&
      Math.abs(offset - this.#offset) <= error + this.#error
    )
      return;
    this.#offset = offset;
    this.#error = error;
    this.#sampledAt = receivedAt;
  }

  /** Whole milliseconds since 1970, by the database's clock. */
  readonly now = (): number => Math.round(this.elapsed() + this.#offset);

  /** How far this machine's wall clock is ahead of the database's, in milliseconds. */
  get skewMs(): number {
    return this.wall() - this.now();
  }
}
