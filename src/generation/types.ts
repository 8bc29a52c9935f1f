// The one internal form of a request and of its events. Every wire format is translated into a
// GenerationRequest and encodes GenerationEvents; nothing here knows a format or a token id.
import type { ApiError } from '../shared/errors.js';

export type ReasoningEffort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max';

export interface TextPart {
  type: 'text';
  text: string;
}

/** An image decoded as far as its header and checked against the limits; `bytes` are the file's own. */
export interface LoadedImage {
  readonly bytes: Uint8Array;
  readonly format: 'png' | 'jpeg' | 'webp' | 'gif';
  readonly width: number;
  readonly height: number;
}

export type ImageSource =
  | { kind: 'base64'; data: string }
  | { kind: 'url'; url: string } // data: or https:
  | { kind: 'bytes'; bytes: Uint8Array } // a file that was brought in before, with an earlier request
  | { kind: 'loaded'; image: LoadedImage }; // all images are, once ImageLoader.load() has seen the messages

export interface ImagePart {
  type: 'image';
  source: ImageSource;
  detail: 'low' | 'high' | 'auto' | 'original';
  path: string; // where it stands in the client's request, for errors
}

export type ContentPart = TextPart | ImagePart;
export type Content = string | readonly ContentPart[];

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
} // arguments: JSON text as the model wrote it

/** `path`: where the message stands in the client's request, for errors; `messages[i]` if absent. */
export type Message = { path?: string | undefined } & (
  | { role: 'system'; content: string; name?: string | undefined }
  | { role: 'user'; content: Content; name?: string | undefined }
  | {
      role: 'assistant';
      content: string | null;
      reasoning?: string | undefined;
      toolCalls?: ToolCall[] | undefined;
      name?: string | undefined;
    }
  | { role: 'tool'; content: Content; toolCallId: string; failed?: boolean | undefined }
);

export type JsonSchema = Readonly<Record<string, unknown>>;

export interface ToolDefinition {
  name: string;
  description: string | null;
  parameters: JsonSchema | null; // null: an object without properties
  strict: boolean; // a keyword of the schema that is not served: refused, or left out and told
  path: string; // where the schema stands in the client's request
}

export interface ToolChoice {
  mode: 'none' | 'auto' | 'required';
  /** The only tools that may be called, though all are shown to the model; null: every one. A named tool is `required` with one name. */
  allowed: readonly string[] | null;
}

/** What the content has to be, held to while it is sampled; reasoning and tool calls are not bound by it. `path`: in the client's request. */
export type OutputFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | { type: 'json_schema'; name: string | null; schema: JsonSchema; strict: boolean; path: string }
  | { type: 'regex'; pattern: string; path: string } // that the whole text matches
  | { type: 'grammar'; grammar: string; path: string } // rules in GBNF: that the whole text is one of root's
  | { type: 'choice'; choices: readonly string[]; path: string };

/** Unset fields take the model's own defaults (models/catalog.json, `models.<id>.sampling`). */
export interface Sampling {
  temperature?: number | undefined;
  topP?: number | undefined;
  topK?: number | undefined;
  minP?: number | undefined;
  repetitionPenalty?: number | undefined;
  frequencyPenalty?: number | undefined;
  presencePenalty?: number | undefined;
  seed?: bigint | undefined; // unset: drawn at random
  logitBias?: { token: number; bias: number }[] | undefined;
}

/** A prompt that the model is given as it stands, without its template. `path`: in the client's request. */
export type RawPrompt =
  /** `suffix`: what is wanted stands before it (fill in the middle). `addSpecial`: what the vocabulary puts around a text. */
  | { kind: 'text'; text: string; suffix: string | null; addSpecial: boolean; path: string }
  | { kind: 'tokens'; tokens: readonly number[]; path: string };

