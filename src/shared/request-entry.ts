// The request log's entry for each finished API request. Includes prompt and response text only if the organization has
// enabled this.

/**
 * refused: an error before anything was generated. failed: an internal error, or a response that was cut off.
 * cancelled: the client disconnected before the end.
 */
export type Outcome = 'completed' | 'refused' | 'failed' | 'cancelled';

/** The client that sent a request. Both values are bounded (boundedClient()). Personal data. */
export interface RequestClient {
  /** The connection's peer address or, with http.trust_proxy, the address that the proxy reports; '' if unknown. */
  readonly address: string;
  /** The User-Agent header; '' if absent. */
  readonly userAgent: string;
}

/** Organization ID of entries for requests whose API key is missing or unknown. Only operators see them. */
export const NO_ORGANIZATION = '';

/** Maximum lengths of an entry's text fields, in characters. */
export const ENTRY_TEXT = { message: 400, param: 200, model: 128, userAgent: 256, address: 64, path: 160 } as const;

/** Truncates a client text to at most `length` characters. */
export const bounded = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length - 1)}…`;

export const boundedClient = (address: string, userAgent: string): RequestClient => ({
  address: bounded(address, ENTRY_TEXT.address),
  userAgent: bounded(userAgent, ENTRY_TEXT.userAgent),
});

/** Entries from earlier releases lack the optional fields. */
export interface RequestEntry {
  readonly requestId: string;
  readonly organizationId: string; // or NO_ORGANIZATION
  readonly keyId: string; // '' if there is no organization
  readonly model: string | null;
  /** The model name in the request, which may be an alias or unknown. */
  readonly askedModel?: string | null;
  readonly method?: string | null;
  readonly endpoint: string; // route path; the requested path if there is no such route
  readonly stream: boolean;
  /** HTTP status of the error that the client received, or 200; null if the client had disconnected. */
  readonly status: number | null;
  readonly outcome: Outcome;
  readonly code: string | null; // the error's code
  readonly message?: string | null; // the error's message
  readonly param?: string | null; // the parameter that the error names
  readonly client?: RequestClient | null;
  /** ID of the request's trace, if it was traced. */
  readonly traceId?: string | null;
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
   * The request's parameters: numbers, enum values and paths, never free text from the client. Null if no generation
   * was started.
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
  /** Whether part of the text was omitted because it did not fit. */
  readonly cut: boolean;
  /** Present if the request was compared with an earlier one and their prompts differ. */
  readonly difference?: PromptDifference | undefined;
}

/** The first difference between a request's prompt and the earlier prompt used for comparison. */
export interface PromptDifference {
  /** Number of equal tokens before the difference. */
  readonly at: number;
  /** Text directly before the difference, which is the same in both prompts. */
  readonly before: string;
  /** Text starting at the difference, in the earlier prompt and in this prompt. */
  readonly earlier: string;
  readonly current: string;
}

export interface RequestSink {
  /** Maximum number of stored characters, for the prompt and for the response separately. */
  readonly textCharacters: number;
  /** Must not block or throw. */
  add(entry: RequestEntry): void;
}
