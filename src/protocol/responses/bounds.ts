// Length limits checked before schema validation, and the default for an item's `type`. No side effects.
import { apiError, type ApiError } from '../../shared/errors.js';
import { isRecord, overfullMap } from '../entry-limits.js';
import { MAX_LOGIT_BIAS, MAX_METADATA } from '../fields.js';
import { MAX_ITEMS } from './schema.js';

/** Maximum total number of content parts across all items. */
const MAX_PARTS = 100_000;
/** Each reference costs a storage lookup. */
const MAX_REFERENCES = 2_000;

/** Returns an error for the first list or map that is longer than any valid request may have, or null. */
export function overlong(body: unknown): ApiError | null {
  if (!isRecord(body)) return null;
  const overfull = overfullMap(body, { logit_bias: MAX_LOGIT_BIAS, metadata: MAX_METADATA });
  if (overfull !== null) return overfull;
  const { input } = body;
  if (!Array.isArray(input)) return null;
  if (input.length > MAX_ITEMS)
    return apiError('array_too_long', `input may have at most ${MAX_ITEMS} entries.`, 'input');
  let parts = 0;
  let references = 0;
  for (const [index, item] of (input as unknown[]).entries()) {
    if (!isRecord(item)) continue;
    if (typeOf(item) === 'item_reference' && ++references > MAX_REFERENCES) {
      return apiError('array_too_long', `input may have at most ${MAX_REFERENCES} item references.`, 'input');
    }
    for (const name of ['content', 'output', 'summary', 'tools']) {
      const list = item[name];
      if (!Array.isArray(list)) continue;
      parts += list.length;
      if (parts > MAX_PARTS)
        return apiError(
          'array_too_long',
          `input may have at most ${MAX_PARTS} content parts in total.`,
          `input[${index}].${name}`,
        );
    }
  }
  return null;
}

/**
 * Returns the item with its `type`. If the type is absent, an item with a role is a message, and an item with an ID is
 * a reference.
 */
export function withType(item: unknown): unknown {
  if (!isRecord(item) || (item['type'] ?? null) !== null) return item;
  const type = typeOf(item);
  return type === null ? item : { ...item, type };
}

function typeOf({ type, role, id }: Record<string, unknown>): unknown {
  return type ?? (role != null ? 'message' : id != null ? 'item_reference' : null);
}
