// The part of a prompt that all conversations with the same system prompt share, and its computation.

import type { PreparedGeneration, Provider, RequestContext } from '../../generation/provider.js';
import type { GenerationRequest } from '../../generation/types.js';
import type { ErrorCode } from '../../shared/error-codes.js';
import { apiError } from '../../shared/errors.js';

/** Two first turns that differ in their first token. */
const FIRST_TURNS = ['a', '0'] as const;

const FAILURES: Readonly<Record<string, ErrorCode>> = {
  queue_timeout: 'capacity_exhausted',
  shutdown: 'shutting_down',
};

export interface PromptPrefix {
  /** Prompt tokens, of which the first `length` are shared. */
  readonly tokens: Int32Array;
  readonly length: number;
  readonly prepared: PreparedGeneration;
}

/** Renders the system prompt with the model's chat template. Throws ApiError. */
export async function promptPrefix(
  provider: Provider,
  model: string,
  prompt: string,
  context: RequestContext,
): Promise<PromptPrefix> {
  const [first, second] = FIRST_TURNS.map((turn) => fillRequest(model, prompt, turn));
  const other = await provider.prepare(second!, { organization: context.organization });
  other.discard?.();
  const prepared = await provider.prepare(first!, context);
  if (prepared.promptIds === undefined || other.promptIds === undefined) {
    prepared.discard?.();
    throw apiError('unsupported_value', `${model} is an upstream model: its prompts cannot be pinned.`, 'model');
  }
  const tokens = Int32Array.from(prepared.promptIds);
  let length = 0;
  while (length < tokens.length && tokens[length] === other.promptIds[length]) length++;
  return { tokens, length, prepared };
}

/** Computes a prompt, unless it is cached. `label`: what its pages are kept for. Rejects with an ApiError. */
export function compute(prepared: PreparedGeneration, label: string): Promise<void> {
  return new Promise((resolve, reject) => {
    prepared.start((event) => {
      if (event.type === 'finished') resolve();
      else if (event.type === 'failed') reject(apiError(FAILURES[event.code] ?? 'model_error', event.message));
    }, label);
  });
}

const fillRequest = (model: string, prompt: string, turn: string): GenerationRequest => ({
  model,
  messages: [
    { role: 'system', content: prompt },
    { role: 'user', content: turn },
  ],
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
  promptParam: 'messages',
  ignoreEos: false,
});
