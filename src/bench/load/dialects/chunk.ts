// Parsing shared by chat completions and completions.

import { wordsOf } from './dialect.js';
import type { Answer, WireError } from './dialect.js';

interface WireUsage {
  prompt_tokens?: number;
  completion_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number } | null;
}

interface Chunk<Choice> {
  id?: string;
  choices?: (Choice & { finish_reason?: string | null })[];
  usage?: WireUsage | null;
  error?: WireError | string;
}

/**
 * Records the information about the whole response that a chunk contains. Returns the chunk's first choice, or null if
 * it has none. Throws if the chunk is not JSON.
 */
export function takeChunk<Choice>(answer: Answer, data: string): Choice | null {
  if (data === '[DONE]') {
    answer.ended = true;
    return null;
  }
  const { id, choices, usage, error } = JSON.parse(data) as Chunk<Choice>;
  if (error !== undefined) answer.error = wordsOf(error);
  answer.id ??= id ?? null;
  if (usage != null) {
    answer.promptTokens = usage.prompt_tokens ?? answer.promptTokens;
    answer.outputTokens = usage.completion_tokens ?? answer.outputTokens;
    answer.cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? answer.cachedTokens;
  }
  const choice = choices?.[0];
  if (choice === undefined) return null;
  answer.finish = choice.finish_reason ?? answer.finish;
  return choice;
}
