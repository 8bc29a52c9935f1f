// The one internal form of a request and of its events. Every wire format is translated into a
// GenerationRequest and encodes GenerationEvents; nothing here knows a format or a token id.

export type ReasoningEffort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max';

export interface TextPart { type: 'text'; text: string }

export interface ToolCall { id: string; name: string; arguments: string }   // arguments: JSON text as the model wrote it

export type Message =
  | { role: 'system'; content: string; name?: string | undefined }
  | { role: 'user'; content: string; name?: string | undefined }
  | { role: 'assistant'; content: string | null; reasoning?: string | undefined; toolCalls?: ToolCall[] | undefined; name?: string | undefined }
  | { role: 'tool'; content: string; toolCallId: string };

/** Unset fields take the model's own defaults (models/catalog.json, `models.<id>.sampling`). */
export interface Sampling {
  temperature?: number | undefined;
  topP?: number | undefined;
  topK?: number | undefined;
  minP?: number | undefined;
  repetitionPenalty?: number | undefined;
  frequencyPenalty?: number | undefined;
  presencePenalty?: number | undefined;
  seed?: bigint | undefined;                     // unset: drawn at random
  logitBias?: { token: number; bias: number }[] | undefined;
}

export interface GenerationRequest {
  model: string;                                 // the public name asked for
  messages: Message[];
  continueFinal: boolean;                        // continue the last assistant message instead of starting a turn
  sampling: Sampling;
  n: number;
  maxTokens: number | null;                      // null: the client stated no cap
  stop: string[];
  topLogprobs: number | null;                    // null: no logprobs wanted
  effort: ReasoningEffort | 'enabled' | null;    // null: the model's default; 'enabled': that, or medium where it is none
  ignoreEos: boolean;                            // benchmarks only
}

export interface Logprob { token: string; bytes: number[]; logprob: number }
export interface TokenLogprob extends Logprob { top: Logprob[] }

export type EndReason = 'end_of_turn' | 'stop_string' | 'max_tokens' | 'context_full' | 'time_limit';

export interface ChoiceTimings { prefillMs: number; decodeMs: number }

export type GenerationEvent =
  | { type: 'started'; promptTokens: number; cachedTokens: number; queueMs: number }
  | { type: 'text'; choice: number; section: 'content' | 'reasoning'; text: string; tokens: number; logprobs: TokenLogprob[] | null }
  | { type: 'finished'; choice: number; reason: EndReason; stopString: string | null; completionTokens: number; reasoningTokens: number; timings: ChoiceTimings }
  | { type: 'failed'; code: 'queue_timeout' | 'engine_error' | 'shutdown'; message: string };

/** A request rendered, tokenized and checked against the context window; nothing reserved or queued yet. */
export interface PreparedGeneration {
  readonly promptTokens: number;
  readonly maxTokens: number;                    // effective cap per choice, clamped to model and context
  readonly n: number;
  /** Hands the request to the engine. `onEvent` is called on this thread. Throws ApiError (capacity_exhausted, ...) at once. */
  start(onEvent: (event: GenerationEvent) => void): RunningGeneration;
}

export interface RunningGeneration {
  /** Stops it before the engine's next step; no event follows. Idempotent, harmless after the end. */
  cancel(): void;
}
