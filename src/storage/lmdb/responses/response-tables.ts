// How stored responses lie in the tables. Rows of one response are apart by what reads them: the small head
// decides who may see what, the rest is decoded when asked for. An item is stored once, with the response
// that brought it; continuations refer to the response before.
//
//   responses            id                                  → head
//   response-resources   id                                  → resource without its output, as JSON
//   response-inputs      [id, first item]                    → items, a page of them
//   response-outputs     id                                  → items
//   response-images      [id, place, item, image]            → bytes
//   response-items       [organization, item id, created, id] → [place, item, whether it repeats an earlier one]
//   response-events      [id, first sequence]                → events
//   response-times       [kind, seconds, id]                 → what has to be done when
//   responses-by-organization  [organization, made, id]      → nothing; those that can be seen

import type { FinishedUsage } from '../../../shared/usage-sink.js';
import { itemKey } from '../../response-parts.js';
import type { ItemRow, OutputRow, Place } from '../../response-parts.js';
import type { ResponseRecord, ResponseStatus } from '../../response-store.js';
import type { Key, Store, Table } from '../../store.js';

export interface Head {
  organizationId: string;
  model: string;
  createdAt: number;
  madeAt?: number; // with the part of the second; absent before schema version 6
  status: ResponseStatus;
  background: boolean;
  previousId: string | null;
  depth: number; // responses of the chain that ends here
  contextSize?: number; // of what came before and its input, see itemSize(); absent before schema version 3
  chainSize?: number; // the same with its output
  children: number; // stored continuations
  dead: boolean; // deleted, or found expired: there for its descendants only
  logUntil: number | null; // end of the event log, in seconds; null: not ended
  usage?: FinishedUsage; // of an unfinished one, as far as its log goes
}

export type ItemEntry = [place: Place, item: number, repeats?: true];

export class ResponseTables {
  readonly heads: Table<Head>;
  /** JSON: names in it are the client's, `__proto__` among them. Not text before schema version 6. */
  readonly resources: Table<string | Record<string, unknown>>;
  readonly inputs: Table<ItemRow[]>;
  readonly outputs: Table<OutputRow>;
  readonly images: Table<Uint8Array>;
  readonly items: Table<ItemEntry>;
  readonly events: Table<[sequence: number, type: string, data: string][]>;
  /**
   * Kinds: `created`: swept when past its retention. `open`: an unfinished background response. `log`: its event log ends.
   * `erase`: the erasure of a chain has to go on here. `staged`: rows of a save whose head may never have come.
   */
  readonly times: Table<Key[]>; // `staged`: keys of `items`; else []
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

  /** Without its output; undefined if it is not there. */
  resource(id: string): Record<string, unknown> | undefined {
    const row = this.resources.get(id);
    return typeof row === 'string' ? (JSON.parse(row) as Record<string, unknown>) : row;
  }

  /** The items of a response at one place; [] if they are not there. */
  rows(id: string, place: Place): readonly ItemRow[] {
    return (place === 'input' ? this.inputRows(id) : this.outputs.get(id)?.items) ?? [];
  }

  /** Undefined if they are not there. */
  inputRows(id: string): readonly ItemRow[] | undefined {
    const pages = [...this.inputs.range(ResponseTables.below(id))];
    return pages.length === 0 ? undefined : pages.flatMap(({ value }) => value);
  }

  /** Everything below a key that is an array's beginning. */
  static below(...start: (string | number)[]): { from: Key; to: Key } {
    return { from: start, to: [...start, AFTER_ALL] };
  }
}

/** Where a response stands in the list of its organization. */
export const listKey = (
  id: string,
  { organizationId, createdAt, madeAt }: Pick<Head, 'organizationId' | 'createdAt' | 'madeAt'>,
): Key => [organizationId, madeAt ?? createdAt, id];

// Sorts after every number and every text that follows in our keys.
const AFTER_ALL = '\u{10ffff}';

/** Within a transaction: responses as schema version 4 had them, without a list per organization. */
export function indexByOrganization(store: Store): void {
  const { heads, byOrganization } = new ResponseTables(store);
  for (const { key, value } of heads.range())
    if (!value.dead) void byOrganization.put([value.organizationId, value.createdAt, key as string], []);
}

/** Rows of one response's items: what has a key of its own beside the list. */
export interface ItemParts {
  index: { key: Key; value: ItemEntry }[];
  images: { key: Key; value: Uint8Array }[];
  imageBytes: number;
}

export function itemParts(record: ResponseRecord, places: readonly Place[]): ItemParts {
  const parts: ItemParts = { index: [], images: [], imageBytes: 0 };
  for (const place of places) {
    const indexed = new Set<string>(); // an id that occurs twice goes by its first place
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
