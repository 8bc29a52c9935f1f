// What the operator sets for every model of this process' engine. Types only.

/** White space a model may write in JSON; the operator's. */
export interface GrammarSettings {
  /** In answers. */
  whiteSpace: 'compact' | 'flexible';
  /** In the arguments of tool calls. */
  callWhiteSpace: 'compact' | 'flexible';
}

/** Tokens that images may take of a prompt. */
export interface ImageTokenLimits {
  perImage: number;
  perRequest: number;
}

/** Limits that are the operator's, not the model's. */
export interface GenerationLimits {
  queueWaitMs: number;
  maxGenerationMs: number;
  /** A request waits so long for a model that is loaded because it asks; absent: two minutes. */
  loadWaitMs?: number;
  /** So many requests may wait for one; absent: 512. */
  loadWaitMax?: number;
  grammar: GrammarSettings;
  images: ImageTokenLimits;
}
