// Table layout of stored responses. Data is split into rows by how it is read: access is decided from the small head,
// and the rest is decoded on demand. An item is stored once, with the response that introduced it; continuations refer
// to the previous response.
//
//   responses            id                                  → head
//   response-resources   id                                  → resource without its output, as JSON
//   response-inputs      [id, first item]                    → items, one page of them
//   response-outputs     id                                  → items
//   response-images      [id, place, item, image]            → bytes
//   response-items       [organization, item id, created, id] → [place, item, whether it repeats an earlier one]
//   response-events      [id, first sequence]                → events
//   response-times       [kind, seconds, id]                 → what to do at that time
//   responses-by-organization  [organization, made, id]      → nothing; visible responses only

import type { FinishedUsage } from '../../../shared/usage-sink.js';
import { itemKey } from '../../response-parts.js';
import type { ItemRow, OutputRow, Place } from '../../response-parts.js';
import type { ResponseRecord, ResponseStatus } from '../../response-store.js';
import type { Key, Store, Table } from '../../store.js';

export interface Head {
  organizationId: string;
  model: string;
  createdAt: number;
  madeAt?: number; // with fractional seconds; absent before schema version 6
  status: ResponseStatus;
  background: boolean;
  previousId: string | null;
  depth: number; // number of responses in the chain that ends here
  contextSize?: number; // size of the preceding chain and its own input, see itemSize(); absent before schema version 3
  chainSize?: number; // the same, plus its output
  children: number; // number of stored continuations
  dead: boolean; // deleted or expired: kept only for its descendants
  logUntil: number | null; // end of the event log's retention, in seconds; null: the response has not ended
  preview?: string; // see previewOf(); absent if there is none
  usage?: FinishedUsage; // an unfinished response's usage, according to its log
}

export type ItemEntry = [place: Place, item: number, repeats?: true];

export class ResponseTables {
  readonly heads: Table<Head>;
  /**
   * JSON text, because clients choose the names of members, and a name may be `__proto__`. Before schema version 6, the
   * value was not text.
   */
  readonly resources: Table<string | Record<string, unknown>>;
  readonly inputs: Table<ItemRow[]>;
  readonly outputs: Table<OutputRow>;
  readonly images: Table<Uint8Array>;
  readonly items: Table<ItemEntry>;
  readonly events: Table<[sequence: number, type: string, data: string][]>;
  /**
   * Kinds: `created`: a response that expires after its retention period. `open`: an unfinished background response.
   * `log`: an event log that expires. `erase`: erasing a chain must continue here. `staged`: rows of a save whose head
   * may be missing.
   */
  readonly times: Table<Key[]>; // `staged`: keys of `items`; otherwise []
  readonly byOrganization: Table<[]>;

  constructor(readonly store: Store) {
    this.heads = store.table('responses');
    this.resources = store.table('response-resources');
    this.inputs = store.table('response-inputs');
    this.outputs = store.table('response-outputs');
    this.images = store.table('response-images');
    this.items = store.table('response-items');
    this.events = store.table('response-events');
    this.times = store.table('response-times');
    this.byOrganization = store.table('responses-by-organization');
  }

  /** Returns the resource without its output, or undefined if not found. */
  resource(id: string): Record<string, unknown> | undefined {
    const row = this.resources.get(id);
    return typeof row === 'string' ? (JSON.parse(row) as Record<string, unknown>) : row;
  }

  /** Returns a response's input or output items, or [] if not found. */
  rows(id: string, place: Place): readonly ItemRow[] {
    return (place === 'input' ? this.inputRows(id) : this.outputs.get(id)?.items) ?? [];
  }

  /** Undefined if not found. */
  inputRows(id: string): readonly ItemRow[] | undefined {
    const pages = [...this.inputs.range(ResponseTables.below(id))];
    return pages.length === 0 ? undefined : pages.flatMap(({ value }) => value);
  }

  /** Range of all keys that start with these elements. */
  static below(...start: (string | number)[]): { from: Key; to: Key } {
    return { from: start, to: [...start, AFTER_ALL] };
  }
}

/** Key of a response in its organization's list. */
export const listKey = (
  id: string,
  { organizationId, createdAt, madeAt }: Pick<Head, 'organizationId' | 'createdAt' | 'madeAt'>,
): Key => [organizationId, madeAt ?? createdAt, id];

// Sorts after every number and every string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';

/** Must be called within a transaction. Adds the list by organization to responses of schema version 4. */
export function indexByOrganization(store: Store): void {
  const { heads, byOrganization } = new ResponseTables(store);
  for (const { key, value } of heads.range())
    if (!value.dead) void byOrganization.put([value.organizationId, value.createdAt, key as string], []);
}

/** The data of a response's items that is stored under separate keys. */
export interface ItemParts {
  index: { key: Key; value: ItemEntry }[];
  images: { key: Key; value: Uint8Array }[];
  imageBytes: number;
}

export function itemParts(record: ResponseRecord, places: readonly Place[]): ItemParts {
  const parts: ItemParts = { index: [], images: [], imageBytes: 0 };
  for (const place of places) {
    const indexed = new Set<string>(); // an ID that occurs twice is indexed at its first position
    record[place].forEach(({ id, images = [], repeats = false }, item) => {
      if (!indexed.has(id))
        parts.index.push({
          key: [record.organizationId, itemKey(id), record.createdAt, record.id],
          value: repeats ? [place, item, true] : [place, item],
        });
      indexed.add(id);
      images.forEach((value, image) => {
        parts.images.push({ key: [record.id, place, item, image], value });
        parts.imageBytes += value.length;
      });
    });
  }
  return parts;
}
