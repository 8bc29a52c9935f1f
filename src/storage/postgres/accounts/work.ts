// Account transactions in PostgreSQL. As with LMDB in one process, there is only one writer at a time across all
// processes. Therefore, everything that a transaction has checked still holds when it commits, and the audit log has a
// single order. The lock is the single row in `accounts_state`. It is an ordinary row lock that is released when the
// connection ends. Readers never wait for it.

import type { Database, Queryable } from '../database.js';
import { CHANNEL } from '../notifications.js';
import { changeMessage } from './change-feed.js';

export class AccountWork {
  /**
   * `changed` is called after the commit of each change that affects cached lookups of keys and organizations. `now`:
   * milliseconds since the Unix epoch, by the database's clock.
   */
  constructor(
    readonly database: Database,
    private readonly changed: (organizationId: string) => void,
    readonly now: () => number = Date.now,
  ) {}

  /** Used for reads that consist of a single statement. */
  get sql(): Queryable {
    return this.database;
  }

  /** Runs `work` completely or not at all. No other process changes accounts at the same time. */
  change<T>(work: (sql: Queryable) => Promise<T>): Promise<T> {
    return this.database.transaction(async (sql) => {
      await sql.query('SELECT version FROM accounts_state FOR UPDATE');
      return await work(sql);
    });
  }

  /**
   * Like change(), but for cached data (keys, organizations): every process drops the data from its cache
   * (change-feed.ts).
   */
  async changeSeen<T>(organizationId: string, work: (sql: Queryable) => Promise<T>): Promise<T> {
    const result = await this.change(async (sql) => {
      const done = await work(sql);
      const [{ version = 0 } = {}] = await sql.query<{ version: number }>(
        'UPDATE accounts_state SET version = version + 1 RETURNING version',
      );
      await sql.query('SELECT pg_notify($1, $2)', [CHANNEL, changeMessage(version, organizationId)]);
      return done;
    });
    this.changed(organizationId);
    return result;
  }
}
