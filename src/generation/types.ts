// The internal form of requests and their events. Every API format converts its requests to a GenerationRequest and
// encodes GenerationEvents. This file does not depend on any format or on token IDs.
import type { PoolingTask } from './pooling.js';
import type { ApiError } from '../shared/errors.js';
import type { McpListing, McpOptions, McpOutcome } from './mcp/types.js';
import type { WrittenItem } from './replay/replay-item.js';
import type { SearchOutcome } from './web-search/outcome.js';
import type { WebSearchOptions } from './web-search/search-options.js';

/** In ascending order. */
export const REASONING_EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningEffort = (typeof REASONING_EFFORTS)[number];

export interface TextPart {
  type: 'text';
  text: string;
}

/** An image that is within the limits and whose header has been decoded. `bytes` is the original file. */
export interface LoadedImage {
  readonly bytes: Uint8Array;
  readonly format: 'png' | 'jpeg' | 'webp' | 'gif';
  readonly width: number;
  readonly height: number;
}

export type ImageSource =
  | { kind: 'base64'; data: string }
  | { kind: 'url'; url: string } // data: or https:
  | { kind: 'bytes'; bytes: Uint8Array } // a file loaded by an earlier request
  | { kind: 'loaded'; image: LoadedImage }; // all images have this form after ImageLoader.load()

export interface ImagePart {
  type: 'image';
  source: ImageSource;
  detail: 'low' | 'high' | 'auto' | 'original';
  path: string; // path in the client's request, for errors
}

export type ContentPart = TextPart | ImagePart;
export type Content = string | readonly ContentPart[];

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
} // `arguments`: JSON text as the model wrote it

/** One block of reasoning from an earlier turn. */
export interface Thought {
  /** The block's text. Empty if only the upstream that returned the block can read it. */
  text: string;
  path: string; // path in the client's request
  /** The model that wrote the block; null if the client sent the block unsealed. Such a block is used for any model. */
  model: string | null;
  /**
   * The upstream that returned the block and, if the upstream's API has reasoning blocks, the original block. Null if
   * no upstream returned it.
   */
  origin: ThoughtOrigin | null;
  /** The block's position in the turn: the number of characters of content and the number of tool calls before it. */
  after: { text: number; calls: number };
  /** If false, the block belongs to an earlier tool loop and is not part of `reasoning`. */
  current: boolean;
}

export interface ThoughtOrigin {
  upstream: string; // see upstreamId()
  block: JsonSchema | null; // unchanged
}

/**
 * Reasoning or an item in the request that is not passed to the model. foreign: it was not sealed for this organization
 * with a current key. other_model: a different model on this server wrote it. unusable: this upstream did not create
 * it, or cannot read it back. unread: it is an item other than reasoning that this server does not read.
 */
export interface LeftOut {
  path: string;
  reason: 'foreign' | 'other_model' | 'unusable' | 'unread';
}

/** `path`: the message's path in the client's request, for errors; `messages[i]` if absent. */
export type Message = { path?: string | undefined } & (
  | { role: 'system'; content: string; name?: string | undefined }
  | { role: 'user'; content: Content; name?: string | undefined }
  | {
      role: 'assistant';
      content: string | null;
      reasoning?: string | undefined;
      /** The blocks that `reasoning` was made from, and the blocks that it omits; see seenBy(). */
      thoughts?: readonly Thought[] | undefined;
      /** Whether some of this turn's reasoning is missing because it is foreign or cannot be sent to this upstream. */
      lacksReasoning?: boolean | undefined;
      toolCalls?: ToolCall[] | undefined;
      name?: string | undefined;
    }
  | { role: 'tool'; content: Content; toolCallId: string; failed?: boolean | undefined }
);

export type JsonSchema = Readonly<Record<string, unknown>>;

/** The grammar of a custom tool's input. `path`: the definition's path in the client's request. */
export interface TextGrammar {
  readonly syntax: 'lark' | 'regex';
  readonly definition: string;
  readonly path: string;
}

