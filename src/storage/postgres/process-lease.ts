// Registers this process in the shared database, in a row with a lease that it renews. Once a lease has expired by the
// database's clock, other processes take over the process's responses and release its holds. Event-loop thread only.

import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { ClockSkew } from '../../shared/clock-health.js';
import type { Database } from './database.js';
import type { DatabaseClock } from './database-clock.js';

export const LEASE_S = 15;
const RENEW_MS = 2_500;

/** Subquery: the running processes. */
export const ALIVE = 'SELECT id FROM processes WHERE lease_until > extract(epoch FROM clock_timestamp())';

/** $1: ID, $2: skew of the caller's clock. Returns the skews of the other processes. */
const RENEW = `WITH renewed AS (
    INSERT INTO processes (id, lease_until, skew_ms) VALUES ($1, extract(epoch FROM clock_timestamp()) + ${LEASE_S}, $2)
    ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, skew_ms = excluded.skew_ms)
  SELECT min(skew_ms) AS least, max(skew_ms) AS most, count(skew_ms) AS threads FROM processes
  WHERE lease_until > extract(epoch FROM clock_timestamp()) AND id <> $1`;

interface Others {
  least: number | null;
  most: number | null;
  threads: number;
}

export class ProcessLease {
  /** Never reused. */
  readonly id = randomBytes(12).toString('hex');
  readonly #timer: NodeJS.Timeout;
  #steadySince = performance.now();
  #others: Others = { least: null, most: null, threads: 0 };

  private constructor(
    private readonly database: Database,
    private readonly clock: Pick<DatabaseClock, 'skewMs'> | null,
    private readonly onRenewed: () => void,
  ) {
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS).unref();
  }

  /**
   * `clock` is compared with the clocks of other processes. Rejects with ApiError 503 if the database cannot be
   * written.
   */
  static async open(
    database: Database,
    clock: Pick<DatabaseClock, 'skewMs'> | null = null,
    onRenewed: () => void = () => undefined,
  ): Promise<ProcessLease> {
    const lease = new ProcessLease(database, clock, onRenewed);
    try {
      await lease.#write();
    } catch (error) {
      clearInterval(lease.#timer);
      throw error;
    }
    return lease;
  }

  /** Lets other processes take over immediately. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.database
      .transaction(async (within) => {
        await within.execute('DELETE FROM response_holds WHERE process = $1', [this.id]);
        await within.execute('DELETE FROM processes WHERE id = $1', [this.id]);
      })
      .catch(() => undefined); // otherwise the lease expires on its own
  }

  /**
   * Whether renewals have succeeded for at least the length of a lease. Only then does another process's expired lease
   * mean that the process has ended, rather than that no process could reach the database.
   */
  get isSteady(): boolean {
    return performance.now() - this.#steadySince >= LEASE_S * 1_000;
  }

  /**
   * This machine's clock compared with the database's, and the largest difference between any two threads of the
   * service.
   */
  get skew(): ClockSkew {
    const own = this.clock?.skewMs ?? 0;
    const { least, most, threads } = this.#others;
    return { skewMs: own, spreadMs: Math.max(own, most ?? own) - Math.min(own, least ?? own), threads: threads + 1 };
  }

  /** Failures are reported by other database calls. The lease may expire before the database is back. */
  async #renew(): Promise<void> {
    await this.#write().then(this.onRenewed, () => {
      this.#steadySince = performance.now();
    });
  }

  async #write(): Promise<void> {
    const [others] = await this.database.query<Others>(RENEW, [this.id, this.clock?.skewMs ?? null]);
    if (others !== undefined) this.#others = others;
  }
}
