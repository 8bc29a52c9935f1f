// Limits the nesting depth of tool-call arguments. No side effects.

/** Maximum depth: deeper than any tool needs, and the same as in the clients' partial-JSON parsers. */
export const MAX_CALL_DEPTH = 128;

/**
 * Whether a parsed value has more than `levels` levels of objects and arrays. Serializing such a value again could
 * overflow the stack.
 */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  for (const inner of Array.isArray(value) ? (value as unknown[]) : Object.values(value))
    if (isDeeper(inner, levels - 1)) return true;
  return false;
}
