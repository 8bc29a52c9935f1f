// Looks up items by ID for one request, which may contain thousands of item IDs: the same ID repeatedly, or many IDs
// from one response. Each ID is looked up only once, and the data read for it is reused for adjacent items.

import type { ResponseRows } from './response-rows.js';
import { itemKey } from '../../response-parts.js';
import type { ItemPage, ItemRow, Place } from '../../response-parts.js';
import type { StoredItem } from '../../response-store.js';
import type { ResponseTables } from './response-tables.js';

/** Maximum number of responses with the same item ID that are searched for a readable one. */
const SAME_ITEM_MAX = 256;
/** Maximum number of unreadable responses skipped, in total across all lookups. */
const PASSED_MAX = 8_192;

export class ItemReader {
  readonly #found = new Map<string, StoredItem | null>();
  readonly #pages = new Map<string, ItemPage>();
  #passed = 0;

  constructor(
    private readonly tables: ResponseTables,
    private readonly rows: ResponseRows,
    private readonly organizationId: string,
    private readonly isReadable: (responseId: string) => boolean,
  ) {}

  /** Returns null if no readable response contains the item. If several responses contain it, the newest is used. */
  read(itemId: string): StoredItem | null {
    let found = this.#found.get(itemId);
    if (found === undefined) this.#found.set(itemId, (found = this.#find(itemId)));
    return found;
  }

  #find(itemId: string): StoredItem | null {
    const key = itemKey(itemId);
    const entries = this.tables.items.range({
      from: [this.organizationId, key, Number.MAX_SAFE_INTEGER],
      to: [this.organizationId, key],
      reverse: true,
      limit: SAME_ITEM_MAX,
    });
    for (const {
      key,
      value: [place, index],
    } of entries) {
      const id = (key as [string, string, number, string])[3];
      if (this.isReadable(id)) {
        const row = this.#row(id, place, index);
        if (row?.id === itemId) return this.rows.item(id, place, index, row, true);
      }
      if (++this.#passed >= PASSED_MAX) break;
    }
    return null;
  }

  #row(id: string, place: Place, index: number): ItemRow | undefined {
    const key = place === 'output' ? undefined : this.rows.pageKey(id, index);
    const name = String(key ?? id);
    let page = this.#pages.get(name);
    if (page === undefined) {
      const rows = key === undefined ? this.tables.outputs.get(id)?.items : this.tables.inputs.get(key);
      this.#pages.set(name, (page = { first: key === undefined ? 0 : (key as [string, number])[1], rows: rows ?? [] }));
    }
    return page.rows[index - page.first];
  }
}
