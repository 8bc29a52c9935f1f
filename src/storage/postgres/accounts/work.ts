// Units of work on accounts in PostgreSQL: one writer at a time over all processes, as in one process with LMDB, so that
// what is checked within a unit still holds when it is committed, and the audit log has one order. The lock is the one
// row of `accounts_state`: plain SQL, gone with the connection. Readers never wait for it.

import type { Database, Queryable } from '../database.js';
import { CHANNEL } from '../notifications.js';
import { changeMessage } from './change-feed.js';

export class AccountWork {
  /**
   * `changed` is called after the commit of each change that key and organization lookups must see. `now`: milliseconds since 1970,
   * by the database's clock.
   */
  constructor(
    readonly database: Database,
    private readonly changed: (organizationId: string) => void,
    readonly now: () => number = Date.now,
  ) {}

  /** For reads of one statement. */
  get sql(): Queryable {
    return this.database;
  }

  /** All of `work` or nothing; nobody else changes accounts meanwhile. */
  change<T>(work: (sql: Queryable) => Promise<T>): Promise<T> {
    return this.database.transaction(async (sql) => {
      await sql.query('SELECT version FROM accounts_state FOR UPDATE');
      return await work(sql);
    });
  }

  /** As change(), of what is remembered of keys and organizations elsewhere: every process forgets it (change-feed.ts). */
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