export interface ToolDefinition {
  name: string;
  description: string | null;
  parameters: JsonSchema | null; // null: an object without properties
  strict: boolean; // strict: unsupported schema keywords are an error; otherwise, they are ignored and reported
  path: string; // the schema's path in the client's request
  /** Present for a custom tool, whose parameters are the result of customParameters(). */
  custom?: { readonly grammar: TextGrammar | null } | undefined;
}

export interface ToolChoice {
  mode: 'none' | 'auto' | 'required';
  /**
   * The only tools that may be called; null = all tools. All tools are still shown to the model. A choice that names
   * one tool is `required` with only that name.
   */
  allowed: readonly string[] | null;
}

/**
 * The format that sampling enforces on the content. It does not apply to reasoning or tool calls. `path`: its path in
 * the client's request.
 */
export type OutputFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | { type: 'json_schema'; name: string | null; schema: JsonSchema; strict: boolean; path: string }
  | { type: 'regex'; pattern: string; path: string } // must match the whole text
  | { type: 'grammar'; grammar: string; path: string } // GBNF rules or a Lark grammar for the whole text
  | { type: 'choice'; choices: readonly string[]; path: string };

/** Unset fields use the model's own defaults (models/catalog.json, `models.<id>.sampling`). */
export interface Sampling {
  temperature?: number | undefined;
  topP?: number | undefined;
  topK?: number | undefined;
  minP?: number | undefined;
  repetitionPenalty?: number | undefined;
  frequencyPenalty?: number | undefined;
  presencePenalty?: number | undefined;
  seed?: bigint | undefined; // unset: random
  logitBias?: { token: number; bias: number }[] | undefined;
}

export interface RepositoryFile {
  readonly name: string;
  readonly text: string;
}

/** A prompt that is passed to the model without a template. `path`: its path in the client's request. */
export type RawPrompt =
  /**
   * `suffix`: text after the gap to be filled (fill in the middle). `addSpecial`: whether to add the special tokens
   * that the vocabulary puts around a text.
   */
  | {
      kind: 'text';
      text: string;
      suffix: string | null;
      addSpecial: boolean;
      path: string;
      /** Other files of the same repository, which precede the text in the prompt. Used only with `suffix`. */
      files?: readonly RepositoryFile[] | undefined;
      /** Name of the request field that contains the suffix, for error messages. Defaults to `suffix`. */
      suffixPath?: string | undefined;
    }
  | { kind: 'tokens'; tokens: readonly number[]; path: string };

