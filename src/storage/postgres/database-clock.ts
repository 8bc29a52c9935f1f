// One thread's estimate of the database's clock. All processes that share the database compare expiry times with the
// same clock, even if their own clocks are wrong. Between samples, the estimate advances with the monotonic clock, so
// changing this machine's wall clock has no effect.

import { performance } from 'node:perf_hooks';
import type { Queryable } from './database.js';

/** SQL expression for the database's clock, in milliseconds since the Unix epoch. */
export const DATABASE_NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** After this time, even a less precise sample replaces the estimate, because clocks drift. */
const KEPT_MS = 60_000;

export class DatabaseClock {
  /**
   * Database clock minus monotonic clock, in milliseconds. Before the first sample, it is based on this machine's wall
   * clock.
   */
  #offset: number;
  /** Upper bound on the error of #offset. */
  #error = Infinity;
  #sampledAt = 0;

  /** `wall` and `elapsed`: this machine's two clocks, in milliseconds. */
  constructor(
    private readonly wall: () => number = Date.now,
    private readonly elapsed: () => number = () => performance.now(),
  ) {
    this.#offset = wall() - elapsed();
  }

  /** Rejects with ApiError 503 if the database is unreachable. */
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

  /** `now` is a time read from the database's clock at some point between `sentAt` (monotonic clock) and this call. */
  sample(sentAt: number, now: number): void {
    const receivedAt = this.elapsed();
    const error = (receivedAt - sentAt) / 2;
    const offset = now - (sentAt + receivedAt) / 2;
    // A slow response is imprecise. It is used only if it contradicts the estimate, which means that the database's
    // clock was changed or that the database now runs on a different machine.
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

  /** Whole milliseconds since the Unix epoch, by the database's clock. */
  readonly now = (): number => Math.round(this.elapsed() + this.#offset);

  /** How far this machine's wall clock is ahead of the database's, in milliseconds. */
  get skewMs(): number {
    return this.wall() - this.now();
  }
}
