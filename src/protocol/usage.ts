// What one generation used, as every format tells it.

export interface Usage {
  promptTokens: number; // cached ones included
  cachedTokens: number;
  completionTokens: number; // reasoning included, of all choices
  reasoningTokens: number;
}
