// Limits that the operator sets for all models of this process's engine. Contains only types.

/** Whitespace that a model may write in JSON. */
export interface GrammarSettings {
  /** White space in responses. */
  whiteSpace: 'compact' | 'flexible';
  /** White space in tool arguments. */
  callWhiteSpace: 'compact' | 'flexible';
}

/** Maximum number of prompt tokens for images, per image and per request. */
export interface ImageTokenLimits {
  perImage: number;
  perRequest: number;
}

/** Limits that the operator sets for all models. */
export interface GenerationLimits {
  queueWaitMs: number;
  maxGenerationMs: number;
  /** How long a request waits for an unloaded model to load. Default: two minutes. */
  loadWaitMs?: number;
  /** Maximum number of requests that wait for one model to load. Default: 512. */
  loadWaitMax?: number;
  /** Number of prompt tokens between two saved states of a model with recurrent state. Default: 1,024. */
  snapshotTokens?: number;
  /** Whether the engine uses speculative decoding. Default: true. */
  speculates?: boolean;
  grammar: GrammarSettings;
  images: ImageTokenLimits;
}
