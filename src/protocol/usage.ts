// Token counts of one generation, from which every format builds its usage object.

export interface Usage {
  promptTokens: number; // including cached tokens
  cachedTokens: number;
  completionTokens: number; // across all choices, including reasoning tokens
  reasoningTokens: number;
  /** Web searches that the server ran successfully. Absent: none. */
  webSearches?: number;
}

export function addUsage(all: readonly Usage[]): Usage {
  const sum = (key: Exclude<keyof Usage, 'webSearches'>): number => all.reduce((total, usage) => total + usage[key], 0);
  return {
    promptTokens: sum('promptTokens'),
    cachedTokens: sum('cachedTokens'),
    completionTokens: sum('completionTokens'),
    reasoningTokens: sum('reasoningTokens'),
  };
}
