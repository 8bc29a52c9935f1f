// Selects the prompt (an instruction such as "query: ") that an embedding model expects in front of each text. Pure.
import { apiError } from '../shared/errors.js';
import type { PoolingRequest } from './pooling.js';

/**
 * Returns the prompt named in the request or, if the request names none, the prompt `default`. Returns `fallback` if
 * there is no default prompt. `prompts`: the model's prompts by name. Throws ApiError 422 for an unknown name.
 */
export function embeddingPrompt(
  { promptName, inputs }: Pick<PoolingRequest, 'promptName' | 'inputs'>,
  prompts: Readonly<Record<string, string>>,
  model: string,
  fallback = '',
): string {
  if (promptName === null) return prompts['default'] ?? fallback;
  const prompt = Object.hasOwn(prompts, promptName) ? prompts[promptName] : undefined;
  if (prompt === undefined) {
    const names = Object.keys(prompts);
    throw apiError(
      'unsupported_value',
      names.length === 0
        ? `prompt_name: ${model} has no prompts.`
        : `prompt_name must be one of ${names.join(', ')} for ${model}.`,
      'prompt_name',
    );
  }
  if (inputs.some(({ kind }) => kind === 'tokens'))
    throw apiError('conflicting_parameters', 'prompt_name applies to texts only, not to token IDs.', 'prompt_name');
  return prompt;
}
