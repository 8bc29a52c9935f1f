// Storage port that links users to identities at an OpenID Connect provider (see docs/internals/storage.md). Each
// method is one transaction, including its audit entry, and is durable when it resolves. Each identity is linked to at
// most one user.

import { createHash } from 'node:crypto';
import type { Actor } from './audit.js';
import type { User } from './users.js';

/** `subject`: the provider's identifier for the person, which the provider never reuses. */
export interface ForeignIdentity {
  readonly issuer: string;
  readonly subject: string;
}

export interface Identities {
  /** Null if the identity is not linked to a user. */
  userOf(identity: ForeignIdentity): Promise<User | null>;
  /** Whether the user has a linked identity. */
  has(userId: string): Promise<boolean>;
  /** Idempotent. False if the identity is linked to another user. */
  link(user: User, identity: ForeignIdentity, actor: Actor): Promise<boolean>;
  /** Removes all of the user's links. False if there were none. */
  unlink(user: User, actor: Actor): Promise<boolean>;
}

/** Storage key of an identity. It is a hash, because subjects can have any content and length. */
export const identityHash = ({ issuer, subject }: ForeignIdentity): string =>
  createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('base64url');
