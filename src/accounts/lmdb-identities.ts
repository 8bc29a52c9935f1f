// Identities over the tables of identities, users and the audit log.

import type { Store } from '../storage/store.js';
import type { Actor } from './audit.js';
import type { ForeignIdentity, Identities } from './identities.js';
import type { IdentityTable } from './lmdb/identity-table.js';
import type { UserTable } from './lmdb/user-table.js';
import type { LmdbAuditLog } from './lmdb-audit-log.js';
import type { User } from './users.js';

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
