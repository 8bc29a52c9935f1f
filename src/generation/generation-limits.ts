// Limits that the operator sets for all models of this process's engine. Types only.

/** Whitespace that a model may write in JSON. */
export interface GrammarSettings {
  /** In responses. */
  whiteSpace: 'compact' | 'flexible';
  /** In tool arguments. */
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
  /** How long a request waits for an unloaded model to load. Absent: two minutes. */
  loadWaitMs?: number;
  /** How many requests may wait for one model to load. Absent: 512. */
  loadWaitMax?: number;
  /** Models with recurrent state: prompt tokens between saved states. Absent: 1,024. */
  snapshotTokens?: number;
  /** Whether the engine uses draft tokens. Absent: yes. */
  speculates?: boolean;
  grammar: GrammarSettings;
  images: ImageTokenLimits;
}
