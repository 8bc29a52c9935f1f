// A part of a list, and how it goes on.

export interface Slice<T> {
  data: T[];
  /** What to ask for next; null at the end. */
  next: string | null;
}

/** A part of a list that is at hand whole. Null if `after` names none of it. */
export function sliceOf<T>(
  all: readonly T[],
  limit: number,
  after: string | null,
  cursor: (entry: T) => string,
): Slice<T> | null {
  const at = after === null ? -1 : all.findIndex((entry) => cursor(entry) === after);
  if (after !== null && at < 0) return null;
  const data = all.slice(at + 1, at + 1 + limit);
  const last = data.at(-1);
  return { data, next: at + 1 + limit < all.length && last !== undefined ? cursor(last) : null };
}
