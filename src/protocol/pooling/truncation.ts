// The request fields that enable truncation of inputs that are too long: vLLM's `truncate_prompt_tokens`, and
// `truncate` as in the APIs of Jina, Ollama and NVIDIA. Pure.
import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import type { InputTruncation } from '../../generation/pooling.js';
import { integer } from '../fields.js';

export const truncationFields = {
  /** Maximum number of tokens per input; -1 = the model's maximum. */
  truncate_prompt_tokens: integer().min(-1).nullish(),
  truncate: z.union([z.boolean(), z.enum(['NONE', 'START', 'END'])]).nullish(),
};

interface TruncationInput {
  readonly truncate_prompt_tokens?: number | null | undefined;
  readonly truncate?: boolean | 'NONE' | 'START' | 'END' | null | undefined;
}

/**
 * `byDefault`: whether the API format truncates by default. Returns null if an input that is too long is an error.
 * Throws ApiError 422.
 */
export function toTruncation(
  { truncate_prompt_tokens: tokens, truncate }: TruncationInput,
  byDefault = false,
): InputTruncation | null {
  if (tokens === 0)
    throw apiError('value_out_of_range', 'truncate_prompt_tokens must be -1 or at least 1.', 'truncate_prompt_tokens');
  const refuses = truncate === false || truncate === 'NONE';
  if (refuses && tokens != null)
    throw apiError(
      'conflicting_parameters',
      'truncate_prompt_tokens cannot be combined with a truncate value that turns truncation off.',
      'truncate',
    );
  if (refuses || (truncate == null && tokens == null && !byDefault)) return null;
  return {
    tokens: tokens == null || tokens === -1 ? null : tokens,
    side: truncate === 'START' ? 'start' : 'end',
    field: tokens != null ? 'truncate_prompt_tokens' : truncate != null ? 'truncate' : null,
  };
}
