// Storage port for usage (see docs/internals/storage.md): entries of generations that ran, and sums by hour and month.
// Only the usage of the given organization is visible.

import type { FinishedUsage, RejectedUsage } from '../shared/usage-sink.js';
import type { Quantiles } from './latency-sketch.js';
import type { PriceTable, UsageBucket, UsageGroup, UsageRowObject } from '../shared/wire/usage.js';

/** `at`: milliseconds since the Unix epoch; determines the hour and month. */
export interface UsageEntry {
  readonly usage: FinishedUsage | RejectedUsage;
  readonly at: number;
}

export interface UsageSpan {
  /** First hour, counted from 1970. */
  fromHour: number;
  /** End of the range, exclusive. */
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

/** The last row of a page: the first hour of its bucket, and its group. */
export interface UsageCursor {
  hour: number;
  group: string;
}

export interface UsageRows {
  rows: UsageRowObject[];
  next: UsageCursor | null;
}

/** Latencies of one model or key, or of all. Null: no request completed. */
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

/**
 * Milliseconds since the Unix epoch. Rows older than this are erased, and so are hourly and monthly sums that are
 * entirely older.
 */
export interface UsageExpiry {
  readonly rows: number;
  readonly sums: number;
}

export interface UsageStore {
  /**
   * Stores the entries and adds them to the sums; safe for concurrent callers. Stores everything or, if it rejects,
   * nothing.
   */
  record(entries: readonly UsageEntry[]): Promise<void>;
  /**
   * Tokens that organizations have used in a month (`2026-11`) as recorded so far, in the order of `organizationIds`.
   */
  monthTokens(organizationIds: readonly string[], month: string): Promise<number[]>;
  /** Sums ordered by time, then model, key and endpoint; hours without usage are omitted. */
  rows(query: UsageQuery, limit: number, after: UsageCursor | null): Promise<UsageRows>;
  /** One row per organization and model; organizations without usage in the range have none. */
  totals(span: UsageSpan, organizationIds: readonly string[], prices: PriceTable | null): Promise<UsageTotal[]>;
  /** Percentiles of the whole range by model and key as in `groupBy`, in their order; within SKETCH_ERROR. */
  latencies(query: UsageQuery): Promise<LatencyGroup[]>;
  /** Resolves to the number of entries erased. Stops when `signal` aborts; a later call erases the rest. */
  erase(before: UsageExpiry, signal: AbortSignal): Promise<number>;
}
