// Computes the length of a schema as JSON text without writing it, and stops as soon as it is too long. Pure.

export const MAX_SCHEMA_CHARACTERS = 256 * 1024;

/**
 * Returns the approximate length of the shortest JSON text. Stops counting above `limit`. Iterative, so that depth
 * cannot overflow the stack.
 */
export function sizeUpTo(root: unknown, limit: number): number {
  const open: unknown[] = [root];
  let size = 0;
  while (open.length > 0 && size <= limit) {
    const value = open.pop();
    if (typeof value === 'string') size += value.length + 2;
    else if (typeof value !== 'object' || value === null) size += 4;
    else if (Array.isArray(value)) {
      size += 1 + Math.max(1, value.length);
      // Every item has at least one character, so items beyond the limit are not collected either.
      if (size <= limit) for (const item of value) open.push(item);
    } else {
      size += 2;
      for (const key in value) {
        size += key.length + 4;
        if (size > limit) break;
        open.push((value as Record<string, unknown>)[key]);
      }
    }
  }
  return size;
}
