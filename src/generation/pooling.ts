// The types of pooling requests. Instead of text, such a request returns one vector (embeddings) or one score
// (rerankers) per input.

export type Pooling = 'mean' | 'cls' | 'last' | 'rank';

/** A pooling model's output type: one vector per text, or one relevance score per query-document pair. */
export type PoolingTask = 'embedding' | 'ranking';

/**
 * One input. A reranker's input is a pair of a query and a document. `path`: path of the text, token IDs or document in
 * the client's request. In a pair, the limit on an input's length applies to the document.
 */
export type PoolingInput =
  | { readonly kind: 'text'; readonly text: string; readonly path: string }
  | { readonly kind: 'tokens'; readonly tokens: readonly number[]; readonly path: string }
  | {
      readonly kind: 'pair';
      readonly query: string;
      readonly document: string;
      readonly path: string;
      readonly queryPath: string;
    };

/** How an input that is too long is truncated. */
export interface InputTruncation {
  /** Maximum number of tokens to keep; null = the model's maximum. */
  readonly tokens: number | null;
  /** The side on which tokens are removed: `end` keeps the first tokens, `start` keeps the last ones. */
  readonly side: 'start' | 'end';
  /** The request field that enabled truncation; null if the API format truncates by default. */
  readonly field: 'truncate' | 'truncate_prompt_tokens' | null;
}

export interface PoolingRequest {
  readonly task: PoolingTask;
  /** Contains at least one input. */
  readonly inputs: readonly PoolingInput[];
  /**
   * Whether the special tokens of the model's vocabulary are added around each text. Inputs given as token IDs are used
   * unchanged.
   */
  readonly addSpecial: boolean;
  /** If null, inputs are not truncated, so an input that is too long is an error. */
  readonly truncation: InputTruncation | null;
  /** Maximum number of tokens of a pair's document. A longer document is truncated. Null means no separate limit. */
  readonly maxDocumentTokens: number | null;
  /**
   * Name of the prompt (`models.<id>.embedding_prompts`) that precedes each text; null = the model's default prompt.
   */
  readonly promptName: string | null;
  /** Number of dimensions to which each vector is truncated; null keeps the full length. */
  readonly dimensions: number | null;
}
