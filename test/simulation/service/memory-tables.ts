// In-memory tables that behave like LMDB: the same key order, values copied through msgpack, and atomic transactions.
// The tables are fast enough for millions of steps. service.test.ts compares them with LMDB by running the same
// histories on both.
import { pack, unpack } from 'msgpackr';
import type { Key, KeyRange, Table, TableName } from '../../../src/storage/store.js';

/** A simulated disk's contents. */
export interface Backing {
  table<V>(name: TableName): Table<V>;
  /**
   * Runs each function as its own transaction, in order; all are committed when the promise resolves. A function that
   * throws is rolled back, and its result contains the error as `error`.
   */
  commit(works: readonly (() => unknown)[]): Promise<{ result: unknown; error: unknown }[]>;
  close(): Promise<void>;
}

interface Row {
  readonly order: string;
  readonly key: Key;
  value: Buffer;
}

const DONE = Promise.resolve();
const bits = new DataView(new ArrayBuffer(8));

function numberOrder(value: number): string {
  bits.setFloat64(0, value);
  const high = bits.getUint32(0),
    low = bits.getUint32(4);
  const negative = high >= 0x8000_0000;
  return [negative ? ~high >>> 0 : (high | 0x8000_0000) >>> 0, negative ? ~low >>> 0 : low]
    .map((word) => word.toString(16).padStart(8, '0'))
    .join('');
}

/** Encodes a key as a string that sorts as the key does in LMDB: numbers before strings, compared part by part. */
const orderOf = (key: Key): string =>
  (typeof key === 'string' ? [key] : key)
    .map((part) => (typeof part === 'number' ? `1${numberOrder(part)}` : `2${part}`))
    .join('\0');

export class MemoryTables implements Backing {
  readonly #rows = new Map<TableName, Row[]>();
  #undo: (() => void)[] = [];

  table<V>(name: TableName): Table<V> {
    let rows = this.#rows.get(name);
    if (rows === undefined) this.#rows.set(name, (rows = []));
    return new MemoryTable<V>(rows, (undo) => {
      this.#undo.push(undo);
    });
  }

  async commit(works: readonly (() => unknown)[]): Promise<{ result: unknown; error: unknown }[]> {
    return works.map((work) => {
      this.#undo = [];
      try {
        return { result: work(), error: null };
      } catch (error) {
        for (const undo of this.#undo.reverse()) undo();
        return { result: null, error };
      }
    });
  }

  close(): Promise<void> {
    return DONE;
  }
}

class MemoryTable<V> implements Table<V> {
  constructor(
    private readonly rows: Row[],
    private readonly noteUndo: (undo: () => void) => void,
  ) {}

  get(key: Key): V | undefined {
    const order = orderOf(key),
      row = this.rows[this.#place(order)];
    return row?.order === order ? (unpack(row.value) as V) : undefined;
  }

  *range(options: KeyRange = {}): Iterable<{ key: Key; value: V }> {
    for (const { key, value } of this.#between(options)) yield { key, value: unpack(value) as V };
  }

  *keys(options: KeyRange = {}): Iterable<Key> {
    for (const { key } of this.#between(options)) yield key;
  }

  put(key: Key, value: V): Promise<void> {
    this.#set(orderOf(key), key, pack(value));
    return DONE;
  }

  async insert(key: Key, value: V): Promise<boolean> {
    if (this.get(key) !== undefined) return false;
    await this.put(key, value);
    return true;
  }

  remove(key: Key): Promise<void> {
    this.#set(orderOf(key), key, null);
    return DONE;
  }

  /** Returns the index of the first row whose key is at least `order`. */
  #place(order: string): number {
    let from = 0,
      to = this.rows.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.rows[middle] as Row).order < order) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** Returns a snapshot of the rows in the range. */
  #between({ from, to, limit = Infinity, reverse = false }: KeyRange): Row[] {
    const [low, high] = reverse ? [to, from] : [from, to];
    let begin = low === undefined ? 0 : this.#place(orderOf(low));
    let end = high === undefined ? this.rows.length : this.#place(orderOf(high));
    if (reverse) {
      // Descending: `from` is inclusive, `to` exclusive.
      if (low !== undefined && this.rows[begin]?.order === orderOf(low)) begin++;
      if (high !== undefined && this.rows[end]?.order === orderOf(high)) end++;
      return this.rows.slice(Math.max(begin, end - limit), end).reverse();
    }
    return this.rows.slice(begin, Math.min(end, begin + limit));
  }

  #set(order: string, key: Key, value: Buffer | null): void {
    const { rows } = this,
      place = this.#place(order),
      row = rows[place];
    if (row?.order === order) {
      const { value: before } = row;
      if (value === null) {
        rows.splice(place, 1);
        this.noteUndo(() => this.#set(order, key, before));
      } else {
        row.value = value;
        this.noteUndo(() => {
          row.value = before;
        });
      }
    } else if (value !== null) {
      rows.splice(place, 0, { order, key: Array.isArray(key) ? [...key] : key, value });
      this.noteUndo(() => this.#set(order, key, null));
    }
  }
}
