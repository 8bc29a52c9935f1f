// Reads stored items: all input or output items, one page at a time, or individual items. Input is stored in pages, so
// that reading one item of a long response costs no more than reading its page. Event-loop thread only.

import type { StoredItem } from '../../response-store.js';
import { ResponseTables } from './response-tables.js';
import { pages } from '../../response-parts.js';
import type { ItemPage, ItemRow, Place } from '../../response-parts.js';
import { StorageError } from '../../store.js';
import type { Key, Store } from '../../store.js';

/**
 * Must be called within a transaction. Converts the inputs of schema version 2, which had one row per response, to
 * pages.
 */
export function splitInputs(store: Store): void {
  const inputs = store.table<ItemRow[]>('response-inputs');
  for (const id of [...inputs.keys()]) {
    if (typeof id !== 'string') continue;
    const rows = inputs.get(id) ?? [];
    void inputs.remove(id);
    for (const page of pages(rows)) void inputs.put([id, page.first], page.rows);
  }
}

export class ResponseRows {
  constructor(private readonly tables: ResponseTables) {}

  /** Returns all items, including images. Throws StorageError if they have been erased. */
  all(id: string, place: Place): StoredItem[] {
    const rows = place === 'input' ? this.tables.inputRows(id) : this.tables.outputs.get(id)?.items;
    if (rows === undefined) throw erased(id);
    return rows.map((row, index) => this.item(id, place, index, row, true));
  }

  /** Items that do not repeat an earlier one, one at a time, starting at position `from` if given. Reads lazily. */
  *walk(
    id: string,
    place: Place,
    newestFirst: boolean,
    images: boolean,
    from = newestFirst ? Infinity : 0,
  ): Generator<StoredItem> {
    for (const { first, rows } of place === 'input' ? this.#inputPages(id, newestFirst, from) : this.#outputPage(id)) {
      const begin = newestFirst ? Math.min(from - first, rows.length - 1) : Math.max(from - first, 0);
      for (let at = begin; at >= 0 && at < rows.length; at += newestFirst ? -1 : 1) {
        const row = rows[at] as ItemRow;
        if (row.repeats !== true) yield this.item(id, place, first + at, row, images);
      }
    }
  }

  *#inputPages(id: string, newestFirst: boolean, from: number): Generator<ItemPage> {
    const { inputs } = this.tables;
    const { to } = ResponseTables.below(id);
    const range = newestFirst
      ? { from: from === Infinity ? to : [id, from], to: [id], reverse: true }
      : { from: this.pageKey(id, from) ?? [id], to };
    for (const { key, value } of inputs.range(range)) yield { first: (key as [string, number])[1], rows: value };
  }

  *#outputPage(id: string): Generator<ItemPage> {
    yield { first: 0, rows: this.tables.outputs.get(id)?.items ?? [] };
  }

  /** Key of the input page that contains a position. */
  pageKey(id: string, index: number): Key | undefined {
    const [key] = this.tables.inputs.keys({ from: [id, index], to: [id], reverse: true, limit: 1 });
    return key;
  }

  item(
    responseId: string,
    place: Place,
    index: number,
    { id, item, images: count }: ItemRow,
    withImages: boolean,
  ): StoredItem {
    if (count === 0 || !withImages) return { id, item };
    const images = Array.from({ length: count }, (_, image) => {
      const bytes = this.tables.images.get([responseId, place, index, image]);
      if (bytes === undefined) throw erased(responseId);
      return bytes;
    });
    return { id, item, images };
  }
}

export const erased = (id: string): StorageError =>
  new StorageError(`The stored response ${id} was erased while it was being read.`);
