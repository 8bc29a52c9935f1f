// Implements OwnAccount on the users, memberships, organizations, sessions, link tokens, two-factor, invitations and
// audit log tables.

import type { Queryable } from '../database.js';
import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import { checkLeaving, emailTaken } from '../../../accounts/own-account.js';
import type { ChangedEmail, OwnAccount } from '../../../accounts/own-account.js';
import { accountGone } from '../../../accounts/tokens.js';
import type { User } from '../../../accounts/users.js';
import { noteAudit } from './audit-log.js';
import { removeIdentities } from './identities.js';
import { revokeOutlived } from './invites.js';
import { isLastOwner, removeMember } from './member-rows.js';
import { removeSecondFactor } from './second-factors.js';
import { endSessions } from './session-rows.js';
import { createToken, removeTokens, useToken } from './token-rows.js';
import { changeUserEmail, hasOtherOperator, removeUser, userById, userWithEmail } from './user-rows.js';
import type { AccountWork } from './work.js';

export class PostgresOwnAccount implements OwnAccount {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  emailToken(user: User, email: string, actor: Actor): Promise<string> {
    return this.work.change(async (sql) => {
      if ((await userWithEmail(sql, email)) !== undefined) throw emailTaken();
      await noteAudit(sql, null, { actor, action: 'user.email_change_asked', target: user.id, detail: { to: email } });
      return await createToken(sql, { now: this.now(), userId: user.id, purpose: 'new-email', mailed: true, email });
    });
  }

  confirmEmail(token: string, ip: string): Promise<ChangedEmail> {
    return this.work.change(async (sql) => {
      const { userId, email } = await useToken(sql, this.now(), token, 'new-email');
      const user = await userById(sql, userId);
      if (user === undefined || email === undefined) throw accountGone();
      return await change(sql, user, email, true, { type: 'user', id: user.id, email: user.email, ip });
    });
  }

  changeEmail(user: User, email: string, actor: Actor): Promise<ChangedEmail> {
    return this.work.change((sql) => change(sql, user, email, false, actor));
  }

  delete(user: User, actor: Actor): Promise<void> {
    return this.work.change(async (sql) => {
      // Deleted organizations no longer have memberships.
      const memberships = await sql.query<{ organization_id: string; role: Role; name: string | null }>(
        `SELECT memberships.organization_id, memberships.role, organizations.name FROM memberships LEFT JOIN organizations ON organizations.id = memberships.organization_id
         WHERE memberships.user_id = $1 ORDER BY memberships.created_at, memberships.organization_id`,
        [user.id],
      );
      const orphaned: string[] = [];
      for (const { organization_id: id, name } of memberships)
        if (await isLastOwner(sql, id, user.id)) orphaned.push(name ?? id);
      checkLeaving(
        orphaned,
        (await userById(sql, user.id))?.operator === true && !(await hasOtherOperator(sql, user.id)),
      );
      for (const { organization_id: id, role } of memberships) {
        await removeMember(sql, id, user.id);
        await noteAudit(sql, id, {
          actor,
          action: 'member.left',
          target: user.id,
          detail: { role, email: user.email },
        });
        await revokeOutlived(sql, { now: this.now(), organizationId: id, userId: user.id, own: undefined, actor });
      }
      await endSessions(sql, user.id);
      await removeTokens(sql, user.id);
      await removeSecondFactor(sql, user.id);
      await removeIdentities(sql, user.id);
      await removeUser(sql, user.id);
      await noteAudit(sql, null, { actor, action: 'user.deleted', target: user.id, detail: { email: user.email } });
    });
  }
}

/** Invalidates links sent to the old address. */
async function change(
  sql: Queryable,
  { id, email: before }: User,
  email: string,
  verified: boolean,
  actor: Actor,
): Promise<ChangedEmail> {
  const user = await changeUserEmail(sql, id, email, verified);
  if (user === undefined) throw emailTaken();
  await removeTokens(sql, id);
  await noteAudit(sql, null, { actor, action: 'user.email_changed', target: id, detail: { from: before, to: email } });
  return { user, before };
}
