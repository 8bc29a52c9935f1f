// Storage port for usage (see docs/internals/storage.md): entries for generations that ran, and sums by hour and month.
// Only the given organization's usage is visible.

import type { FinishedUsage, RejectedUsage } from '../shared/usage-sink.js';
import type { Quantiles } from './latency-sketch.js';
import type { PriceTable, UsageBucket, UsageGroup, UsageRowObject } from '../shared/wire/usage.js';

/** `at`: milliseconds since the Unix epoch, which determine the hour and the month. */
export interface UsageEntry {
  readonly usage: FinishedUsage | RejectedUsage;
  readonly at: number;
}

export interface UsageSpan {
  /** First hour, counted from the Unix epoch. */
  fromHour: number;
  /** End of the range (exclusive). */
  toHour: number;
}

export interface UsageQuery extends UsageSpan {
  organizationId: string;
  bucket: UsageBucket;
  groupBy: readonly UsageGroup[];
  /** Null selects all. */
  models: readonly string[] | null;
  apiKeys: readonly string[] | null;
  /** Key ID → member_id, for rows grouped by member. Keys that are not in the map are counted under NO_MEMBER. */
  keyOwners?: ReadonlyMap<string, string>;
  /** If null, rows do not include a cost. */
  prices: PriceTable | null;
}

/** Identifies the last row of a page: the first hour of its bucket, and its group. */
export interface UsageCursor {
  hour: number;
  group: string;
}

export interface UsageRows {
  rows: UsageRowObject[];
  next: UsageCursor | null;
}

/** Latencies of one model or key, or of all; null if no request completed. */
export interface LatencyGroup {
  readonly model: string | null;
  readonly apiKeyId: string | null;
  readonly answered: number;
  readonly firstTokenMs: Quantiles | null;
  readonly durationMs: Quantiles | null;
}

export interface UsageTotal extends Omit<UsageRowObject, 'bucket_start' | 'api_key_id' | 'endpoint' | 'member_id'> {
  organization_id: string;
}

/**
 * Milliseconds since the Unix epoch. Rows older than this are erased, and so are hourly and monthly sums that are
 * entirely older.
 */
export interface UsageExpiry {
  readonly rows: number;
  readonly sums: number;
}

export interface UsageStore {
  /** Stores the entries and adds them to the sums, or rejects and stores nothing. Safe for concurrent callers. */
  record(entries: readonly UsageEntry[]): Promise<void>;
  /**
   * Tokens that organizations have used in a month (`2026-11`), as recorded so far, in the order of `organizationIds`.
   */
  monthTokens(organizationIds: readonly string[], month: string): Promise<number[]>;
  /** Sums ordered by time, then by model, key, endpoint and member. Hours without usage are omitted. */
  rows(query: UsageQuery, limit: number, after: UsageCursor | null): Promise<UsageRows>;
  /** One row per organization and model. Organizations without usage in the range have no rows. */
  totals(span: UsageSpan, organizationIds: readonly string[], prices: PriceTable | null): Promise<UsageTotal[]>;
  /**
   * Percentiles over the whole range, grouped by model and key as specified by `groupBy`, and sorted by them. Each is
   * within SKETCH_ERROR of the true value.
   */
  latencies(query: UsageQuery): Promise<LatencyGroup[]>;
  /**
   * Resolves to the number of entries erased. Stops when `signal` is aborted; a later call erases the remaining
   * entries.
   */
  erase(before: UsageExpiry, signal: AbortSignal): Promise<number>;
}
