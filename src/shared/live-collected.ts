// One thread's counts since the last sample, for the live view. Passed between threads as plain data.

/** One model's latencies by bucket; null if none. */
export interface ModelLatencies {
  model: string;
  ttft: Uint32Array | null;
  itl: Uint32Array | null;
  /** Time per output token. */
  tpot: Uint32Array | null;
  /** End-to-end latency of completed requests. */
  e2e: Uint32Array | null;
}

/** Totals for one key's finished requests. */
export interface KeyCounts {
  organizationId: string;
  keyId: string;
  requests: number;
  refused: number;
  inputTokens: number;
  outputTokens: number;
}

/** One thread's contribution to a sample. */
export interface LiveCollected {
  requests: number;
  /** Requests in all API formats, and background responses. */
  apiRequests: number;
  /** Number of `apiRequests` that ended with a server error (5xx), including errors sent within a stream. */
  serverErrors: number;
  rejected429: number;
  rejected503: number;
  errors: number;
  cancelled: number;
  loopLagMs: number;
  latencies: ModelLatencies[];
  keys: KeyCounts[];
  inFlight: number;
  viewers: number;
}
