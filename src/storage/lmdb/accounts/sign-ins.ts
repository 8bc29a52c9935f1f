// Implements SignIns on the users, sessions, tokens, attempts and audit log tables.

import type { Store } from '../../store.js';
import type { Actor } from '../../../accounts/audit.js';
import type { SessionTable } from './session-table.js';
import type { TokenTable } from './token-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbAttempts } from './attempts.js';
import type { LmdbAuditLog } from './audit-log.js';
import type { Session } from '../../../accounts/sessions.js';
import { isAsKnown } from '../../../accounts/sign-ins.js';
import type { Client, CountedLogin, Refused, SignedIn, SignIns } from '../../../accounts/sign-ins.js';
import { accountGone } from '../../../accounts/tokens.js';
import type { User } from '../../../accounts/users.js';

export interface SignInTables {
  users: UserTable;
  sessions: SessionTable;
  tokens: TokenTable;
  attempts: LmdbAttempts;
  audit: LmdbAuditLog;
}

export class LmdbSignIns implements SignIns {
  constructor(
    private readonly store: Store,
    private readonly tables: SignInTables,
  ) {}

  async find(cookie: string): Promise<SignedIn | null> {
    const { sessions, users } = this.tables;
    const session = sessions.find(cookie);
    const user = session === undefined ? undefined : users.get(session.userId);
    return session === undefined || user === undefined || user.locked ? null : { user, session };
  }

  seen(cookie: string, session: Session): void {
    this.tables.sessions.seen(cookie, session);
  }

  async withEmail(email: string): Promise<User | null> {
    return this.tables.users.withEmail(email) ?? null;
  }

  begin(
    known: User,
    upgraded: string | null,
    client: Client,
    before: string | null,
    counted: CountedLogin | null,
  ): Promise<{ user: User; cookie: string } | Refused> {
    const { users, sessions, attempts } = this.tables;
    return this.store.transaction(() => {
      const current = users.get(known.id);
      if (current === undefined || !isAsKnown(current, known)) return 'changed';
      if (current.locked) return 'locked';
      if (counted !== null) {
        attempts.clearAttempts('login', counted.email);
        attempts.resetAttempts('login', counted.address);
      }
      const old = before === null ? undefined : sessions.find(before);
      if (old !== undefined) sessions.end(old.userId, old.id);
      const changed = users.change(known.id, {
        lastLoginAt: new Date().toISOString(),
        ...(upgraded === null ? {} : { passwordHash: upgraded }),
      });
      return { user: changed ?? current, cookie: sessions.begin(known.id, client.ip, client.userAgent).secret };
    });
  }

  resetAttempts({ address, email }: CountedLogin): Promise<void> {
    return this.store.transaction(() => {
      this.tables.attempts.resetAttempts('login', address);
      this.tables.attempts.resetAttempts('login', email);
    });
  }

  async sessions(userId: string): Promise<Session[]> {
    return this.tables.sessions.list(userId);
  }

  end(userId: string, sessionId: string, actor: Actor | null): Promise<boolean> {
    const { sessions, audit } = this.tables;
    return this.store.transaction(() => {
      const ended = sessions.end(userId, sessionId);
      if (ended && actor !== null) void audit.note(null, actor, 'session.revoked', sessionId);
      return ended;
    });
  }

  rename(user: User, name: string, actor: Actor): Promise<User | null> {
    return this.store.transaction(() => {
      void this.tables.audit.note(null, actor, 'user.renamed', user.id, { from: user.name, to: name });
      return this.tables.users.change(user.id, { name }) ?? null;
    });
  }

  async userOfResetLink(token: string): Promise<string> {
    return this.tables.tokens.find(token, 'password').userId;
  }

  resetPassword(token: string, userId: string, passwordHash: string, ip: string): Promise<User> {
    const { users, sessions, tokens, attempts, audit } = this.tables;
    return this.store.transaction(() => {
      const { mailed } = tokens.use(token, 'password');
      const changed = users.change(userId, { passwordHash, ...(mailed ? { emailVerified: true } : {}) });
      if (changed === undefined) throw accountGone();
      sessions.endAll(userId);
      tokens.removeOf(userId, 'new-email'); // someone who knew the old password may have requested an address change
      attempts.clearAttempts('password', userId);
      void audit.note(null, actorOf(changed, ip), 'user.password_reset', userId);
      return changed;
    });
  }

  changePassword(user: User, passwordHash: string, keptSessionId: string, actor: Actor): Promise<boolean> {
    const { users, sessions, tokens, attempts, audit } = this.tables;
    return this.store.transaction(() => {
      if (users.get(user.id)?.passwordHash !== user.passwordHash) return false;
      users.change(user.id, { passwordHash });
      sessions.endAll(user.id, keptSessionId);
      for (const purpose of ['password', 'new-email'] as const) tokens.removeOf(user.id, purpose);
      attempts.clearAttempts('password', user.id);
      void audit.note(null, actor, 'user.password_changed', user.id);
      return true;
    });
  }

  verifyEmail(token: string, ip: string): Promise<void> {
    const { users, tokens, audit } = this.tables;
    return this.store.transaction(() => {
      const { userId } = tokens.use(token, 'email');
      const user = users.change(userId, { emailVerified: true });
      if (user !== undefined) void audit.note(null, actorOf(user, ip), 'user.email_verified', userId);
    });
  }

  mailedToken(userId: string, purpose: 'password' | 'email'): Promise<string> {
    return this.store.transaction(() => this.tables.tokens.create(userId, purpose, true));
  }

  handedToken(userId: string, actor: Actor): Promise<string | null> {
    const { users, tokens, audit } = this.tables;
    return this.store.transaction(() => {
      const user = userId.length > 64 ? undefined : users.get(userId);
      if (user === undefined) return null;
      void audit.note(null, actor, 'user.reset_link_created', userId, { email: user.email });
      return tokens.create(userId, 'password', false);
    });
  }
}

const actorOf = ({ id, email }: User, ip: string): Actor => ({ type: 'user', id, email, ip });
