// A Directory on a database that several processes share. Every primary thread erases expired data; several can do this
// concurrently without harm.

import type { EraseGate } from '../../erase-gate.js';
import type { Database } from '../database.js';
import type { AccountChanges } from '../../../accounts/changes.js';
import type { SweptDirectory } from '../../../accounts/directory.js';
import { Sweeping } from '../../../accounts/sweeping.js';
import { PostgresApiKeys } from './api-keys.js';
import { PostgresAttempts } from './attempts.js';
import { PostgresAuditLog } from './audit-log.js';
import { PostgresIdentities } from './identities.js';
import { sweepInvites } from './invite-rows.js';
import { PostgresInvites } from './invites.js';
import { PostgresKeyStore } from './key-store.js';
import { PostgresMembers } from './members.js';
import { PostgresOrganizations } from './organizations.js';
import { PostgresOwnAccount } from './own-account.js';
import { PostgresSecondFactors } from './second-factors.js';
import { sweepSessions } from './session-rows.js';
import { PostgresServiceAccounts } from './service-accounts.js';
import { PostgresSignIns } from './sign-ins.js';
import { PostgresSignUps } from './sign-ups.js';
import { sweepTokens } from './token-rows.js';
import { PostgresUsers } from './users.js';
import { AccountWork } from './work.js';

export class PostgresDirectory implements SweptDirectory {
  readonly signIns: PostgresSignIns;
  readonly secondFactors: PostgresSecondFactors;
  readonly identities: PostgresIdentities;
  readonly ownAccount: PostgresOwnAccount;
  readonly signUps: PostgresSignUps;
  readonly users: PostgresUsers;
  readonly organizations: PostgresOrganizations;
  readonly members: PostgresMembers;
  readonly serviceAccounts: PostgresServiceAccounts;
  readonly invites: PostgresInvites;
  readonly apiKeys: PostgresApiKeys;
  readonly keyStore: PostgresKeyStore;
  readonly attempts: PostgresAttempts;
  readonly audit: PostgresAuditLog;
  /**
   * Account transactions, also used for other data that is written together with an audit entry: settings, prices,
   * budgets.
   */
  readonly work: AccountWork;
  readonly #sweeping: Sweeping;

  /**
   * `changes` is notified of each change that this process makes to keys and organizations; other processes' changes
   * arrive through a ChangeFeed. `now`: the database's clock, so that all processes agree on when a key, session, link
   * or lockout expires.
   */
  constructor(
    database: Database,
    changes: Pick<AccountChanges, 'notify'>,
    readonly now: () => number = Date.now,
  ) {
    this.work = new AccountWork(database, (organizationId) => changes.notify(organizationId), now);
    this.audit = new PostgresAuditLog(this.work, now);
    this.attempts = new PostgresAttempts(database, now);
    this.apiKeys = new PostgresApiKeys(this.work);
    this.keyStore = new PostgresKeyStore(this.work);
    this.signIns = new PostgresSignIns(this.work, now);
    this.secondFactors = new PostgresSecondFactors(this.work, now);
    this.identities = new PostgresIdentities(this.work);
    this.ownAccount = new PostgresOwnAccount(this.work, now);
    this.signUps = new PostgresSignUps(this.work, now);
    this.users = new PostgresUsers(this.work);
    this.organizations = new PostgresOrganizations(this.work, this.apiKeys);
    this.members = new PostgresMembers(this.work, now);
    this.serviceAccounts = new PostgresServiceAccounts(this.work);
    this.invites = new PostgresInvites(this.work, now);
    this.#sweeping = new Sweeping(async () => {
      await sweepSessions(database, now());
      await sweepTokens(database, now());
      await this.attempts.sweep();
      await sweepInvites(database, now());
      await this.audit.sweep();
    });
  }

  keepSwept(also: () => Promise<void>, onError: (error: unknown) => void, gate: EraseGate): void {
    this.#sweeping.keep(also, onError, gate);
  }

  sweep(also?: () => Promise<void>): Promise<void> {
    return this.#sweeping.sweep(also);
  }

  close(): Promise<void> {
    return this.#sweeping.close();
  }
}
