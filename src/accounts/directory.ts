// Everything about people and organizations in one place: the ports of docs/internals/storage.md that keep them. Each thread opens
// its own over the one database.

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
import type { SignIns } from './sign-ins.js';
import type { SignUps } from './sign-ups.js';
import type { Users } from './users.js';

export interface Directory {
  /** Milliseconds since 1970, by the clock that decides when keys, sessions, links and lockouts end: the shared database's, else this machine's. */
  readonly now: () => number;
  readonly signIns: SignIns;
  readonly secondFactors: SecondFactors;
  readonly identities: Identities;
  readonly ownAccount: OwnAccount;
  readonly signUps: SignUps;
  readonly users: Users;
  readonly organizations: Organizations;
  readonly members: Members;
  readonly invites: Invites;
  readonly apiKeys: ApiKeys;
  readonly keyStore: KeyStore;
  readonly attempts: Attempts;
  readonly audit: AuditLog;
}

/** A directory that erases what is over, and is closed at the end. */
export interface SweptDirectory extends Directory {
  /** Sweeps now, every hour and when the gate opens, as far as it allows, for the primary thread; `also` is done at the same times. */
  keepSwept(also: () => Promise<void>, onError: (error: unknown) => void, gate: EraseGate): void;
  /** Erases what is over. */
  sweep(also?: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}
