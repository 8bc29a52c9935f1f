// Transactions on accounts in PostgreSQL: only one writer at a time among all processes, as with LMDB in one process.
// What a transaction checks is therefore still true when it commits, and the audit log has one order. The lock is the
// single row of `accounts_state`: plain SQL, released with the connection. Readers never wait for it.

import type { Database, Queryable } from '../database.js';
import { CHANNEL } from '../notifications.js';
import { changeMessage } from './change-feed.js';

export class AccountWork {
  /**
   * `changed` is called after the commit of each change that key and organization lookups must see. `now`: milliseconds
   * since 1970, by the database's clock.
   */
  constructor(
    readonly database: Database,
    private readonly changed: (organizationId: string) => void,
    readonly now: () => number = Date.now,
  ) {}

  /** For reads of a single statement. */
  get sql(): Queryable {
    return this.database;
  }

  /** Runs `work` completely or not at all. No other process changes accounts meanwhile. */
  change<T>(work: (sql: Queryable) => Promise<T>): Promise<T> {
    return this.database.transaction(async (sql) => {
      await sql.query('SELECT version FROM accounts_state FOR UPDATE');
      return await work(sql);
    });
  }

  /**
   * Like change(), for data that is cached elsewhere (keys, organizations): every process drops it from its cache
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
