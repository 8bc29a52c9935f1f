// Usage, latencies, prices and budgets.

export type UsageBucket = 'hour' | 'day';
export type UsageGroup = 'model' | 'api_key' | 'endpoint' | 'member';
/** `member_id` of requests from the playground, and of keys without a creator (command line, deleted keys). */
export const PLAYGROUND_MEMBER = 'playground';
export const NO_MEMBER = 'none';

/** A field is null if the rows are not grouped by it. */
export interface UsageRowObject {
  bucket_start: string;
  model: string | null;
  api_key_id: string | null;
  endpoint: string | null;
  /** The user who created the API key, the service account that owns it, PLAYGROUND_MEMBER or NO_MEMBER. */
  member_id: string | null;
  requests: number;
  errors: number;
  rate_limited: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  images: number;
  /**
   * Requests that produced output: their number, and the sums of their time to first token, total time and decode time,
   * in milliseconds.
   */
  answered: number;
  first_token_ms: number;
  duration_ms: number;
  decode_ms: number;
  /** Cost at current prices, in their currency; null if none of the models has a price. */
  cost: number | null;
}
/** Prices per million tokens. */
export interface ModelPrice {
  input: number;
  cached_input: number;
  output: number;
}
/**
 * GET, PUT …/operator/prices, GET …/organizations/{org}/prices. `currency` is display text; if `models` is empty, there
 * are no prices.
 */
export interface PriceTable {
  currency: string;
  models: Record<string, ModelPrice>;
}
/**
 * GET, PUT …/organizations/{org}/budget. `amount`: null if there is no budget. `spent`: null if no prices are set. The
 * webhook URL and secret are visible only to admins.
 */
export interface BudgetObject {
  amount: number | null;
  spent: number | null;
  currency: string;
  month: string;
  /** Whether requests are refused when the amount is spent. */
  stops: boolean;
  mail: boolean;
  webhook_url: string | null;
  webhook_secret: string | null;
}
/** GET …/organizations/{org}/budgets: the budgets of members and API keys, which always block requests once spent. */
export interface PartBudgets {
  object: 'list';
  data: PartBudgetObject[];
}
/** An entry of PartBudgets. PUT …/organizations/{org}/budgets/{id} with `amount` sets or removes a budget. */
export interface PartBudgetObject {
  scope: 'member' | 'key';
  /**
   * `user_…`, `svc_…` or `key_…`. A rotated key shares the budget of the first key in its chain of rotations; this
   * is the first key's ID.
   */
  id: string;
  /** Null removes the budget. */
  amount: number | null;
  /** Null if no prices are set. */
  spent: number | null;
  /** The keys whose spending counts. */
  api_keys: readonly string[];
}
/** GET …/organizations/{org}/budgets/stopped: the spent budgets that currently block requests. */
export interface StoppedBudgets {
  object: 'list';
  currency: string;
  month: string;
  data: { scope: 'organization' | 'member' | 'key'; id: string; amount: number }[];
}
/** GET …/usage?from&to&bucket&group_by&models&api_keys&limit&after */
export interface UsagePage {
  object: 'list';
  data: UsageRowObject[];
  next_page: string | null;
  has_more: boolean;
}

/**
 * GET …/operator/usage/history?from&to&bucket&group_by&organization: usage of all organizations or of one
 * organization.
 */
export interface UsageHistory {
  object: 'list';
  data: UsageHistoryRow[];
}
/** `organization_id` and `model` are null if the rows are not grouped by them. */
export type UsageHistoryRow = Omit<UsageRowObject, 'api_key_id' | 'endpoint' | 'member_id'> & {
  organization_id: string | null;
};

/** GET …/usage/latency: latencies of requests with output over a whole time range, in milliseconds. */
export interface UsageLatency {
  object: 'list';
  /** Maximum relative error of a percentile. */
  relative_error: number;
  /** `model` and `api_key_id` are null if the data is not grouped by them. */
  data: {
    model: string | null;
    api_key_id: string | null;
    answered: number;
    first_token_ms: LatencyPercentiles | null;
    duration_ms: LatencyPercentiles | null;
  }[];
}
export interface LatencyPercentiles {
  p50: number;
  p90: number;
  p99: number;
}
