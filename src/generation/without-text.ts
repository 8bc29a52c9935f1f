// The generation request that represents a request without generated text, such as one for embeddings.
import type { GenerationRequest } from './types.js';

export const WITHOUT_TEXT: Readonly<Omit<GenerationRequest, 'model'>> = {
  messages: [],
  continueFinal: false,
  sampling: {},
  n: 1,
  maxTokens: 0,
  stop: [],
  topLogprobs: null,
  effort: null,
  reasoningBudget: null,
  tools: [],
  toolChoice: { mode: 'none', allowed: null },
  parallelToolCalls: true,
  format: { type: 'text' },
  truncation: 'disabled',
  promptParam: 'input',
  ignoreEos: false,
};
