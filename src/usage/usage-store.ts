// Usage as it is kept: a port, see docs/internals/storage.md. Entries of generations that ran, and sums of them by hour and
// month. Isolated by organization where one is named.

import type { FinishedUsage, RejectedUsage } from '../shared/usage-sink.js';
import type { Quantiles } from './latency-sketch.js';
import type { PriceTable, UsageBucket, UsageGroup, UsageRowObject } from '../shared/wire/dashboard.js';

/** `at`: milliseconds since 1970, the hour and month it counts in. */
export interface UsageEntry {
  readonly usage: FinishedUsage | RejectedUsage;
  readonly at: number;
}

export interface UsageSpan {
  /** Hours since 1970: from this one … */
  fromHour: number;
  /** … up to before this one. */
  toHour: number;
}

export interface UsageQuery extends UsageSpan {
  organizationId: string;
  bucket: UsageBucket;
  groupBy: readonly UsageGroup[];
  /** Null: all. */
  models: readonly string[] | null;
  apiKeys: readonly string[] | null;
  /** Null: rows have no cost. */
  prices: PriceTable | null;
}

/** The last row of a page: its bucket's first hour and its group. */
export interface UsageCursor {
  hour: number;
  group: string;
}

export interface UsageRows {
  rows: UsageRowObject[];
  next: UsageCursor | null;
}

/** Of one model or key, or of all; null: nobody was answered. */
export interface LatencyGroup {
  readonly model: string | null;
  readonly apiKeyId: string | null;
  readonly answered: number;
  readonly firstTokenMs: Quantiles | null;
  readonly durationMs: Quantiles | null;
}

export interface UsageTotal extends Omit<UsageRowObject, 'bucket_start' | 'api_key_id' | 'endpoint'> {
  organization_id: string;
}

/** Milliseconds since 1970. What was before goes: rows, and whole hours and months of sums. */
export interface UsageExpiry {
  readonly rows: number;
  readonly sums: number;
}

export interface UsageStore {
  /** Keeps what ran and adds everything to its sums; several at once add up. All of it or, if it rejects, nothing. */
  record(entries: readonly UsageEntry[]): Promise<void>;
  /** Tokens that organizations have used in a month (`2026-11`), in the order of `organizationIds`, as far as they are recorded. */
  monthTokens(organizationIds: readonly string[], month: string): Promise<number[]>;
  /** Sums in order of time, then model, key and endpoint; hours without any are left out. */
  rows(query: UsageQuery, limit: number, after: UsageCursor | null): Promise<UsageRows>;
  /** One row per organization and model; organizations without any usage in the span have none. */
  totals(span: UsageSpan, organizationIds: readonly string[], prices: PriceTable | null): Promise<UsageTotal[]>;
  /** Percentiles of the whole span, by model and key as `groupBy` says, in their order; within SKETCH_ERROR. */
  latencies(query: UsageQuery): Promise<LatencyGroup[]>;
  /** Resolves to how many entries went. What is left when `signal` says to stop goes another time. */
  erase(before: UsageExpiry, signal: AbortSignal): Promise<number>;
}
