// Validates a request field that contains a string, a list of token IDs, or a list of strings or of token ID lists.
// Does not use a schema, because a schema would report one error per invalid entry, possibly a hundred thousand. No
// side effects.
import { apiError, type ApiError } from '../shared/errors.js';

export type TextsOrTokens = readonly (string | readonly number[])[];

/** Returns the entries. Throws ApiError 400 for an invalid value, and 422 for a list with more than `most` entries. */
export function readTextsOrTokens(value: unknown, field: string, most: number): TextsOrTokens {
  if (value === undefined || value === null) throw fault('missing_required_parameter', field, 'is required');
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value))
    throw fault('invalid_type', field, 'must be a string, a list of token IDs, or a list of either');
  const list: readonly unknown[] = value;
  if (list.length === 0) throw fault('missing_required_parameter', field, 'must not be empty');
  if (typeof list[0] === 'number') return [readTokens(list, field)];
  if (list.length > most) throw fault('array_too_long', field, `may have at most ${most} entries`);
  const texts = typeof list[0] === 'string';
  return list.map((entry, index) => {
    const path = `${field}[${index}]`;
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
