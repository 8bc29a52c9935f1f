// Directory over LMDB; the primary thread's sweeps what is over.

import type { EraseGate } from '../storage/erase-gate.js';
import type { Store } from '../storage/store.js';
import { Accounts } from './accounts.js';
import { AccountChanges } from './changes.js';
import type { SweptDirectory } from './directory.js';
import { IdentityTable } from './lmdb/identity-table.js';
import { InviteTable } from './lmdb/invite-table.js';
import { MembershipTable } from './lmdb/membership-table.js';
import { OrganizationTable } from './lmdb/organization-table.js';
import { SecondFactorTable } from './lmdb/second-factor-table.js';
import { SessionTable } from './lmdb/session-table.js';
import { SettingsTable } from './lmdb/settings-table.js';
import { SetupCode } from './lmdb/setup-code.js';
import { TokenTable } from './lmdb/token-table.js';
import { UserTable } from './lmdb/user-table.js';
import { LmdbApiKeys } from './lmdb-api-keys.js';
import { LmdbAttempts } from './lmdb-attempts.js';
import { LmdbAuditLog } from './lmdb-audit-log.js';
import { LmdbIdentities } from './lmdb-identities.js';
import { LmdbInvites } from './lmdb-invites.js';
import { LmdbKeyStore } from './lmdb-key-store.js';
import { LmdbMembers } from './lmdb-members.js';
import { LmdbOrganizations } from './lmdb-organizations.js';
import { LmdbOwnAccount } from './lmdb-own-account.js';
import { LmdbSecondFactors } from './lmdb-second-factors.js';
import { LmdbSignIns } from './lmdb-sign-ins.js';
import { LmdbSignUps } from './lmdb-sign-ups.js';
import { LmdbUsers } from './lmdb-users.js';
import { Sweeping } from './sweeping.js';

export class LmdbDirectory implements SweptDirectory {
  readonly signIns: LmdbSignIns;
  readonly secondFactors: LmdbSecondFactors;
  readonly identities: LmdbIdentities;
  readonly ownAccount: LmdbOwnAccount;
  readonly signUps: LmdbSignUps;
  readonly users: LmdbUsers;
  readonly organizations: LmdbOrganizations;
  readonly members: LmdbMembers;
  readonly invites: LmdbInvites;
  readonly apiKeys: LmdbApiKeys;
  readonly keyStore: LmdbKeyStore;
  readonly attempts: LmdbAttempts;
  readonly audit: LmdbAuditLog;
  readonly now = Date.now;
  private readonly sweeping: Sweeping;

  /** `changes` is told of each change to keys and organizations. */
  constructor(
    readonly store: Store,
    changes = new AccountChanges(),
  ) {
    const changed = (organizationId: string): void => changes.tell(organizationId);
    this.audit = new LmdbAuditLog(store);
    this.attempts = new LmdbAttempts(store);
    const memberships = new MembershipTable(store);
    this.apiKeys = new LmdbApiKeys(store, memberships, this.audit, changed);
    const invites = new InviteTable(store),
      sessions = new SessionTable(store),
      tokens = new TokenTable(store);
    const tables = {
      users: new UserTable(store),
      organizations: new OrganizationTable(store),
      settings: new SettingsTable(store),
      memberships,
      setupCode: new SetupCode(store),
      secondFactors: new SecondFactorTable(store),
      identities: new IdentityTable(store),
      invites,
      sessions,
      tokens,
      attempts: this.attempts,
      audit: this.audit,
      keys: this.apiKeys,
    };
    this.keyStore = new LmdbKeyStore(this.apiKeys, tables.organizations, tables.settings);
    this.signIns = new LmdbSignIns(store, tables);
    this.secondFactors = new LmdbSecondFactors(store, tables);
    this.identities = new LmdbIdentities(store, tables);
    this.ownAccount = new LmdbOwnAccount(store, tables);
    this.signUps = new LmdbSignUps(store, tables);
    this.users = new LmdbUsers(store, tables);
    this.organizations = new LmdbOrganizations(store, tables, changed);
    this.members = new LmdbMembers(store, tables);
    this.invites = new LmdbInvites(store, tables);
    const swept: readonly { sweep(): Promise<void> }[] = [sessions, tokens, this.attempts, invites, this.audit];
    this.sweeping = new Sweeping(async () => {
      for (const table of swept) await table.sweep();
    });
  }

  keepSwept(also: () => Promise<void>, onError: (error: unknown) => void, gate: EraseGate): void {
    this.sweeping.keep(also, onError, gate);
  }

  sweep(also?: () => Promise<void>): Promise<void> {
    return this.sweeping.sweep(also);
  }

  close(): Promise<void> {
    return this.sweeping.close();
  }
}

/** The accounts alone, for a process that serves nothing. */
export function openAccounts(store: Store): Accounts {
  const changes = new AccountChanges();
  return new Accounts(new LmdbDirectory(store, changes), changes);
}
