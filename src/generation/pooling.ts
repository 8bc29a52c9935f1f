// Requests whose result is one vector or score per input instead of text: embeddings, and the scores of a reranker.
// Types only.

export type Pooling = 'mean' | 'cls' | 'last' | 'rank';

/** The kinds of requests that a pooling model serves. */
export type PoolingTask = 'embedding' | 'ranking';

/**
 * One input. `path`: its path in the client's request; for a pair, the document's. A pair is the query and the document
 * that a reranker compares; its limit applies to the document.
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

/** How an input that is too long is cut: to at most `tokens` tokens, of which the first (`end`) or last are kept. */
export interface InputTruncation {
  /** Null: what the model accepts. */
  readonly tokens: number | null;
  /** The side that is cut off. */
  readonly side: 'start' | 'end';
  /** The request field that asks for it. Null: the default of the API format. */
  readonly field: 'truncate' | 'truncate_prompt_tokens' | null;
}

export interface PoolingRequest {
  readonly task: PoolingTask;
  /** At least one. */
  readonly inputs: readonly PoolingInput[];
  /** Whether the special tokens that the vocabulary puts around a text are added to texts. */
  readonly addSpecial: boolean;
  /** Null: an input that is too long is an error. */
  readonly truncation: InputTruncation | null;
  /** Maximum tokens of a document in a pair. Null: no separate limit. */
  readonly maxDocumentTokens: number | null;
  /** Name of the prompt that is put before each text (`models.<id>.embedding_prompts`). Null: the model's default. */
  readonly promptName: string | null;
  /** Number of dimensions that a vector is cut to. Null: all. */
  readonly dimensions: number | null;
}
