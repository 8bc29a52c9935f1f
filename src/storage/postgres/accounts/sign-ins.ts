// Implements SignIns on the users, sessions, link tokens, attempts and audit log tables.

import type { Actor } from '../../../accounts/audit.js';
import { isCookie, sessionHash } from '../../../accounts/sessions.js';
import type { Session } from '../../../accounts/sessions.js';
import { isAsKnown } from '../../../accounts/sign-ins.js';
import type { Client, CountedLogin, Refused, SignedIn, SignIns } from '../../../accounts/sign-ins.js';
import { accountGone } from '../../../accounts/tokens.js';
import type { User } from '../../../accounts/users.js';
import { clearAttempts, resetAttempts } from './attempts.js';
import { noteAudit } from './audit-log.js';
import {
  beginSession,
  endSession,
  endSessionOfCookie,
  endSessions,
  LASTS,
  lastingFrom,
  noteSeen,
  sessionOf,
  sessionsOf,
} from './session-rows.js';
import { createToken, findToken, removeToken, useToken } from './token-rows.js';
import { changeUser, userById, userOf, userWithEmail } from './user-rows.js';
import type { UserRow } from './user-rows.js';
import type { AccountWork } from './work.js';

type FoundRow = UserRow & {
  session_id: string;
  session_created_at: number;
  session_seen_at: number;
  session_ip: string;
  session_agent: string;
};

export class PostgresSignIns implements SignIns {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  async find(cookie: string): Promise<SignedIn | null> {
    if (!isCookie(cookie)) return null;
    const [row] = await this.work.sql.query<FoundRow>(
      `SELECT users.*, sessions.id AS session_id, sessions.created_at AS session_created_at, sessions.last_seen_at AS session_seen_at, sessions.ip AS session_ip, sessions.user_agent AS session_agent
       FROM sessions JOIN users ON users.id = sessions.user_id WHERE ${LASTS} AND sessions.hash = $3 AND NOT users.locked`,
      [...lastingFrom(this.now()), sessionHash(cookie)],
    );
    if (row === undefined) return null;
    return {
      user: userOf(row),
      session: sessionOf({
        id: row.session_id,
        user_id: row.id,
        created_at: row.session_created_at,
        last_seen_at: row.session_seen_at,
        ip: row.session_ip,
        user_agent: row.session_agent,
      }),
    };
  }

  seen(cookie: string, session: Session): void {
    void noteSeen(this.work.sql, this.now(), cookie, session).catch(() => undefined);
  }

  async withEmail(email: string): Promise<User | null> {
    return (await userWithEmail(this.work.sql, email)) ?? null;
  }

  begin(
    known: User,
    upgraded: string | null,
    client: Client,
    before: string | null,
    counted: CountedLogin | null,
  ): Promise<{ user: User; cookie: string } | Refused> {
    return this.work.change(async (sql) => {
      const current = await userById(sql, known.id);
      if (current === undefined || !isAsKnown(current, known)) return 'changed';
      if (current.locked) return 'locked';
      if (counted !== null) {
        await resetAttempts(sql, 'login', [counted.address, counted.email]);
        await clearAttempts(sql, 'login', counted.email);
      }
      if (before !== null) await endSessionOfCookie(sql, before);
      const user = await changeUser(sql, known.id, {
        lastLoginAt: Date.now(),
        ...(upgraded === null ? {} : { passwordHash: upgraded }),
      });
      return {
        user: user ?? current,
        cookie: await beginSession(sql, this.now(), known.id, client.ip, client.userAgent),
      };
    });
  }

  resetAttempts({ address, email }: CountedLogin): Promise<void> {
    return this.work.change((sql) => resetAttempts(sql, 'login', [address, email]));
  }

  sessions(userId: string): Promise<Session[]> {
    return sessionsOf(this.work.sql, this.now(), userId);
  }

  end(userId: string, sessionId: string, actor: Actor | null): Promise<boolean> {
    return this.work.change(async (sql) => {
      const ended = await endSession(sql, userId, sessionId);
      if (ended && actor !== null) await noteAudit(sql, null, { actor, action: 'session.revoked', target: sessionId });
      return ended;
    });
  }

  rename(user: User, name: string, actor: Actor): Promise<User | null> {
    return this.work.change(async (sql) => {
      await noteAudit(sql, null, {
        actor,
        action: 'user.renamed',
        target: user.id,
        detail: { from: user.name, to: name },
      });
      return (await changeUser(sql, user.id, { name })) ?? null;
    });
  }

  async userOfResetLink(token: string): Promise<string> {
    return (await findToken(this.work.sql, this.now(), token, 'password')).userId;
  }

  resetPassword(token: string, userId: string, passwordHash: string, ip: string): Promise<User> {
    return this.work.change(async (sql) => {
      const { mailed } = await useToken(sql, this.now(), token, 'password');
      const changed = await changeUser(sql, userId, { passwordHash, ...(mailed ? { emailVerified: true } : {}) });
      if (changed === undefined) throw accountGone();
      await endSessions(sql, userId);
      // An attacker who knew the old password may have requested an address change.
      await removeToken(sql, userId, 'new-email');
      await clearAttempts(sql, 'password', userId);
      await noteAudit(sql, null, { actor: actorOf(changed, ip), action: 'user.password_reset', target: userId });
      return changed;
    });
  }

  changePassword(user: User, passwordHash: string, keptSessionId: string, actor: Actor): Promise<boolean> {
    return this.work.change(async (sql) => {
      if ((await userById(sql, user.id))?.passwordHash !== user.passwordHash) return false;
      await changeUser(sql, user.id, { passwordHash });
      await endSessions(sql, user.id, keptSessionId);
      for (const purpose of ['password', 'new-email'] as const) await removeToken(sql, user.id, purpose);
      await clearAttempts(sql, 'password', user.id);
      await noteAudit(sql, null, { actor, action: 'user.password_changed', target: user.id });
      return true;
    });
  }

  verifyEmail(token: string, ip: string): Promise<void> {
    return this.work.change(async (sql) => {
      const { userId } = await useToken(sql, this.now(), token, 'email');
      const user = await changeUser(sql, userId, { emailVerified: true });
      if (user !== undefined)
        await noteAudit(sql, null, { actor: actorOf(user, ip), action: 'user.email_verified', target: userId });
    });
  }

  mailedToken(userId: string, purpose: 'password' | 'email'): Promise<string> {
    return this.work.change((sql) => createToken(sql, { now: this.now(), userId, purpose, mailed: true }));
  }

  handedToken(userId: string, actor: Actor): Promise<string | null> {
    return this.work.change(async (sql) => {
      const user = await userById(sql, userId);
      if (user === undefined) return null;
      await noteAudit(sql, null, {
        actor,
        action: 'user.reset_link_created',
        target: userId,
        detail: { email: user.email },
      });
      return await createToken(sql, { now: this.now(), userId, purpose: 'password', mailed: false });
    });
  }
}

const actorOf = ({ id, email }: User, ip: string): Actor => ({ type: 'user', id, email, ip });
