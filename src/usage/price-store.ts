// Storage port for the token prices that operators set (see docs/internals/storage.md). Prices also apply to past
// usage.

import type { AuditNote } from '../accounts/audit.js';
import type { ModelPrice, PriceTable } from '../shared/wire/usage.js';
import type { UsageSums } from './sums.js';

export interface PriceStore {
  /** Null if no prices are set. */
  get(): Promise<PriceTable | null>;
  /** The audit entry is written in the same transaction. */
  set(prices: PriceTable | null, note: AuditNote): Promise<void>;
}

/** The cost of the tokens in these sums. Cached tokens have a separate price. */
export function costOf({ input, cached_input: cachedInput, output }: ModelPrice, sums: Readonly<UsageSums>): number {
  const [, , , inputTokens, cachedTokens, outputTokens] = sums;
  return (Math.max(0, inputTokens - cachedTokens) * input + cachedTokens * cachedInput + outputTokens * output) / 1e6;
}
