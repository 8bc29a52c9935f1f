// Length limits checked before schema validation: later checks take time per entry, so the number of entries must be
// bounded first. No side effects.
import { apiError, type ApiError } from '../../shared/errors.js';
import { isRecord, lengthOf, overfullMap } from '../entry-limits.js';
import { MAX_LOGIT_BIAS, MAX_STOP_STRINGS } from '../fields.js';
import { MAX_TOOLS } from '../../config/tool-limit.js';

const MAX_MESSAGES = 100_000;
/** Maximum total number of content blocks across all messages and the system prompt, including nested blocks. */
const MAX_BLOCKS = 200_000;
/**
 * Maximum number of thinking blocks, far more than any conversation has. It is limited because each block is verified
 * with a keyed hash.
 */
export const MAX_THINKING_BLOCKS = 10_000;

/** Returns an error for the first list or map that is longer than any valid request may have, or null. */
export function overlong(body: unknown): ApiError | null {
  if (!isRecord(body)) return null;
  const overfull = overfullMap(body, { logit_bias: MAX_LOGIT_BIAS });
  if (overfull !== null) return overfull;
  const lists = [
    ['tools', MAX_TOOLS],
    ['stop_sequences', MAX_STOP_STRINGS],
    ['messages', MAX_MESSAGES],
    ['system', MAX_BLOCKS],
  ] as const;
  for (const [name, most] of lists) {
    if (lengthOf(body[name]) > most)
      return apiError('array_too_long', `${name} may have at most ${most} entries.`, name);
  }
  return Array.isArray(body['messages'])
    ? tooManyBlocks(body['messages'] as unknown[], lengthOf(body['system']))
    : null;
}

function tooManyBlocks(messages: readonly unknown[], before: number): ApiError | null {
  let blocks = before;
  for (const [index, message] of messages.entries()) {
    const content = isRecord(message) ? message['content'] : null;
    if (!Array.isArray(content)) continue;
    blocks += content.length;
    if (blocks <= MAX_BLOCKS) {
      for (const block of content as unknown[]) {
        if (!isRecord(block)) continue;
        blocks += lengthOf(block['content']);
        if (isRecord(block['source'])) blocks += lengthOf(block['source']['content']);
      }
    }
    if (blocks > MAX_BLOCKS)
      return apiError(
        'array_too_long',
        `messages may have at most ${MAX_BLOCKS} content blocks in total.`,
        `messages[${index}].content`,
      );
  }
  return null;
}
