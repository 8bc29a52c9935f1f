// The storage ports for users and organizations in one object (see docs/internals/storage.md). Each thread opens its
// own directory on the shared database.

import type { EraseGate } from '../storage/erase-gate.js';
import type { ApiKeys } from './api-keys.js';
import type { Attempts } from './attempts.js';
import type { AuditLog } from './audit.js';
import type { Identities } from './identities.js';
import type { Invites } from './invites.js';
import type { KeyStore } from './key-store.js';
import type { Members } from './members.js';
import type { OwnAccount } from './own-account.js';
import type { Organizations } from './organizations.js';
import type { SecondFactors } from './second-factors.js';
import type { ServiceAccounts } from './service-accounts.js';
import type { SignIns } from './sign-ins.js';
import type { SignUps } from './sign-ups.js';
import type { Users } from './users.js';

export interface Directory {
  /**
   * Milliseconds since the Unix epoch, by the clock that decides when keys, sessions, links and lockouts expire: the
   * shared database's clock if there is one, otherwise this machine's.
   */
  readonly now: () => number;
  readonly signIns: SignIns;
  readonly secondFactors: SecondFactors;
  readonly identities: Identities;
  readonly ownAccount: OwnAccount;
  readonly signUps: SignUps;
  readonly users: Users;
  readonly organizations: Organizations;
  readonly members: Members;
  readonly serviceAccounts: ServiceAccounts;
  readonly invites: Invites;
  readonly apiKeys: ApiKeys;
  readonly keyStore: KeyStore;
  readonly attempts: Attempts;
  readonly audit: AuditLog;
}

/** A directory that erases expired data and must be closed. */
export interface SweptDirectory extends Directory {
  /**
   * For the primary thread: erases expired data immediately, then every hour and whenever `gate` starts to allow it.
   * Skips a sweep while `gate` does not allow erasing. `also` runs with each sweep.
   */
  keepSwept(also: () => Promise<void>, onError: (error: unknown) => void, gate: EraseGate): void;
  /** Erases expired data. */
  sweep(also?: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}
