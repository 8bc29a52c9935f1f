// Storage port for users' two-factor secrets (see docs/internals/storage.md). Each method is one transaction, including
// its audit entry, and is durable when it resolves. Encrypted values are opaque here. A step or recovery code can be
// used only once, even by concurrent requests.

import type { Actor } from './audit.js';
import type { User } from './users.js';

/** How long a proposed secret can be confirmed. */
export const PROPOSAL_MS = 15 * 60_000;

export interface SecondFactor {
  /** The encrypted secret; see SecretBox. */
  readonly sealed: string;
  readonly since: string; // RFC 3339
  /** Codes of this step and of all earlier steps have been used or must be treated as used. */
  readonly lastStep: number;
  /** SHA-256 hashes of the remaining recovery codes. */
  readonly recovery: readonly string[];
}

/**
 * A proposed secret that the user has confirmed with the code for `step`. Storing it turns on two-factor
 * authentication.
 */
export interface ProvedFactor {
  readonly sealed: string;
  readonly step: number;
  readonly recovery: readonly string[];
}

export interface SecondFactors {
  /** Null if two-factor authentication is off. */
  get(userId: string): Promise<SecondFactor | null>;
  /** Stores a proposed secret, replacing any previous proposal. */
  propose(userId: string, sealed: string): Promise<void>;
  /** The secret that was proposed within the last PROPOSAL_MS; null if there is none. */
  proposed(userId: string): Promise<string | null>;
  /**
   * Turns on two-factor authentication, and ends the user's other sessions. False if another secret was proposed in the
   * meantime, or if two-factor authentication is already on.
   */
  enable(user: User, proved: ProvedFactor, keptSessionId: string, actor: Actor): Promise<boolean>;
  /** Records that a step's code has been used. False if the step has already been used. */
  useStep(userId: string, step: number): Promise<boolean>;
  /** Marks a recovery code as used. Resolves to the number of codes left, or to null if the code does not exist. */
  useRecovery(user: User, hash: string, ip: string): Promise<number | null>;
  /** Resolves to false if two-factor authentication is off. */
  replaceRecovery(user: User, recovery: readonly string[], actor: Actor): Promise<boolean>;
  /** Resolves to false if two-factor authentication was already off. */
  disable(user: User, actor: Actor): Promise<boolean>;
  /**
   * Turns off two-factor authentication, at an operator's request, for a user who lost the authenticator. Ends all of
   * the user's sessions. False if two-factor authentication was off or the user does not exist.
   */
  reset(userId: string, actor: Actor): Promise<boolean>;
  /**
   * Visits every user's encrypted secret. `again` returns the new encrypted value, or null to leave the secret
   * unchanged.
   */
  reseal(again: (userId: string, sealed: string) => string | null): Promise<void>;
}
