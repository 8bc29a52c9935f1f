// Implements Identities on the `identities` table, keyed by the SHA-256 of issuer and subject, because subjects can
// have any content and length.

import type { Queryable } from '../database.js';
import type { Actor } from '../../../accounts/audit.js';
import { identityHash } from '../../../accounts/identities.js';
import type { ForeignIdentity, Identities } from '../../../accounts/identities.js';
import type { User } from '../../../accounts/users.js';
import { noteAudit } from './audit-log.js';
import { userById, USER_COLUMNS, userOf } from './user-rows.js';
import type { UserRow } from './user-rows.js';
import type { AccountWork } from './work.js';

export class PostgresIdentities implements Identities {
  constructor(private readonly work: AccountWork) {}

  async userOf(identity: ForeignIdentity): Promise<User | null> {
    const [row] = await this.work.sql.query<UserRow>(
      `SELECT ${USER_COLUMNS} FROM users WHERE id = (SELECT user_id FROM identities WHERE hash = $1)`,
      [identityHash(identity)],
    );
    return row === undefined ? null : userOf(row);
  }

  async has(userId: string): Promise<boolean> {
    return (await this.work.sql.query('SELECT 1 FROM identities WHERE user_id = $1 LIMIT 1', [userId])).length > 0;
  }

  link(user: User, identity: ForeignIdentity, actor: Actor): Promise<boolean> {
    return this.work.change(async (sql) => {
      const owner = await identityOwner(sql, identity);
      if (owner !== undefined || (await userById(sql, user.id)) === undefined) return owner === user.id;
      await putIdentity(sql, user.id, identity);
      await noteAudit(sql, null, {
        actor,
        action: 'user.identity_linked',
        target: user.id,
        detail: { issuer: identity.issuer },
      });
      return true;
    });
  }

  unlink(user: User, actor: Actor): Promise<boolean> {
    return this.work.change(async (sql) => {
      const removed = await sql.query<{ issuer: string }>(
        'DELETE FROM identities WHERE user_id = $1 RETURNING issuer',
        [user.id],
      );
      if (removed.length > 0)
        await noteAudit(sql, null, {
          actor,
          action: 'user.identity_unlinked',
          target: user.id,
          detail: {
            issuers: removed.map(({ issuer }) => issuer),
          },
        });
      return removed.length > 0;
    });
  }
}

/** Returns the user to whom the identity is linked, or undefined if there is none. */
export async function identityOwner(sql: Queryable, identity: ForeignIdentity): Promise<string | undefined> {
  return (
    await sql.query<{ user_id: string }>('SELECT user_id FROM identities WHERE hash = $1', [identityHash(identity)])
  )[0]?.user_id;
}

/** Must be called within a transaction. */
export async function putIdentity(sql: Queryable, userId: string, identity: ForeignIdentity): Promise<void> {
  await sql.query('INSERT INTO identities (hash, user_id, issuer) VALUES ($1, $2, $3)', [
    identityHash(identity),
    userId,
    identity.issuer,
  ]);
}

/** Must be called within a transaction. Removes all of the user's identities. */
export async function removeIdentities(sql: Queryable, userId: string): Promise<void> {
  await sql.query('DELETE FROM identities WHERE user_id = $1', [userId]);
}
