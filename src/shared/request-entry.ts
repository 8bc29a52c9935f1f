// What the request log is told of each request of the API once it has ended. Prompt and answer only where the
// organization has asked for them to be kept.

/** refused: an error, and nothing had been generated. failed: the server's own error, or an answer that broke off. cancelled: nobody waited for the end. */
export type Outcome = 'completed' | 'refused' | 'failed' | 'cancelled';

export interface RequestEntry {
  readonly requestId: string;
  readonly organizationId: string;
  readonly keyId: string;
  readonly model: string | null;
  readonly endpoint: string; // route path
  readonly stream: boolean;
  /** Of the error the client was told, or 200; null: it had gone. */
  readonly status: number | null;
  readonly outcome: Outcome;
  readonly code: string | null; // of the error
  readonly finishReason: string | null; // of the last choice
  /** Milliseconds since 1970; null: it did not come to that. */
  readonly receivedAt: number;
  readonly startedAt: number | null;
  readonly firstTokenAt: number | null;
  readonly endedAt: number;
  /** Milliseconds in the engine's queue, which are before `startedAt`. */
  readonly queueMs: number | null;
  /** Milliseconds that the vision tower computed for it, which `queueMs` is without; absent: nothing was computed. */
  readonly towerMs?: number;
  readonly inputTokens: number; // cached ones included
  readonly cachedTokens: number;
  readonly outputTokens: number; // reasoning included
  readonly reasoningTokens: number;
  readonly images: number;
  /** As asked for: numbers and choices, never texts of the client's. Null: it did not come to a generation. */
  readonly parameters: Readonly<Record<string, string | number | boolean>> | null;
  readonly text: RequestText | null;
}

/** What was said, as far as there was room. */
export interface RequestText {
  readonly prompt: readonly { readonly role: string; readonly text: string }[];
  readonly answer: readonly {
    readonly choice: number;
    readonly section: 'reasoning' | 'content' | 'call';
    readonly text: string;
  }[];
  /** Some of it did not fit. */
  readonly cut: boolean;
}

export interface RequestSink {
  /** Characters of the prompt, and as many of the answer, that are kept where they are. */
  readonly textCharacters: number;
  /** Does not wait, does not throw. */
  add(entry: RequestEntry): void;
}
