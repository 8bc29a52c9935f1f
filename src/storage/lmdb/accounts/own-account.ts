// Implements OwnAccount on the users, memberships, organizations, sessions, tokens, two-factor, invitations and audit
// log tables.

import type { Store } from '../../store.js';
import type { Actor } from '../../../accounts/audit.js';
import type { IdentityTable } from './identity-table.js';
import type { InviteTable } from './invite-table.js';
import type { MembershipTable } from './membership-table.js';
import type { OrganizationTable } from './organization-table.js';
import type { SecondFactorTable } from './second-factor-table.js';
import type { SessionTable } from './session-table.js';
import type { TokenTable } from './token-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbAuditLog } from './audit-log.js';
import { revokeOutlived } from './invites.js';
import { checkLeaving, emailTaken } from '../../../accounts/own-account.js';
import type { ChangedEmail, OwnAccount } from '../../../accounts/own-account.js';
import { accountGone } from '../../../accounts/tokens.js';
import type { User } from '../../../accounts/users.js';

export interface OwnAccountTables {
  users: UserTable;
  memberships: MembershipTable;
  organizations: OrganizationTable;
  sessions: SessionTable;
  tokens: TokenTable;
  secondFactors: SecondFactorTable;
  identities: IdentityTable;
  invites: InviteTable;
  audit: LmdbAuditLog;
}

export class LmdbOwnAccount implements OwnAccount {
  constructor(
    private readonly store: Store,
    private readonly tables: OwnAccountTables,
  ) {}

  emailToken(user: User, email: string, actor: Actor): Promise<string> {
    const { users, tokens, audit } = this.tables;
    return this.store.transaction(() => {
      if (users.withEmail(email) !== undefined) throw emailTaken();
      void audit.note(null, actor, 'user.email_change_asked', user.id, { to: email });
      return tokens.create(user.id, 'new-email', true, email);
    });
  }

  confirmEmail(token: string, ip: string): Promise<ChangedEmail> {
    const { users, tokens } = this.tables;
    return this.store.transaction(() => {
      const { userId, email } = tokens.use(token, 'new-email');
      const user = users.get(userId);
      if (user === undefined || email === undefined) throw accountGone();
      return this.#change(user, email, true, { type: 'user', id: user.id, email: user.email, ip });
    });
  }

  changeEmail(user: User, email: string, actor: Actor): Promise<ChangedEmail> {
    return this.store.transaction(() => this.#change(user, email, false, actor));
  }

  delete(user: User, actor: Actor): Promise<void> {
    const { users, memberships, organizations, sessions, tokens, secondFactors, identities, audit } = this.tables;
    return this.store.transaction(() => {
      const own = memberships.ofUser(user.id);
      const orphaned = own
        .filter(({ organizationId }) => memberships.isLastOwner(organizationId, user.id))
        .map(({ organizationId }) => organizations.get(organizationId)?.name ?? organizationId);
      const current = users.get(user.id);
      checkLeaving(orphaned, current?.operator === true && !users.hasOtherOperator(user.id));
      for (const { organizationId, role } of own) {
        memberships.remove(organizationId, user.id);
        void audit.note(organizationId, actor, 'member.left', user.id, { role, email: user.email });
        revokeOutlived(this.tables, organizationId, user.id, undefined, actor);
      }
      sessions.endAll(user.id);
      tokens.removeAllOf(user.id);
      secondFactors.remove(user.id);
      identities.removeAllOf(user.id);
      users.remove(user.id);
      void audit.note(null, actor, 'user.deleted', user.id, { email: user.email });
    });
  }

  /** Must be called within a transaction. Invalidates links sent to the old address. */
  #change({ id, email: before }: User, email: string, verified: boolean, actor: Actor): ChangedEmail {
    const { users, tokens, audit } = this.tables;
    const user = users.changeEmail(id, email, verified);
    if (user === undefined) throw emailTaken();
    tokens.removeAllOf(id);
    void audit.note(null, actor, 'user.email_changed', id, { from: before, to: email });
    return { user, before };
  }
}
