// What the protocols tell of each generation request once it has ended, and the HTTP layer of each that was
// refused. No prompt or output text. Contract: models-and-accounts.md section 7.

export interface FinishedUsage {
  readonly requestId: string;
  readonly organizationId: string;
  readonly keyId: string;
  readonly model: string;
  readonly endpoint: string; // route path
  readonly stream: boolean;
  /** completed, cancelled, failed */
  readonly status: 'completed' | 'cancelled' | 'failed';
  /** Milliseconds since 1970; null: it did not come to that. */
  readonly receivedAt: number;
  readonly startedAt: number | null;
  readonly firstTokenAt: number | null;
  readonly endedAt: number;
  readonly inputTokens: number; // cached ones included
  readonly cachedTokens: number;
  readonly outputTokens: number; // reasoning included
  readonly reasoningTokens: number;
  readonly images: number;
  readonly finishReason: string | null; // of the last choice
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
