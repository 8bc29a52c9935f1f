// The public description of a served model. Types only.

import type { PoolingTask } from './pooling.js';
import type { ReasoningEffort } from './types.js';

/** A served model as clients see it. */
export interface ModelDescription {
  id: string;
  displayName: string;
  /** Whether the model only demonstrates the service and is not meant for real work. */
  demonstration: boolean;
  createdAt: Date;
  lifecycle: 'active' | 'deprecated' | 'retired';
  /** RFC 3339. Null if not decided yet. */
  deprecatedAt: string | null;
  retiresAt: string | null;
  successor: string | null;
  /** What the model produces: text, vectors or scores. Null: unknown, because it has not been loaded yet. */
  task: 'generation' | PoolingTask | null;
  /** The lengths that the vectors of an embedding model can have, longest first. Null: not known, or no vectors. */
  embeddingDimensions: readonly number[] | null;
  inputModalities: readonly string[];
  contextWindow: number; // prompt plus completion, tokens
  maxOutputTokens: number;
  efforts: readonly ReasoningEffort[]; // ['none'] for a model without reasoning
  defaultEffort: ReasoningEffort;
  sampling: { temperature: number; top_p: number; top_k: number; min_p: number; repetition_penalty: number };
}
