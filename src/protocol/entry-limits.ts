// Limits the number of entries in the maps of a request body before schema validation. No side effects.
import { apiError, type ApiError } from '../shared/errors.js';

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}

/** Returns an error for the first map that exceeds its limit, or null if there is none. */
export function overfullMap(
  body: Readonly<Record<string, unknown>>,
  most: Readonly<Record<string, number>>,
): ApiError | null {
  for (const [name, limit] of Object.entries(most)) {
    const value = body[name];
    if (isRecord(value) && hasMoreThan(value, limit))
      return apiError('too_many_entries', `${name} may have at most ${limit} entries.`, name);
  }
  return null;
}

/** Whether an object has more than `most` members. Counting stops as soon as the limit is exceeded. */
function hasMoreThan(value: object, most: number): boolean {
  let count = 0;
  for (const _ in value) if (++count > most) return true;
  return false;
}
