// The `identities` table: ['at', SHA-256 of issuer and subject] → user, and ['user', user, hash] → issuer. Methods that
// write must be called within a transaction.

import type { Key, Store, Table } from '../../store.js';
import { identityHash } from '../../../accounts/identities.js';
import type { ForeignIdentity } from '../../../accounts/identities.js';

export class IdentityTable {
  private readonly users: Table<string>;
  private readonly issuers: Table<string>;

  constructor(store: Store) {
    this.users = store.table('identities');
    this.issuers = store.table('identities');
  }

  userOf(identity: ForeignIdentity): string | undefined {
    return this.users.get(['at', identityHash(identity)]);
  }

  has(userId: string): boolean {
    return [...this.issuers.keys({ ...ofUser(userId), limit: 1 })].length > 0;
  }

  put(userId: string, identity: ForeignIdentity): void {
    const hash = identityHash(identity);
    void this.users.put(['at', hash], userId);
    void this.issuers.put(['user', userId, hash], identity.issuer);
  }

  /** Returns the issuers of the removed links. */
  removeAllOf(userId: string): string[] {
    return [...this.issuers.range(ofUser(userId))].map(({ key, value }) => {
      void this.users.remove(['at', (key as [string, string, string])[2]]);
      void this.issuers.remove(key);
      return value;
    });
  }
}

const ofUser = (userId: string): { from: Key; to: Key } => ({ from: ['user', userId], to: ['user', userId, '\uffff'] });
