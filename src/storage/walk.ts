// Iterates over a large table in short transactions, so that other work never has to wait long.

import type { Key, KeyRange, Store, Table } from './store.js';

const ROWS = 1_000;

/** `visit` runs within a transaction, once for each entry that existed, and may write. Keys are lists. */
export async function walk<V>(
  store: Store,
  table: Table<V>,
  range: Pick<KeyRange, 'from' | 'to'>,
  visit: (value: V, key: Key) => void,
): Promise<void> {
  for (let from = range.from; ; ) {
    const part: KeyRange = { ...range, limit: ROWS, ...(from === undefined ? {} : { from }) };
    const last: Key | null = await store.transaction(() => {
      const rows = [...table.range(part)];
      for (const { key, value } of rows) visit(value, key);
      return rows.length < ROWS ? null : (rows.at(-1)?.key ?? null);
    });
    if (last === null) return;
    from = [...(last as (string | number)[]), 0]; // continues directly after the last entry
  }
}