export interface GenerationRequest {
  model: string; // the public name asked for
  messages: Message[];
  raw?: RawPrompt | undefined; // instead of messages, of which there are none then
  continueFinal: boolean; // continue the last assistant message instead of starting a turn
  sampling: Sampling;
  n: number;
  maxTokens: number | null; // null: the client stated no cap; 0: only prepare the prefix cache, generate nothing
  stop: string[];
  topLogprobs: number | null; // null: no logprobs wanted
  effort: ReasoningEffort | 'enabled' | null; // null: the model's default; 'enabled': that, or medium where it is none
  /** Tokens of reasoning, stated outright: wins over the effort's own budget and is not lowered for the answer's sake. */
  reasoningBudget: number | null;
  tools: readonly ToolDefinition[];
  toolChoice: ToolChoice; // { mode: 'none', allowed: null } without tools
  parallelToolCalls: boolean; // false: at most one call
  format: OutputFormat;
  /** 'auto': if the prompt does not fit, the oldest turns are left out; system messages, the last user message and call/result pairs stay whole. */
  truncation: 'disabled' | 'auto';
  promptParam: 'messages' | 'input' | 'prompt'; // what errors about the prompt as a whole name
  ignoreEos: boolean; // benchmarks only
  /** So many tokens come before one that ends the answer, or a stop string. */
  minTokens?: number | undefined;
  /** Tokens that end the answer as those of the model do. */
  stopTokens?: readonly number[] | undefined;
  /** Log-probabilities of the prompt's tokens, each with so many of the likeliest: `prompt` events. */
  promptLogprobs?: number | null | undefined;
  /** Ids of generated tokens: `tokens` events. */
  returnTokens?: boolean | undefined;
}

export interface Logprob {
  token: string;
  bytes: number[];
  logprob: number;
}
export interface TokenLogprob extends Logprob {
  top: Logprob[];
}

/** A token of the model's vocabulary. `token`: its text, with U+FFFD for what is no whole character. */
export interface SpelledToken {
  id: number;
  token: string;
  bytes: number[];
}
export interface PromptLogprob extends SpelledToken {
  logprob: number;
  top: (SpelledToken & { logprob: number })[];
}

/**
 * Why a choice ended. `tool_calls`: the turn ended by itself and holds a complete call. `malformed_call`: the
 * model broke the syntax of a call, which is cut there. `repetition`: it said the same over and over. All but the first three are early ends.
 */
export type EndReason =
  | 'end_of_turn'
  | 'stop_string'
  | 'tool_calls'
  | 'max_tokens'
  | 'context_full'
  | 'time_limit'
  | 'repetition'
  | 'malformed_call';

/**
 * Where a provider learns only at the end what was used: the prompt's tokens, and that the choice's take the place of what
 * its events told. `estimated`: nobody has told it; all of it is a guess.
 */
export interface Counted {
  promptTokens: number;
  cachedTokens: number;
  estimated: boolean;
}

export interface ChoiceTimings {
  prefillMs: number;
  decodeMs: number;
}

export type GenerationEvent =
  /** `queueMs` is without `towerMs`: what the vision tower computed for its images; absent: it has none. */
  | { type: 'started'; promptTokens: number; cachedTokens: number; queueMs: number; towerMs?: number }
  // Where asked for: of the prompt's tokens from number `first` on; the first of all has none. Before any text.
  | { type: 'prompt'; first: number; logprobs: PromptLogprob[] }
  // Where asked for: what was generated, before the text it begins; a token that ends the answer included.
  | { type: 'tokens'; choice: number; ids: number[] }
  // `tokens`: generated tokens this event completes; 0 when only held-back text is let go.
  | {
      type: 'text';
      choice: number;
      section: 'content' | 'reasoning';
      text: string;
      tokens: number;
      logprobs: TokenLogprob[] | null;
    }
  // A call's events come in this order and uninterrupted by others of the choice; index counts from 0 per choice.
  | { type: 'call_started'; choice: number; index: number; name: string; tokens: number }
  | { type: 'call_arguments'; choice: number; index: number; text: string; tokens: number } // joined: JSON text of an object, or a beginning of it
  | { type: 'call_finished'; choice: number; index: number; complete: boolean; tokens: number }
  // `stopUnsaid`: a server elsewhere has not said whether a stop string ended it.
  | {
      type: 'finished';
      choice: number;
      reason: EndReason;
      stopUnsaid?: true;
      stopString: string | null;
      completionTokens: number;
      reasoningTokens: number;
      calls: number;
      timings: ChoiceTimings;
      counted?: Counted | undefined;
    }
  | {
      type: 'failed';
      code: 'queue_timeout' | 'engine_error' | 'shutdown';
      message: string;
      retryAfterMs?: number | undefined;
    }
  // Elsewhere, in words for the client.
  | { type: 'failed'; code: 'upstream'; message: string; error: ApiError };