export interface GenerationRequest {
  model: string; // the public name in the request
  messages: Message[];
  raw?: RawPrompt | undefined; // replaces messages, which is then empty
  /** Set if the request is for vectors or scores (pooling.ts) instead of text. `inputs`: the number of inputs. */
  pooling?: { readonly task: PoolingTask; readonly inputs: number; readonly dimensions: number | null } | undefined;
  /**
   * Set if the request has questions with allowed answers (decisions.ts) instead of generating text. `questions`: their
   * number.
   */
  decisions?: { readonly questions: number } | undefined;
  continueFinal: boolean; // continues the last assistant message instead of starting a new turn
  sampling: Sampling;
  n: number;
  maxTokens: number | null; // null: the request sets no limit; 0: only fill the prefix cache, generate nothing
  stop: string[];
  topLogprobs: number | null; // null: no log probabilities
  // null: the model's default; 'enabled': the default, or medium if the default is 'none'
  effort: ReasoningEffort | 'enabled' | null;
  /**
   * Explicit budget of reasoning tokens. Overrides the effort's budget, and is not reduced to leave room for the
   * response.
   */
  reasoningBudget: number | null;
  /** The effort that is passed to the chat template, if it differs from `effort`. */
  promptEffort?: ReasoningEffort | undefined;
  /** Variables for the chat template, by name (`chat_template_kwargs`). */
  templateVariables?: Readonly<Record<string, unknown>> | undefined;
  tools: readonly ToolDefinition[];
  toolChoice: ToolChoice; // { mode: 'none', allowed: null } if there are no tools
  parallelToolCalls: boolean; // false: at most one call
  /** Present if one of the tools is the server's own web search. */
  webSearch?: WebSearchOptions | undefined;
  /** Present if the request uses MCP servers. Their tools are not part of `tools` until a run has listed them. */
  mcp?: McpOptions | undefined;
  format: OutputFormat;
  /**
   * 'auto': if the prompt does not fit, the oldest turns are dropped. System messages and the last user message are
   * kept, and calls are never separated from their results.
   */
  truncation: 'disabled' | 'auto';
  /** The request field named in errors about the prompt as a whole. */
  promptParam: 'messages' | 'input' | 'prompt' | 'input_prefix';
  ignoreEos: boolean; // for benchmarks only
  /** Minimum number of tokens before an end token or a stop string takes effect. */
  minTokens?: number | undefined;
  /** Text that the response probably repeats, which can speed up the generation. */
  prediction?: string | undefined;
  /** Additional tokens that end the response. */
  stopTokens?: readonly number[] | undefined;
  /** For each prompt token, the number of most likely tokens to report in `prompt` events; null = no such events. */
  promptLogprobs?: number | null | undefined;
  /** Whether to report the IDs of generated tokens in `tokens` events. */
  returnTokens?: boolean | undefined;
  /** Whether the prompt's KV pages are kept for a day (`prompt_cache_retention: "24h"`). */
  keepsPages?: boolean | undefined;
  /** Whether the request forbids storing any part of the request or its response (`store: false`). */
  storesNothing?: boolean | undefined;
  /** Content that is not passed to the model, in request order. */
  leftOut?: readonly LeftOut[] | undefined;
  /** Top-level request fields that the response lists as ignored. */
  ignored?: readonly string[] | undefined;
}

export interface Logprob {
  token: string;
  bytes: number[];
  logprob: number;
}
export interface TokenLogprob extends Logprob {
  top: Logprob[];
}

/** A token in the model's vocabulary. `token`: its text, with U+FFFD for incomplete characters. */
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
 * Why a choice ended. `tool_calls`: the turn ended naturally and contains a complete call. `malformed_call`: a call has
 * invalid syntax and is cut off at that point. `repetition`: the output repeated itself. All reasons but the first
 * three count as early ends.
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
 * Final counts from a provider that knows them only at the end. The choice's count replaces the sum over its events.
 * `estimated`: the upstream reported nothing, so all counts are estimates.
 */
export interface Counted {
  promptTokens: number;
  cachedTokens: number;
  estimated: boolean;
}

/**
 * Number of tokens in the request's prediction that the choice has repeated (`accepted`) and that it has not repeated
 * (`rejected`).
 */
export interface PredictionCount {
  accepted: number;
  rejected: number;
}

export interface ChoiceTimings {
  prefillMs: number;
  decodeMs: number;
}

