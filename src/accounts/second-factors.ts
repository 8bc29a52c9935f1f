// Storage port for second factors of users (see docs/internals/storage.md). Each method is one transaction, including
// its audit entry, and is durable when it resolves. Encrypted values are opaque here. A step or recovery code can be
// used only once, even by concurrent requests.

import type { Actor } from './audit.js';
import type { User } from './users.js';

/** How long a proposed secret can be confirmed. */
export const PROPOSAL_MS = 15 * 60_000;

export interface SecondFactor {
  /** The encrypted secret: see SecretBox. */
  readonly sealed: string;
  readonly since: string; // RFC 3339
  /** Codes up to this step have been used, or may have been. */
  readonly lastStep: number;
  /** SHA-256 of the remaining recovery codes. */
  readonly recovery: readonly string[];
}

/** A second factor to turn on: the proposal, confirmed by the code of `step`. */
export interface ProvedFactor {
  readonly sealed: string;
  readonly step: number;
  readonly recovery: readonly string[];
}

export interface SecondFactors {
  /** Null: it is off. */
  get(userId: string): Promise<SecondFactor | null>;
  /** Stores a proposed secret; replaces the previous proposal. */
  propose(userId: string, sealed: string): Promise<void>;
  /** Null if there was none within PROPOSAL_MS. */
  proposed(userId: string): Promise<string | null>;
  /**
   * Ends the user's other sessions. False if another secret was proposed in the meantime, or the second factor is
   * already on.
   */
  enable(user: User, proved: ProvedFactor, keptSessionId: string, actor: Actor): Promise<boolean>;
  /** False if the step has already been used. */
  useStep(userId: string, step: number): Promise<boolean>;
  /** Resolves to the number of codes left; null if the code does not exist. */
  useRecovery(user: User, hash: string, ip: string): Promise<number | null>;
  /** False if it is off. */
  replaceRecovery(user: User, recovery: readonly string[], actor: Actor): Promise<boolean>;
  /** False if it was off. */
  disable(user: User, actor: Actor): Promise<boolean>;
  /**
   * Reset by an operator, for a user who lost it: ends all sessions of the user. False if it was off, or the user does
   * not exist.
   */
  reset(userId: string, actor: Actor): Promise<boolean>;
  /** Visits every user's secret: `again` returns the value to replace it with, or null for no change. */
  reseal(again: (userId: string, sealed: string) => string | null): Promise<void>;
}
