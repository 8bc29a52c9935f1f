// Token counts of one generation, from which every format builds its usage object.
import type { PredictionCount } from '../generation/types.js';

export interface Usage {
  promptTokens: number; // including cached tokens
  cachedTokens: number;
  completionTokens: number; // across all choices, including reasoning tokens
  reasoningTokens: number;
  /** Tokens of the request's prediction, across all choices. Absent: it has none, or it was not used. */
  prediction?: PredictionCount | undefined;
}

export type TokenCounts = Omit<Usage, 'prediction'>;
