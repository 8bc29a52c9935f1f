// What tokens cost, as operators have said: a port, see docs/internals/storage.md. Prices hold for what was used before, too.

import type { AuditNote } from '../accounts/audit.js';
import type { ModelPrice, PriceTable } from '../shared/wire/dashboard.js';
import type { UsageSums } from './sums.js';

export interface PriceStore {
  /** Null: none were said. */
  get(): Promise<PriceTable | null>;
  /** What the audit log says of it stands or falls with it. */
  set(prices: PriceTable | null, note: AuditNote): Promise<void>;
}

/** What the tokens of these sums cost; cached ones have a price of their own. */
export function costOf({ input, cached_input: cachedInput, output }: ModelPrice, sums: Readonly<UsageSums>): number {
  const [, , , inputTokens, cachedTokens, outputTokens] = sums;
  return (Math.max(0, inputTokens - cachedTokens) * input + cachedTokens * cachedInput + outputTokens * output) / 1e6;
}
