// Length limits checked before schema validation, which would report every error in every entry. No side effects.
import { apiError, type ApiError } from '../../shared/errors.js';
import { isRecord } from '../entry-limits.js';
import { MAX_MESSAGES } from './schema.js';

/** Maximum total number of images and tool calls across all messages. */
const MAX_PARTS = 200_000;

/** Returns an error for the first list that is longer than any valid request may have, or null. */
export function overlong(body: unknown): ApiError | null {
  if (!isRecord(body) || !Array.isArray(body['messages']) || body['messages'].length > MAX_MESSAGES) return null;
  let parts = 0;
  const messages = body['messages'] as unknown[];
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    if (!isRecord(message)) continue;
    for (const name of ['images', 'tool_calls']) {
      const list = message[name];
      if (Array.isArray(list) && (parts += list.length) > MAX_PARTS)
        return apiError(
          'array_too_long',
          `messages may have at most ${MAX_PARTS} images and tool calls in total.`,
          `messages[${index}].${name}`,
        );
    }
  }
  return null;
}