export type GenerationEvent =
  /**
   * `queueMs` excludes `towerMs`, the time spent in the vision encoder. `towerMs` is absent if the request has no
   * images. `leftOut`: the reasoning that was not passed to the model, if it differs from the request's list. `model`:
   * the fallback model, if it generates the response. `upstream`: the upstream that generates the response. `ignored`:
   * parameters that were not sent to it.
   */
  | {
      type: 'started';
      promptTokens: number;
      cachedTokens: number;
      queueMs: number;
      towerMs?: number;
      leftOut?: readonly LeftOut[];
      model?: string;
      upstream?: string;
      ignored?: readonly string[];
    }
  // If requested: log probabilities of the prompt's tokens, starting at position `first`. The prompt's first token has
  // none. Emitted before all text.
  | { type: 'prompt'; first: number; logprobs: PromptLogprob[] }
  // If requested: IDs of generated tokens, emitted before the first text that these tokens produce. Includes a token
  // that ends the response.
  | { type: 'tokens'; choice: number; ids: number[] }
  // `tokens`: number of generated tokens that this event completes; 0 if it only releases held-back text.
  | {
      type: 'text';
      choice: number;
      section: 'content' | 'reasoning';
      text: string;
      tokens: number;
      logprobs: TokenLogprob[] | null;
    }
  // The upstream's own block for the reasoning since the previous `thought` event. The block may have no text.
  | { type: 'thought'; choice: number; block: JsonSchema }
  // A call's events are emitted in this order, without other events of the choice in between. `index` counts from 0
  // within each choice. `key`: the random part of the call ID that the client receives; set by the code that runs the
  // request.
  | { type: 'call_started'; choice: number; index: number; name: string; tokens: number; key?: string }
  // The concatenated deltas form the JSON text of an object, or a prefix of one.
  | { type: 'call_arguments'; choice: number; index: number; text: string; tokens: number }
  | { type: 'call_finished'; choice: number; index: number; complete: boolean; tokens: number }
  // This event and the following ones up to `continued` occur only if the server runs some of the tools itself
  // (hosted-tools/hosted-run.ts). The model is writing a call to such a tool.
  | { type: 'hosted_called'; choice: number; tokens: number }
  // `query` is null if the call contains none. The next event of the choice is `search_finished`.
  | { type: 'search_started'; choice: number; query: string | null }
  | { type: 'search_finished'; choice: number; outcome: SearchOutcome }
  // The server requests the tool list of an MCP server, before `started`. The next event of the choice is
  // `mcp_listing_finished`.
  | { type: 'mcp_listing_started'; choice: number; label: string }
  // `listing`: the tools offered to the model.
  | { type: 'mcp_listing_finished'; choice: number; listing: McpListing }
  // The server calls a tool of an MCP server, before `started` if the client has approved the call. `approvalId`: the
  // approval request, or null. The next event of the choice is `mcp_finished`.
  | {
      type: 'mcp_started';
      choice: number;
      label: string;
      name: string;
      arguments: string;
      approvalId: string | null;
    }
  | { type: 'mcp_finished'; choice: number; outcome: McpOutcome }
  // The turn ends with a call of an MCP tool that the client must approve.
  | { type: 'mcp_approval'; choice: number; label: string; name: string; arguments: string }
  // The next round has started, with the results in its prompt. `before`: counts of the round that ended with calls.
  | {
      type: 'continued';
      choice: number;
      promptTokens: number;
      cachedTokens: number;
      queueMs: number;
      before: { completionTokens: number; timings: ChoiceTimings };
      model?: string;
      upstream?: string;
    }
  // The choice's tool calls and reasoning blocks with their token IDs. Emitted before `finished`. `model`: identifies
  // the model that generated the tokens.
  | { type: 'written'; choice: number; model: string; items: readonly WrittenItem[] }
  // `stopSequenceUnknown`: the upstream did not report whether a stop string ended the choice.
  | {
      type: 'finished';
      choice: number;
      reason: EndReason;
      stopSequenceUnknown?: true;
      stopString: string | null;
      completionTokens: number;
      reasoningTokens: number;
      calls: number;
      timings: ChoiceTimings;
      /**
       * How much of the prediction was repeated. Absent if the request has no prediction or if the prediction was not
       * used.
       */
      prediction?: PredictionCount | undefined;
      counted?: Counted | undefined;
    }
  | {
      type: 'failed';
      code: 'queue_timeout' | 'engine_error' | 'shutdown';
      message: string;
      retryAfterMs?: number | undefined;
    }
  // An error from an upstream server, with a message for the client.
  | { type: 'failed'; code: 'upstream'; message: string; error: ApiError };

export type HostedEvent = Extract<
  GenerationEvent,
  {
    type:
      | 'hosted_called'
      | 'search_started'
      | 'search_finished'
      | 'mcp_listing_started'
      | 'mcp_listing_finished'
      | 'mcp_started'
      | 'mcp_finished'
      | 'mcp_approval'
      | 'continued';
  }
>;
