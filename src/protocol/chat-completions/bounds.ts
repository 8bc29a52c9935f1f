// Lengths that are checked before the schema looks inside: it reports every fault it finds, so an
// unbounded list of faults would cost memory and time out of all proportion to the request. Lists the
// schema bounds itself are refused by it unseen; maps and lists of lists are left. Pure.
import { apiError, type ApiError } from '../../errors.js';
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
  if (!Array.isArray(body['messages']) || body['messages'].length > MAX_MESSAGES) return null;   // the schema's own limit
  let parts = 0;
  for (const [index, message] of (body['messages'] as unknown[]).entries()) {
    if (!isRecord(message)) continue;
    for (const name of ['content', 'tool_calls']) {
      const list = message[name];
      if (Array.isArray(list)) parts += list.length;
      if (parts > MAX_PARTS) {
        return apiError('array_too_long', `messages may have at most ${MAX_PARTS} content parts and tool calls in all.`, `messages[${index}].${name}`);
      }
    }
  }
  return null;
}
