// Token counts of one generation, from which every format builds its usage object.

export interface Usage {
  promptTokens: number; // including cached tokens
  cachedTokens: number;
  completionTokens: number; // across all choices, including reasoning tokens
  reasoningTokens: number;
}

/** Adds the counts of two generations. */
export const sumOf = (one: Usage, other: Usage): Usage => ({
  promptTokens: one.promptTokens + other.promptTokens,
  cachedTokens: one.cachedTokens + other.cachedTokens,
  completionTokens: one.completionTokens + other.completionTokens,
  reasoningTokens: one.reasoningTokens + other.reasoningTokens,
});
