// Who asks: what authentication found out about a request's key. Types only.

import type { LimitOverride } from '../config/kinds.js';

export type Scope = 'inference' | 'models.read' | 'responses.read' | 'responses.delete' | 'tokens.count';

export interface Identity {
  readonly organizationId: string; // org_…
  readonly organizationNumber: number; // 32-bit, of the organization: prefix-cache namespace, fairness
  readonly keyId: string; // key_…
  readonly models: readonly string[]; // ['*'] or model names the key may use
  readonly scopes: readonly string[];
  /** Limits an operator set for the organization, by model or `*`. Absent ones are as the settings have them. */
  readonly limits: Readonly<Record<string, LimitOverride>>;
  /** Of this key alone, besides the organization's; null: none. */
  readonly keyLimits: Readonly<Record<string, LimitOverride>> | null;
  /** Tokens the organization may use in a calendar month (UTC); null: no cap. */
  readonly monthlyTokenCap: number | null;
  /** The organization has prompts and answers kept in the request log. */
  readonly keepsText?: boolean;
}
