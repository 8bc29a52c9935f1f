// Storage port for users, their sessions and their passwords (see docs/internals/storage.md). Each method is one
// transaction, including its audit entry, and is durable when it resolves. Other users' sessions are treated as
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

/** Why a sign-in with the correct password is refused. */
export type Refused = 'changed' | 'locked';

export interface SignIns {
  /**
   * The user to whom a session cookie belongs, in the current state. Null if the session has ended, or if the user is
   * locked or deleted.
   */
  find(cookie: string): Promise<SignedIn | null>;
  /**
   * Records that a session is being used. The write is not durable immediately, and a failed write does not affect the
   * request.
   */
  seen(cookie: string, session: Session): void;
  /** `email`: as returned by normalEmail(). */
  withEmail(email: string): Promise<User | null>;
  /**
   * Starts a session after a correct password, and ends the session of the cookie `before`. `upgraded`: the new
   * password hash, if it changes. `counted`: the counted attempts to cancel, because the sign-in succeeded; null if
   * there are none. Resolves to 'changed' if the password has changed in the meantime, or if two-factor authentication
   * was turned on and no code has been checked.
   */
  begin(
    known: User,
    upgraded: string | null,
    client: Client,
    before: string | null,
    counted: CountedLogin | null,
  ): Promise<{ user: User; cookie: string } | Refused>;
  /** Cancels the counted attempts of a sign-in whose password was correct or could not be checked. */
  resetAttempts(counted: CountedLogin): Promise<void>;
  /** Most recently used first. */
  sessions(userId: string): Promise<Session[]>;
  /**
   * Ends one session. False if the user does not have this session. `actor`: for the audit entry; null: the user signed
   * out, which is not logged.
   */
  end(userId: string, sessionId: string, actor: Actor | null): Promise<boolean>;
  /** Null if the user no longer exists. */
  rename(user: User, name: string, actor: Actor): Promise<User | null>;
  /** The user for whom a password reset link was created. Rejects with ApiError 400 invalid_token. */
  userOfResetLink(token: string): Promise<string>;
  /**
   * Invalidates the link, ends all of the user's sessions, and invalidates links that change the email address. Rejects
   * with ApiError 400 invalid_token.
   */
  resetPassword(token: string, userId: string, passwordHash: string, ip: string): Promise<User>;
  /**
   * Ends all of the user's other sessions, and invalidates all links except links that confirm the address. False if
   * the password has changed in the meantime.
   */
  changePassword(user: User, passwordHash: string, keptSessionId: string, actor: Actor): Promise<boolean>;
  /** Rejects with ApiError 400 invalid_token. */
  verifyEmail(token: string, ip: string): Promise<void>;
  /** Creates the token for a link that is sent only by email, replacing the previous token. */
  mailedToken(userId: string, purpose: 'password' | 'email'): Promise<string>;
  /** Creates the token for a link that an operator passes on. Null if the user does not exist. */
  handedToken(userId: string, actor: Actor): Promise<string | null>;
}

/** The IP and email address for which a sign-in attempt is counted before the password is checked. */
export interface CountedLogin {
  readonly address: string;
  readonly email: string;
}

/** Whether everything that was verified for `known` still matches the current user. */
export function isAsKnown(current: User, known: User): boolean {
  return current.passwordHash === known.passwordHash && (current.secondFactor !== true || known.secondFactor === true);
}
