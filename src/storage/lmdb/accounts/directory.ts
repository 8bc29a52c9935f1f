// A Directory on LMDB. The instance on the primary thread erases expired data.

import type { EraseGate } from '../../erase-gate.js';
import type { Store } from '../../store.js';
import { Accounts } from '../../../accounts/accounts.js';
import { AccountChanges } from '../../../accounts/changes.js';
import type { SweptDirectory } from '../../../accounts/directory.js';
import { IdentityTable } from './identity-table.js';
import { InviteTable } from './invite-table.js';
import { MembershipTable } from './membership-table.js';
import { OrganizationTable } from './organization-table.js';
import { SecondFactorTable } from './second-factor-table.js';
import { ServiceAccountTable } from './service-account-table.js';
import { SessionTable } from './session-table.js';
import { SettingsTable } from './settings-table.js';
import { SetupCode } from './setup-code.js';
import { TokenTable } from './token-table.js';
import { UserTable } from './user-table.js';
import { LmdbApiKeys } from './api-keys.js';
import { LmdbAttempts } from './attempts.js';
import { LmdbAuditLog } from './audit-log.js';
import { LmdbIdentities } from './identities.js';
import { LmdbInvites } from './invites.js';
import { LmdbKeyStore } from './key-store.js';
import { LmdbMembers } from './members.js';
import { LmdbOrganizations } from './organizations.js';
import { LmdbOwnAccount } from './own-account.js';
import { LmdbSecondFactors } from './second-factors.js';
import { LmdbServiceAccounts } from './service-accounts.js';
import { LmdbSignIns } from './sign-ins.js';
import { LmdbSignUps } from './sign-ups.js';
import { LmdbUsers } from './users.js';
import { Sweeping } from '../../../accounts/sweeping.js';

export class LmdbDirectory implements SweptDirectory {
  readonly signIns: LmdbSignIns;
  readonly secondFactors: LmdbSecondFactors;
  readonly identities: LmdbIdentities;
  readonly ownAccount: LmdbOwnAccount;
  readonly signUps: LmdbSignUps;
  readonly users: LmdbUsers;
  readonly organizations: LmdbOrganizations;
  readonly members: LmdbMembers;
  readonly serviceAccounts: LmdbServiceAccounts;
  readonly invites: LmdbInvites;
  readonly apiKeys: LmdbApiKeys;
  readonly keyStore: LmdbKeyStore;
  readonly attempts: LmdbAttempts;
  readonly audit: LmdbAuditLog;
  readonly now = Date.now;
  private readonly sweeping: Sweeping;

  /** `changes` is notified of every change to keys and organizations. */
  constructor(
    readonly store: Store,
    changes = new AccountChanges(),
  ) {
    const changed = (organizationId: string): void => changes.notify(organizationId);
    this.audit = new LmdbAuditLog(store);
    this.attempts = new LmdbAttempts(store);
    const memberships = new MembershipTable(store);
    const serviceAccountTable = new ServiceAccountTable(store);
    this.apiKeys = new LmdbApiKeys(store, { memberships, serviceAccounts: serviceAccountTable }, this.audit, changed);
    const invites = new InviteTable(store),
      sessions = new SessionTable(store),
      tokens = new TokenTable(store);
    const tables = {
      users: new UserTable(store),
      organizations: new OrganizationTable(store),
      settings: new SettingsTable(store),
      memberships,
      serviceAccountTable,
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
    this.keyStore = new LmdbKeyStore(this.apiKeys, tables);
    this.signIns = new LmdbSignIns(store, tables);
    this.secondFactors = new LmdbSecondFactors(store, tables);
    this.identities = new LmdbIdentities(store, tables);
    this.ownAccount = new LmdbOwnAccount(store, tables);
    this.signUps = new LmdbSignUps(store, tables);
    this.users = new LmdbUsers(store, tables);
    this.organizations = new LmdbOrganizations(store, tables, changed);
    this.members = new LmdbMembers(store, tables);
    this.serviceAccounts = new LmdbServiceAccounts(store, tables, changed);
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

/** Opens only the accounts, for a process that does not serve requests. */
export function openAccounts(store: Store): Accounts {
  const changes = new AccountChanges();
  return new Accounts(new LmdbDirectory(store, changes), changes);
}
