// The public description of a served model. Contains only types.

import type { PoolingTask } from './pooling.js';
import type { ReasoningEffort } from './types.js';

/** A served model, as shown to clients. */
export interface ModelDescription {
  id: string;
  /** Set for a LoRA adapter. */
  adapter: {
    /** Name of the adapter's base model. */
    parent: string;
    /** The shortest name that selects the adapter: NAME, or MODEL:NAME if another model or adapter has NAME. */
    shortName: string;
  } | null;
  displayName: string;
  /** Whether the model only demonstrates the service and is not meant for real work. */
  demonstration: boolean;
  createdAt: Date;
  lifecycle: 'active' | 'deprecated' | 'retired';
  /** RFC 3339; null if not decided yet. */
  deprecatedAt: string | null;
  retiresAt: string | null;
  successor: string | null;
  /**
   * The model's output type: text, vectors or scores. Null until the model has been loaded for the first time, unless
   * the catalog declares it.
   */
  task: 'generation' | PoolingTask | null;
  /**
   * The vector lengths that an embedding model supports, longest first. Null for other models, and if the lengths are
   * unknown.
   */
  embeddingDimensions: readonly number[] | null;
  inputModalities: readonly string[];
  contextWindow: number; // prompt plus completion, tokens
  maxOutputTokens: number;
  efforts: readonly ReasoningEffort[]; // ['none'] for a model without reasoning
  defaultEffort: ReasoningEffort;
  sampling: { temperature: number; top_p: number; top_k: number; min_p: number; repetition_penalty: number };
}
