// How deep the arguments of calls may be nested. Pure.

/** Deeper than anything a tool takes, and what the clients' own parsers of partial JSON stop at. */
export const MAX_CALL_DEPTH = 128;

/** Whether a parsed value has more than so many levels of objects and arrays: writing it as JSON again may take more stack than there is. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  for (const inner of Array.isArray(value) ? (value as unknown[]) : Object.values(value))
    if (isDeeper(inner, levels - 1)) return true;
  return false;
}
