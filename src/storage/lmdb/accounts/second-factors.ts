// Implements SecondFactors on the `second-factors` table, keyed by user, which contains the active two-factor secret
// and the proposed one.

import type { Store } from '../../store.js';
import type { Actor } from '../../../accounts/audit.js';
import type { SecondFactorTable } from './second-factor-table.js';
import type { SessionTable } from './session-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbAttempts } from './attempts.js';
import type { LmdbAuditLog } from './audit-log.js';
import { PROPOSAL_MS } from '../../../accounts/second-factors.js';
import type { ProvedFactor, SecondFactor, SecondFactors } from '../../../accounts/second-factors.js';
import { isUsedStep } from '../../../accounts/totp.js';
import type { User } from '../../../accounts/users.js';

export interface SecondFactorsTables {
  secondFactors: SecondFactorTable;
  users: UserTable;
  sessions: SessionTable;
  attempts: LmdbAttempts;
  audit: LmdbAuditLog;
}

export class LmdbSecondFactors implements SecondFactors {
  constructor(
    private readonly store: Store,
    private readonly tables: SecondFactorsTables,
    private readonly now: () => number = Date.now,
  ) {}

  async get(userId: string): Promise<SecondFactor | null> {
    return this.tables.secondFactors.get(userId).factor;
  }

  propose(userId: string, sealed: string): Promise<void> {
    const { secondFactors } = this.tables;
    return this.store.transaction(() =>
      secondFactors.put(userId, {
        ...secondFactors.get(userId),
        proposal: { sealed, until: this.now() + PROPOSAL_MS },
      }),
    );
  }

  async proposed(userId: string): Promise<string | null> {
    return this.#proposal(userId);
  }

  enable(user: User, { sealed, step, recovery }: ProvedFactor, keptSessionId: string, actor: Actor): Promise<boolean> {
    const { secondFactors, users, sessions, attempts, audit } = this.tables;
    return this.store.transaction(() => {
      if (
        this.#proposal(user.id) !== sealed ||
        secondFactors.get(user.id).factor !== null ||
        users.get(user.id) === undefined
      )
        return false;
      const since = new Date(this.now()).toISOString();
      secondFactors.put(user.id, { factor: { sealed, since, lastStep: step, recovery }, proposal: null });
      users.change(user.id, { secondFactor: true });
      sessions.endAll(user.id, keptSessionId);
      attempts.clearAttempts('code', user.id);
      void audit.note(null, actor, 'user.second_factor_enabled', user.id);
      return true;
    });
  }

  useStep(userId: string, step: number): Promise<boolean> {
    const { secondFactors, attempts } = this.tables;
    return this.store.transaction(() => {
      const row = secondFactors.get(userId);
      if (row.factor === null || isUsedStep(step, row.factor.lastStep)) return false;
      secondFactors.put(userId, { ...row, factor: { ...row.factor, lastStep: step } });
      attempts.clearAttempts('code', userId);
      return true;
    });
  }

  useRecovery(user: User, hash: string, ip: string): Promise<number | null> {
    const { secondFactors, attempts, audit } = this.tables;
    return this.store.transaction(() => {
      const row = secondFactors.get(user.id);
      if (row.factor === null || !row.factor.recovery.includes(hash)) return null;
      const recovery = row.factor.recovery.filter((one) => one !== hash);
      secondFactors.put(user.id, { ...row, factor: { ...row.factor, recovery } });
      attempts.clearAttempts('code', user.id);
      void audit.note(null, { type: 'user', id: user.id, email: user.email, ip }, 'user.recovery_code_used', user.id, {
        left: recovery.length,
      });
      return recovery.length;
    });
  }

  replaceRecovery(user: User, recovery: readonly string[], actor: Actor): Promise<boolean> {
    const { secondFactors, audit } = this.tables;
    return this.store.transaction(() => {
      const row = secondFactors.get(user.id);
      if (row.factor === null) return false;
      secondFactors.put(user.id, { ...row, factor: { ...row.factor, recovery } });
      void audit.note(null, actor, 'user.recovery_codes_replaced', user.id);
      return true;
    });
  }

  disable(user: User, actor: Actor): Promise<boolean> {
    return this.store.transaction(() => this.#remove(user.id, actor, 'user.second_factor_disabled', user.email));
  }

  reset(userId: string, actor: Actor): Promise<boolean> {
    const { users, sessions } = this.tables;
    return this.store.transaction(() => {
      const user = userId.length > 64 ? undefined : users.get(userId);
      if (user === undefined || !this.#remove(userId, actor, 'user.second_factor_reset', user.email)) return false;
      sessions.endAll(userId);
      return true;
    });
  }

  async reseal(again: (userId: string, sealed: string) => string | null): Promise<void> {
    const { secondFactors } = this.tables;
    for (const userId of secondFactors.userIds()) {
      await this.store.transaction(() => {
        const row = secondFactors.get(userId);
        const sealed = row.factor === null ? null : again(userId, row.factor.sealed);
        if (row.factor !== null && sealed !== null)
          secondFactors.put(userId, { ...row, factor: { ...row.factor, sealed } });
      });
    }
  }

  #proposal(userId: string): string | null {
    const { proposal } = this.tables.secondFactors.get(userId);
    return proposal !== null && proposal.until > this.now() ? proposal.sealed : null;
  }

  /** Must be called within a transaction. */
  #remove(userId: string, actor: Actor, action: string, email: string): boolean {
    const { secondFactors, users, attempts, audit } = this.tables;
    if (secondFactors.get(userId).factor === null) return false;
    secondFactors.remove(userId);
    users.change(userId, { secondFactor: false });
    attempts.clearAttempts('code', userId);
    void audit.note(null, actor, action, userId, { email });
    return true;
  }
}
