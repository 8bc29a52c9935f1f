// Implements Identities on the identities, users and audit log tables.

import type { Store } from '../../store.js';
import type { Actor } from '../../../accounts/audit.js';
import type { ForeignIdentity, Identities } from '../../../accounts/identities.js';
import type { IdentityTable } from './identity-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbAuditLog } from './audit-log.js';
import type { User } from '../../../accounts/users.js';

export interface IdentitiesTables {
  identities: IdentityTable;
  users: UserTable;
  audit: LmdbAuditLog;
}

export class LmdbIdentities implements Identities {
  constructor(
    private readonly store: Store,
    private readonly tables: IdentitiesTables,
  ) {}

  async userOf(identity: ForeignIdentity): Promise<User | null> {
    const id = this.tables.identities.userOf(identity);
    return id === undefined ? null : (this.tables.users.get(id) ?? null);
  }

  async has(userId: string): Promise<boolean> {
    return this.tables.identities.has(userId);
  }

  link(user: User, identity: ForeignIdentity, actor: Actor): Promise<boolean> {
    const { identities, users, audit } = this.tables;
    return this.store.transaction(() => {
      const owner = identities.userOf(identity);
      if (owner !== undefined || users.get(user.id) === undefined) return owner === user.id;
      identities.put(user.id, identity);
      void audit.note(null, actor, 'user.identity_linked', user.id, { issuer: identity.issuer });
      return true;
    });
  }

  unlink(user: User, actor: Actor): Promise<boolean> {
    const { identities, audit } = this.tables;
    return this.store.transaction(() => {
      const issuers = identities.removeAllOf(user.id);
      if (issuers.length > 0) void audit.note(null, actor, 'user.identity_unlinked', user.id, { issuers });
      return issuers.length > 0;
    });
  }
}
