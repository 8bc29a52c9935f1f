// Tickets for users whose password was correct, used between the two steps of a sign-in. The browser keeps the
// encrypted ticket; it is not stored in the database. The ticket is useless without a code, and becomes invalid when
// the password changes.

import { createHash } from 'node:crypto';
import { apiError } from '../shared/errors.js';
import type { SecretBox } from './sealing/secret-box.js';
import type { User, Users } from './users.js';

export const TICKET_MS = 10 * 60_000;

interface MfaChallenge {
  user: string;
  password: string;
  until: number;
}

export class MfaChallenges {
  constructor(
    private readonly box: SecretBox,
    private readonly users: Pick<Users, 'get'>,
    private readonly now: () => number = Date.now,
  ) {}

  issue(user: User): { ticket: string; expiresAt: number } {
    const until = this.now() + TICKET_MS;
    const ticket: MfaChallenge = { user: user.id, password: markOf(user), until };
    return { ticket: this.box.seal('sign-in ticket', '', JSON.stringify(ticket)), expiresAt: until };
  }

  /** Rejects with ApiError 400 invalid_token. */
  async open(sealed: string): Promise<User> {
    const opened = this.box.open('sign-in ticket', '', sealed);
    const ticket = opened === null ? null : (JSON.parse(opened.text) as MfaChallenge);
    const user = ticket === null || ticket.until <= this.now() ? null : await this.users.get(ticket.user);
    if (ticket === null || user === null || ticket.password !== markOf(user)) {
      throw apiError(
        'invalid_token',
        'This sign-in was started more than ten minutes ago, or the password has changed since then. Sign in again.',
        'ticket',
      );
    }
    return user;
  }
}

const markOf = ({ passwordHash }: User): string =>
  createHash('sha256').update(passwordHash).digest('base64url').slice(0, 16);
