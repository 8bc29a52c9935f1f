// Users, their sessions and passwords: a port, see docs/internals/storage.md. Each method is one unit of work: all of it or
// nothing, with what the audit log says of it, durable when it resolves. Isolated by user: a session of another is
// unknown.

import type { Actor } from './audit.js';
import type { Session } from './sessions.js';
import type { User } from './users.js';

export interface SignedIn {
  readonly user: User;
  readonly session: Session;
}

export interface Client {
  readonly ip: string;
  readonly userAgent: string;
}

/** Why somebody who knows the password does not get in. */
export type Refused = 'changed' | 'locked';

export interface SignIns {
  /** Whom a cookie signs in, as they are now; null if the session is over, or the user is locked or gone. */
  find(cookie: string): Promise<SignedIn | null>;
  /** Notes that a session is used. Not durable at once, and no failure of the request. */
  seen(cookie: string, session: Session): void;
  /** `email` as normalEmail() gives it. */
  withEmail(email: string): Promise<User | null>;
  /**
   * Begins a session of somebody whose password was right, and ends that of `before`, another cookie. `upgraded`: the
   * password's hash as it is to be from now on. `counted`: the attempts that were none; null: there were none, or they
   * are forgiven already. 'changed': the password meanwhile, or a second factor was turned on, which has not been asked for.
   */
  begin(
    known: User,
    upgraded: string | null,
    client: Client,
    before: string | null,
    counted: CountedLogin | null,
  ): Promise<{ user: User; cookie: string } | Refused>;
  /** A login that was counted was not looked at. */
  forgive(counted: CountedLogin): Promise<void>;
  /** Last used first. */
  sessions(userId: string): Promise<Session[]>;
  /** False if the user has no such session. `actor`: of what is noted; null: it is one's own and ends by signing out. */
  end(userId: string, sessionId: string, actor: Actor | null): Promise<boolean>;
  /** Null if the user is gone. */
  rename(user: User, name: string, actor: Actor): Promise<User | null>;
  /** Of the link for a new password. Rejects with ApiError 400 invalid_token. */
  userOfResetLink(token: string): Promise<string>;
  /** The link is used up, every session of the user over, and a link to another address void. Rejects with ApiError 400 invalid_token. */
  resetPassword(token: string, userId: string, passwordHash: string, ip: string): Promise<User>;
  /** Every other session of the user is over, every link but those that confirm the address void. False if the password was changed meanwhile. */
  changePassword(user: User, passwordHash: string, keptSessionId: string, actor: Actor): Promise<boolean>;
  /** Rejects with ApiError 400 invalid_token. */
  verifyEmail(token: string, ip: string): Promise<void>;
  /** The token of a link that goes by mail alone; it replaces the one before. */
  mailedToken(userId: string, purpose: 'password' | 'email'): Promise<string>;
  /** The token of a link that an operator hands on. Null if there is no such user. */
  handedToken(userId: string, actor: Actor): Promise<string | null>;
}

/** Shares of both are taken before the password is looked at. */
export interface CountedLogin {
  readonly address: string;
  readonly email: string;
}

/** Whether what was shown of `known` to sign in is what is to be shown now. */
export function isAsKnown(current: User, known: User): boolean {
  return current.passwordHash === known.passwordHash && (current.secondFactor !== true || known.secondFactor === true);
}
