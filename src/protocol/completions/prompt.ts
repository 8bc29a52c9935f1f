// Reads `prompt`: a string, a list of token IDs, or a list whose entries are strings or lists of token IDs. Validated
// by hand, because a schema would report one error per entry, possibly a hundred thousand. No side effects.
import { apiError, type ApiError } from '../../shared/errors.js';
import { MAX_PROMPTS } from './schema.js';

export type Prompts = readonly (string | readonly number[])[];

/** Throws ApiError 400 for an invalid prompt, and 422 for a list that is empty or too long. */
export function readPrompts(prompt: unknown): Prompts {
  if (prompt === undefined || prompt === null) throw fault('missing_required_parameter', 'prompt', 'is required');
  if (typeof prompt === 'string') return [prompt];
  if (!Array.isArray(prompt))
    throw fault('invalid_type', 'prompt', 'must be a string, a list of token IDs, or a list of either');
  const list: readonly unknown[] = prompt;
  if (list.length === 0) throw fault('missing_required_parameter', 'prompt', 'must not be empty');
  if (typeof list[0] === 'number') return [readTokens(list, 'prompt')];
  if (list.length > MAX_PROMPTS) throw fault('array_too_long', 'prompt', `may have at most ${MAX_PROMPTS} entries`);
  const texts = typeof list[0] === 'string';
  return list.map((entry, index) => {
    const path = `prompt[${index}]`;
    if (texts ? typeof entry !== 'string' : !Array.isArray(entry))
      throw fault(
        'invalid_type',
        path,
        texts
          ? 'must be a string, like the first entry'
          : 'must be a string or a list of token IDs, and all entries must be of the same kind',
      );
    if (typeof entry === 'string') return entry;
    if ((entry as unknown[]).length === 0) throw fault('missing_required_parameter', path, 'must not be empty');
    return readTokens(entry as unknown[], path);
  });
}

function readTokens(list: readonly unknown[], path: string): readonly number[] {
  const wrong = list.findIndex((token) => typeof token !== 'number' || !Number.isInteger(token));
  if (wrong !== -1) throw fault('invalid_type', `${path}[${wrong}]`, 'must be an integer token ID');
  const tokens = list as readonly number[];
  const outside = tokens.findIndex((token) => token < 0 || token > 2 ** 31 - 1);
  if (outside !== -1) throw fault('value_out_of_range', `${path}[${outside}]`, 'must be a token ID');
  return tokens;
}

function fault(
  code: 'missing_required_parameter' | 'invalid_type' | 'array_too_long' | 'value_out_of_range',
  path: string,
  what: string,
): ApiError {
  return apiError(code, `${path} ${what}.`, path);
}
