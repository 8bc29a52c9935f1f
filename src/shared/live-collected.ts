// What one thread has counted since it was last asked, for the live view. Crosses threads as plain data.

/** Latencies of one model by bucket; null: none. */
export interface ModelLatencies {
  model: string;
  ttft: Uint32Array | null;
  itl: Uint32Array | null;
}

/** What the requests of one key came to that ended. */
export interface KeyCounts {
  organizationId: string;
  keyId: string;
  requests: number;
  refused: number;
  inputTokens: number;
  outputTokens: number;
}

/** What one thread tells for a sample. */
export interface LiveCollected {
  requests: number;
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
