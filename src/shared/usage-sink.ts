// Usage that the protocols report for each finished generation request, and the HTTP layer for each refused request.
// Contains no prompt or output text.

export interface FinishedUsage {
  readonly requestId: string;
  readonly organizationId: string;
  readonly keyId: string;
  readonly model: string;
  readonly endpoint: string; // route path
  readonly stream: boolean;
  readonly status: 'completed' | 'cancelled' | 'failed';
  /** Milliseconds since the Unix epoch; null if this stage was not reached. */
  readonly receivedAt: number;
  readonly startedAt: number | null;
  readonly firstTokenAt: number | null;
  readonly endedAt: number;
  readonly inputTokens: number; // including cached ones
  readonly cachedTokens: number;
  readonly outputTokens: number; // including reasoning tokens
  readonly reasoningTokens: number;
  readonly images: number;
  readonly finishReason: string | null; // end reason of the last choice
  readonly errorCode: string | null;
}

export interface RejectedUsage {
  readonly organizationId: string;
  readonly keyId: string;
  readonly model: string | null;
  readonly endpoint: string;
  readonly status: number; // 4xx, 429, 503
  readonly code: string;
}

export interface UsageSink {
  finished(usage: FinishedUsage): void;
  rejected(usage: RejectedUsage): void;
}
