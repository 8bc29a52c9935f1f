// The request log's entry for each finished API request. Prompt and response text are included only if the organization
// has enabled that.

/**
 * refused: an error before anything was generated. failed: an internal error, or a response that was cut off.
 * cancelled: the client disconnected before the end.
 */
export type Outcome = 'completed' | 'refused' | 'failed' | 'cancelled';

export interface RequestEntry {
  readonly requestId: string;
  readonly organizationId: string;
  readonly keyId: string;
  readonly model: string | null;
  readonly endpoint: string; // route path
  readonly stream: boolean;
  /** HTTP status of the error that the client received, or 200; null if the client had disconnected. */
  readonly status: number | null;
  readonly outcome: Outcome;
  readonly code: string | null; // the error's code
  readonly finishReason: string | null; // end reason of the last choice
  /** Milliseconds since the Unix epoch; null if this stage was not reached. */
  readonly receivedAt: number;
  readonly startedAt: number | null;
  readonly firstTokenAt: number | null;
  readonly endedAt: number;
  /** Milliseconds spent in the engine's queue, before `startedAt`. */
  readonly queueMs: number | null;
  /** Milliseconds spent on vision encoding, not included in `queueMs`; absent if nothing was encoded. */
  readonly towerMs?: number;
  readonly inputTokens: number; // including cached ones
  readonly cachedTokens: number;
  readonly outputTokens: number; // including reasoning tokens
  readonly reasoningTokens: number;
  readonly images: number;
  /**
   * The request's parameters: numbers, enum values and paths, never free text from the client. Null if no generation was
   * started.
   */
  readonly parameters: Readonly<Record<string, string | number | boolean>> | null;
  readonly text: RequestText | null;
}

/** Prompt and response text, within the size limit. */
export interface RequestText {
  readonly prompt: readonly { readonly role: string; readonly text: string }[];
  readonly answer: readonly {
    readonly choice: number;
    readonly section: 'reasoning' | 'content' | 'call';
    readonly text: string;
  }[];
  /** Whether some of the text did not fit. */
  readonly cut: boolean;
  /** Present if the request was compared with an earlier one and their prompts differ. */
  readonly difference?: PromptDifference | undefined;
}

/** The first difference between a prompt and that of the response with which it was compared. */
export interface PromptDifference {
  /** Number of equal tokens before it. */
  readonly at: number;
  /** Text directly before it, which is the same in both prompts. */
  readonly before: string;
  /** Text from there on in the earlier prompt and in this one. */
  readonly earlier: string;
  readonly current: string;
}

export interface RequestSink {
  /** Maximum number of stored characters, for the prompt and for the response separately. */
  readonly textCharacters: number;
  /** Must not block or throw. */
  add(entry: RequestEntry): void;
}
