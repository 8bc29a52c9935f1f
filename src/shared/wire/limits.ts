// Rate limits.

/** Null means no limit. */
export interface LimitValues {
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
}
/** By model name or `*`. Absent limits are inherited from the more general level. */
export type LimitOverrides = Record<string, Partial<LimitValues>>;

export interface BucketUse {
  limit: number | null;
  remaining: number | null;
  reset_ms: number | null;
}
/** GET …/limits: one entry per served model, highest tier first. */
export interface LimitsObject {
  object: 'limits';
  models: {
    model: string;
    requests: BucketUse;
    tokens: BucketUse;
    concurrency: { limit: number | null; in_use: number };
  }[];
  month: { tokens: number; cap: number | null; resets_at: string };
}
