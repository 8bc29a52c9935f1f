// Length limits checked before schema validation. The schema reports every error that it finds, so without these
// limits, the list of errors could use memory and time out of proportion to the request. This file covers maps and
// nested lists; for top-level lists, the schema has limits and rejects longer ones without reading their entries. No
// side effects.
import { apiError, type ApiError } from '../../shared/errors.js';
import { isRecord, overfullMap } from '../entry-limits.js';
import { MAX_LOGIT_BIAS, MAX_METADATA } from '../fields.js';
import { MAX_MESSAGES } from './schema.js';

/** Maximum total number of content parts and tool calls across all messages. */
const MAX_PARTS = 200_000;

/** Returns an error for the first list or map that is longer than any valid request may have, or null. */
export function overlong(body: unknown): ApiError | null {
  if (!isRecord(body)) return null;
  const overfull = overfullMap(body, { logit_bias: MAX_LOGIT_BIAS, metadata: MAX_METADATA });
  if (overfull !== null) return overfull;
  if (!Array.isArray(body['messages']) || body['messages'].length > MAX_MESSAGES) return null; // the schema rejects it
  let parts = 0;
  const messages = body['messages'] as unknown[];
  for (let index = 0; index < messages.length; index++) {
    // Up to 100,000 messages are checked without yielding to the event loop, so other requests wait during that time.
    const message = messages[index];
    if (!isRecord(message)) continue;
    const { content, tool_calls: calls } = message;
    if (Array.isArray(content) && (parts += content.length) > MAX_PARTS)
      return tooManyParts(`messages[${index}].content`);
    if (Array.isArray(calls) && (parts += calls.length) > MAX_PARTS)
      return tooManyParts(`messages[${index}].tool_calls`);
  }
  return null;
}

const tooManyParts = (param: string): ApiError =>
  apiError('array_too_long', `messages may have at most ${MAX_PARTS} content parts and tool calls in total.`, param);
