// Token counts of one generation, which every API format converts to its usage object.
import type { PredictionCount } from '../generation/types.js';

export interface Usage {
  promptTokens: number; // including cached tokens
  cachedTokens: number;
  completionTokens: number; // across all choices, including reasoning tokens
  reasoningTokens: number;
  /** Number of web searches that the server ran successfully. Absent if none. */
  webSearches?: number;
  /**
   * Tokens of the request's prediction, across all choices. Absent if the request has no prediction or the prediction
   * was not used.
   */
  prediction?: PredictionCount | undefined;
}

/** Adds the counts of several generations. */
export function addUsage(all: readonly Usage[]): Usage {
  const sum = (count: (usage: Usage) => number): number => all.reduce((total, usage) => total + count(usage), 0);
  const webSearches = sum((usage) => usage.webSearches ?? 0);
  return {
    promptTokens: sum((usage) => usage.promptTokens),
    cachedTokens: sum((usage) => usage.cachedTokens),
    completionTokens: sum((usage) => usage.completionTokens),
    reasoningTokens: sum((usage) => usage.reasoningTokens),
    ...(webSearches === 0 ? {} : { webSearches }),
    ...(all.every(({ prediction }) => prediction === undefined)
      ? {}
      : {
          prediction: {
            accepted: sum((usage) => usage.prediction?.accepted ?? 0),
            rejected: sum((usage) => usage.prediction?.rejected ?? 0),
          },
        }),
  };
}
