// Everything about people in one place: users, organizations, memberships, invitations, sessions, and the log of
// what they change. Each thread opens its own over the one database; the primary one sweeps.

import type { Store } from '../storage/store.js';
import { Attempts } from './attempts.js';
import { StoredAuditLog } from './audit.js';
import { Invites } from './invites.js';
import { Memberships } from './memberships.js';
import { Organizations } from './organizations.js';
import { Sessions } from './sessions.js';
import { LmdbSignIns } from './lmdb-sign-ins.js';
import { SetupCode } from './setup-code.js';
import type { SignIns } from './sign-ins.js';
import { Tokens } from './tokens.js';
import { Users } from './users.js';

const SWEEP_MS = 3_600_000;

export class Directory {
  readonly users: Users;
  readonly organizations: Organizations;
  readonly memberships: Memberships;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly attempts: Attempts;
  readonly setupCode: SetupCode;
  readonly audit: StoredAuditLog;
  readonly signIns: SignIns;
  private timer: NodeJS.Timeout | null = null;
  private sweeping: Promise<void> = Promise.resolve();

  private constructor(readonly store: Store, readonly invites: Invites) {
    this.users = new Users(store);
    this.organizations = new Organizations(store);
    this.memberships = new Memberships(store);
    this.sessions = new Sessions(store);
    this.tokens = new Tokens(store);
    this.attempts = new Attempts(store);
    this.setupCode = new SetupCode(store);
    this.audit = new StoredAuditLog(store);
    this.signIns = new LmdbSignIns(store, this);
  }

  static async open(store: Store): Promise<Directory> {
    return new Directory(store, await Invites.open(store));
  }

  /** Sweeps now and every hour, for the primary one; `also` is done at the same times. */
  keepSwept(also: () => Promise<void>, onError: (error: unknown) => void): void {
    const sweep = (): void => { this.sweep(also).catch(onError); };
    sweep();
    this.timer = setInterval(sweep, SWEEP_MS);
    this.timer.unref();
  }

  /** Erases what is over. */
  sweep(also: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    const done = this.sweeping.then(async () => {
      for (const table of [this.sessions, this.tokens, this.attempts, this.invites, this.audit]) await table.sweep();
      await also();
    });
    this.sweeping = done.catch(() => undefined);
    return done;
  }

  async close(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    await this.sweeping;
  }
}
