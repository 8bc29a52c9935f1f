// Token counts of one generation, from which every format builds its usage object.

export interface Usage {
  promptTokens: number; // including cached tokens
  cachedTokens: number;
  completionTokens: number; // across all choices, including reasoning tokens
  reasoningTokens: number;
}
