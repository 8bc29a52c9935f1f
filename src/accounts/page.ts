// One page of a list, and the cursor for the next page.

export interface Page<T> {
  data: T[];
  /** Cursor for the next page; null on the last page. */
  next: string | null;
}

/** One page of a list that is already in memory. Null if `after` is not in the list. */
export function pageOf<T>(
  all: readonly T[],
  limit: number,
  after: string | null,
  cursor: (entry: T) => string,
): Page<T> | null {
  const at = after === null ? -1 : all.findIndex((entry) => cursor(entry) === after);
  if (after !== null && at < 0) return null;
  const data = all.slice(at + 1, at + 1 + limit);
  const last = data.at(-1);
  return { data, next: at + 1 + limit < all.length && last !== undefined ? cursor(last) : null };
}
