// This process among those that share the database: a row whose lease it renews. What a process holds or generates is
// given up by others when its lease is over, by the database's clock. Event-loop thread only.

import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Database } from './database.js';

export const LEASE_S = 15;
const RENEW_MS = 2_500;

/** Within a statement: the processes that are there. */
export const ALIVE = 'SELECT id FROM processes WHERE lease_until > extract(epoch FROM clock_timestamp())';

const RENEW = `INSERT INTO processes (id, lease_until) VALUES ($1, extract(epoch FROM clock_timestamp()) + ${LEASE_S})
  ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until`;

export class ProcessLease {
  /** Never given twice. */
  readonly id = randomBytes(12).toString('hex');
  readonly #timer: NodeJS.Timeout;
  #steadySince = performance.now();

  private constructor(private readonly database: Database) {
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS).unref();
  }

  /** Rejects with ApiError 503 if the database cannot be written. */
  static async open(database: Database): Promise<ProcessLease> {
    const lease = new ProcessLease(database);
    try {
      await database.execute(RENEW, [lease.id]);
    } catch (error) {
      clearInterval(lease.#timer);
      throw error;
    }
    return lease;
  }

  /** Others may go on with what this one had, at once. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.database.transaction(async (within) => {
      await within.execute('DELETE FROM response_holds WHERE process = $1', [this.id]);
      await within.execute('DELETE FROM processes WHERE id = $1', [this.id]);
    }).catch(() => undefined);   // then the lease ends by itself
  }

  /**
   * Whether it was renewed without a failure for as long as a lease is: then those of others that are over have ended with
   * their processes, and not with a database that was away for all.
   */
  get isSteady(): boolean {
    return performance.now() - this.#steadySince >= LEASE_S * 1_000;
  }

  /** A failure is the database's, which others tell: the lease may end before it is back. */
  async #renew(): Promise<void> {
    await this.database.execute(RENEW, [this.id]).catch(() => { this.#steadySince = performance.now(); });
  }
}
