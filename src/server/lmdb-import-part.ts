// Converts one of a data directory's tables to rows of a table in the shared database.

import type { Key, Store, TableName } from '../storage/store.js';
import { column } from './postgres-import-parts.js';
import type { Column, Part } from './postgres-import-parts.js';

export type Field = string | number | boolean | null | undefined | Uint8Array;

const text = (value: Field): string | null =>
  value == null ? null : value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : String(value);
export const json = (value: unknown): string => JSON.stringify(value);
export const ms = (date: string | null | undefined): number | null => (date == null ? null : Date.parse(date));
/** Returns the columns of a list of `name` or `name:type`. The default type is text. */
export const columns = (words: string): Column[] =>
  words
    .trim()
    .split(/\s+/)
    .map((word) => {
      const [name = '', type = 'text'] = word.split(':');
      return column(name, type === 'double' ? 'double precision' : type);
    });

/**
 * Converts the entries of one table to rows, one row per entry. `row` returns null for entries that are not converted.
 */
export function part<V>(
  store: Store,
  {
    from,
    table,
    all,
    row,
    more = {},
  }: {
    from: TableName;
    table: string;
    all: readonly Column[];
    row: (value: V, key: Key) => Field[] | null;
    more?: { name?: string; where?: string; readRows?: number } | undefined;
  },
): Part {
  return {
    name: more.name ?? from,
    table,
    columns: all,
    ...(more.where === undefined ? {} : { where: more.where }),
    ...(more.readRows === undefined ? {} : { readRows: more.readRows }),
    *rows() {
      for (const { key, value } of store.table<V>(from).range()) {
        const fields = row(value, key);
        if (fields !== null) yield fields.map(text);
      }
    },
  };
}
