// Second factors of users: a port, see docs/internals/storage.md. Each method is one unit of work, with what the audit log says of
// it, durable when it resolves. What is sealed is opaque here. A step and a recovery code are used once, however many ask
// at the same moment.

import type { Actor } from './audit.js';
import type { User } from './users.js';

/** A secret that was shown and not proved to be in somebody's app yet counts for so long. */
export const PROPOSAL_MS = 15 * 60_000;

export interface SecondFactor {
  /** Of the codes' secret: see SecretBox. */
  readonly sealed: string;
  readonly since: string; // RFC 3339
  /** Codes up to this step have been used, or might have been. */
  readonly lastStep: number;
  /** SHA-256 of the recovery codes that are left. */
  readonly recovery: readonly string[];
}

/** What a user turns on: the proposal that was proved, by the code of `step`. */
export interface ProvedFactor {
  readonly sealed: string;
  readonly step: number;
  readonly recovery: readonly string[];
}

export interface SecondFactors {
  /** Null: it is off. */
  get(userId: string): Promise<SecondFactor | null>;
  /** A secret that may become the user's; it replaces the one proposed before. */
  propose(userId: string, sealed: string): Promise<void>;
  /** Null if none was within PROPOSAL_MS. */
  proposed(userId: string): Promise<string | null>;
  /** The user's other sessions are over. False if another was proposed meanwhile, or it is on already. */
  enable(user: User, proved: ProvedFactor, keptSessionId: string, actor: Actor): Promise<boolean>;
  /** False if the step was used already. */
  useStep(userId: string, step: number): Promise<boolean>;
  /** How many are left; null if there is no such code. */
  useRecovery(user: User, hash: string, ip: string): Promise<number | null>;
  /** False if it is off. */
  replaceRecovery(user: User, recovery: readonly string[], actor: Actor): Promise<boolean>;
  /** False if it was off. */
  disable(user: User, actor: Actor): Promise<boolean>;
  /** By an operator, for somebody who has lost it: every session of the user is over. False if it was off, or there is no such user. */
  reset(userId: string, actor: Actor): Promise<boolean>;
  /** Every user's, to be sealed anew: `again` gives the value that replaces one, or null where it stays. */
  reseal(again: (userId: string, sealed: string) => string | null): Promise<void>;
}
