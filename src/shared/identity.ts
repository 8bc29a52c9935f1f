// The identity of a caller, as established by authentication. Types only.

import type { LimitOverride } from '../config/kinds.js';

export type Scope =
  | 'inference'
  | 'models.read'
  | 'responses.read'
  | 'responses.delete'
  | 'tokens.count'
  | 'files.read'
  | 'files.write'
  | 'batches';

export interface Identity {
  readonly organizationId: string; // org_…
  readonly organizationNumber: number; // the organization's 32-bit number, for the prefix cache and fair scheduling
  readonly keyId: string; // key_…
  /** The member who makes the request, if the request has no API key. */
  readonly userId?: string;
  readonly models: readonly string[]; // ['*'] or the names of the models that the key may use
  readonly scopes: readonly string[];
  /** Limits that an operator has set for the organization, by model or `*`. Absent limits come from the settings. */
  readonly limits: Readonly<Record<string, LimitOverride>>;
  /** Limits for this key alone, in addition to the organization's limits; null if none. */
  readonly keyLimits: Readonly<Record<string, LimitOverride>> | null;
  /** Tokens that the organization may use per calendar month (UTC); null = no cap. */
  readonly monthlyTokenCap: number | null;
  /** Whether the organization stores prompts and responses in the request log. */
  readonly keepsText?: boolean;
}
