// Lengths that are checked before the schema looks inside: it reports every fault it finds, so an
// unbounded list of faults would cost memory and time out of all proportion to the request. Lists the
// schema bounds itself are refused by it unseen; maps and lists of lists are left. Pure.
import { apiError, type ApiError } from '../../shared/errors.js';
import { isRecord, overfullMap } from '../extent.js';
import { MAX_LOGIT_BIAS, MAX_METADATA } from '../fields.js';
import { MAX_MESSAGES } from './schema.js';

/** Content parts and tool calls of all messages together. */
const MAX_PARTS = 200_000;

/** The first list or map that is longer than any valid request has; null if none is. */
export function overlong(body: unknown): ApiError | null {
  if (!isRecord(body)) return null;
  const overfull = overfullMap(body, { logit_bias: MAX_LOGIT_BIAS, metadata: MAX_METADATA });
  if (overfull !== null) return overfull;
  if (!Array.isArray(body['messages']) || body['messages'].length > MAX_MESSAGES) return null; // the schema's own limit
  let parts = 0;
  const messages = body['messages'] as unknown[];
  for (let index = 0; index < messages.length; index++) {
    // of a hundred thousand; everybody waits
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
  apiError('array_too_long', `messages may have at most ${MAX_PARTS} content parts and tool calls in all.`, param);
