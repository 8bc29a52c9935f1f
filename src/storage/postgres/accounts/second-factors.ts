// Implements SecondFactors on the `second_factors` table, with one row per user: the active two-factor secret and the
// proposed one.

import type { Queryable } from '../database.js';
import type { Actor } from '../../../accounts/audit.js';
import { PROPOSAL_MS } from '../../../accounts/second-factors.js';
import type { ProvedFactor, SecondFactor, SecondFactors } from '../../../accounts/second-factors.js';
import { MAX_LATER } from '../../../accounts/totp.js';
import type { User } from '../../../accounts/users.js';
import { clearAttempts } from './attempts.js';
import { noteAudit } from './audit-log.js';
import { endSessions } from './session-rows.js';
import { dateOf } from './times.js';
import { changeUser, userById } from './user-rows.js';
import type { AccountWork } from './work.js';

interface Row {
  user_id: string;
  sealed: string | null;
  since: number | null;
  last_step: number | null;
  recovery: string[];
  proposal: string | null;
  proposal_until: number | null;
}

const COLUMNS = 'user_id, sealed, since, last_step, recovery, proposal, proposal_until';

export class PostgresSecondFactors implements SecondFactors {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  async get(userId: string): Promise<SecondFactor | null> {
    return factorOf(await rowOf(this.work.sql, userId));
  }

  async propose(userId: string, sealed: string): Promise<void> {
    await this.work.sql.query(
      `INSERT INTO second_factors (user_id, proposal, proposal_until) VALUES ($1, $2, $3)
       ON CONFLICT (user_id) DO UPDATE SET proposal = excluded.proposal, proposal_until = excluded.proposal_until`,
      [userId, sealed, this.now() + PROPOSAL_MS],
    );
  }

  async proposed(userId: string): Promise<string | null> {
    return this.#proposal(await rowOf(this.work.sql, userId));
  }

  enable(user: User, { sealed, step, recovery }: ProvedFactor, keptSessionId: string, actor: Actor): Promise<boolean> {
    return this.work.change(async (sql) => {
      const row = await rowOf(sql, user.id);
      if (this.#proposal(row) !== sealed || factorOf(row) !== null || (await userById(sql, user.id)) === undefined)
        return false;
      await sql.query(
        'UPDATE second_factors SET sealed = $2, since = $3, last_step = $4, recovery = $5, proposal = NULL, proposal_until = NULL WHERE user_id = $1',
        [user.id, sealed, this.now(), step, recovery],
      );
      await changeUser(sql, user.id, { secondFactor: true });
      await endSessions(sql, user.id, keptSessionId);
      await clearAttempts(sql, 'code', user.id);
      await noteAudit(sql, null, { actor, action: 'user.second_factor_enabled', target: user.id });
      return true;
    });
  }

  useStep(userId: string, step: number): Promise<boolean> {
    return this.work.change(async (sql) => {
      if (
        (await sql.execute(
          'UPDATE second_factors SET last_step = $2 WHERE user_id = $1 AND (last_step < $2 OR last_step > $2 + $3::int)',
          [userId, step, MAX_LATER],
        )) === 0
      )
        return false;
      await clearAttempts(sql, 'code', userId);
      return true;
    });
  }

  useRecovery(user: User, hash: string, ip: string): Promise<number | null> {
    return this.work.change(async (sql) => {
      const [row] = await sql.query<{ recovery: string[] }>(
        'UPDATE second_factors SET recovery = array_remove(recovery, $2) WHERE user_id = $1 AND sealed IS NOT NULL AND $2 = ANY (recovery) RETURNING recovery',
        [user.id, hash],
      );
      if (row === undefined) return null;
      const left = row.recovery.length;
      await clearAttempts(sql, 'code', user.id);
      await noteAudit(sql, null, {
        actor: { type: 'user', id: user.id, email: user.email, ip },
        action: 'user.recovery_code_used',
        target: user.id,
        detail: { left },
      });
      return left;
    });
  }

  replaceRecovery(user: User, recovery: readonly string[], actor: Actor): Promise<boolean> {
    return this.work.change(async (sql) => {
      if (
        (await sql.execute('UPDATE second_factors SET recovery = $2 WHERE user_id = $1 AND sealed IS NOT NULL', [
          user.id,
          recovery,
        ])) === 0
      )
        return false;
      await noteAudit(sql, null, { actor, action: 'user.recovery_codes_replaced', target: user.id });
      return true;
    });
  }

  disable(user: User, actor: Actor): Promise<boolean> {
    return this.work.change((sql) => turnOff(sql, user.id, actor, 'user.second_factor_disabled', user.email));
  }

  reset(userId: string, actor: Actor): Promise<boolean> {
    return this.work.change(async (sql) => {
      const user = await userById(sql, userId);
      if (user === undefined || !(await turnOff(sql, userId, actor, 'user.second_factor_reset', user.email)))
        return false;
      await endSessions(sql, userId);
      return true;
    });
  }

  async reseal(again: (userId: string, sealed: string) => string | null): Promise<void> {
    const rows = await this.work.sql.query<{ user_id: string; sealed: string }>(
      'SELECT user_id, sealed FROM second_factors WHERE sealed IS NOT NULL ORDER BY user_id',
    );
    for (const { user_id: userId, sealed } of rows) {
      const next = again(userId, sealed);
      // In the meantime, another process may have re-encrypted the secret, or the user may have a new one.
      if (next !== null)
        await this.work.sql.query('UPDATE second_factors SET sealed = $3 WHERE user_id = $1 AND sealed = $2', [
          userId,
          sealed,
          next,
        ]);
    }
  }

  #proposal(row: Row | undefined): string | null {
    return row?.proposal != null && (row.proposal_until ?? 0) > this.now() ? row.proposal : null;
  }
}

async function rowOf(sql: Queryable, userId: string): Promise<Row | undefined> {
  return (await sql.query<Row>(`SELECT ${COLUMNS} FROM second_factors WHERE user_id = $1`, [userId]))[0];
}

function factorOf(row: Row | undefined): SecondFactor | null {
  return row?.sealed == null
    ? null
    : { sealed: row.sealed, since: dateOf(row.since ?? 0), lastStep: row.last_step ?? 0, recovery: row.recovery };
}

async function turnOff(sql: Queryable, userId: string, actor: Actor, action: string, email: string): Promise<boolean> {
  if ((await sql.execute('DELETE FROM second_factors WHERE user_id = $1 AND sealed IS NOT NULL', [userId])) === 0)
    return false;
  await changeUser(sql, userId, { secondFactor: false });
  await clearAttempts(sql, 'code', userId);
  await noteAudit(sql, null, { actor, action, target: userId, detail: { email } });
  return true;
}

/** Removes the two-factor secret of a user who is being deleted. Must be called within a transaction. */
export async function removeSecondFactor(sql: Queryable, userId: string): Promise<void> {
  await sql.query('DELETE FROM second_factors WHERE user_id = $1', [userId]);
}
