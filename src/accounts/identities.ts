// Who a person is at another place, a provider of OpenID Connect: a port, see docs/internals/storage.md. Each method is one unit of
// work, with what the audit log says of it, durable when it resolves. An identity is one user's.

import { createHash } from 'node:crypto';
import type { Actor } from './audit.js';
import type { User } from './users.js';

/** `subject` is the provider's own name for the person, which it never gives to another. */
export interface ForeignIdentity {
  readonly issuer: string;
  readonly subject: string;
}

export interface Identities {
  /** Null: nobody's here. */
  userOf(identity: ForeignIdentity): Promise<User | null>;
  /** Whether the user has any. */
  has(userId: string): Promise<boolean>;
  /** Again is fine. False if it is another's. */
  link(user: User, identity: ForeignIdentity, actor: Actor): Promise<boolean>;
  /** All of the user's. False if there were none. */
  unlink(user: User, actor: Actor): Promise<boolean>;
}

/** What is stored of it: subjects may be anything, and long. */
export const identityHash = ({ issuer, subject }: ForeignIdentity): string =>
  createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('base64url');
