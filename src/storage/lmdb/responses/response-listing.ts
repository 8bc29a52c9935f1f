// Lists the items from which a response was generated: its chain's input and output, and its own input. Reads no
// further than needed, so that a page of a long chain costs no more than any other page. An item that a client has sent
// again is listed only at its first position; the repetition was marked when it was stored. Event-loop thread only.

import type { ResponseRows } from './response-rows.js';
import type { ItemPageQuery, StoredItem } from '../../response-store.js';
import { itemKey } from '../../response-parts.js';
import type { Place } from '../../response-parts.js';
import type { Head, ResponseTables } from './response-tables.js';

/** A response in a chain, with its ID. */
export type Link = readonly [id: string, head: Head];

/** `ancestors`: the response and its ancestors, newest first. Null if `after` is not one of their items. */
export function listing(
  tables: ResponseTables,
  rows: ResponseRows,
  ancestors: Iterable<Link>,
  { newestFirst, after, images }: Omit<ItemPageQuery, 'limit'>,
): Iterable<StoredItem> | null {
  const places = (newestFirst ? youngestFirst(ancestors) : [...youngestFirst(ancestors)].reverse())[Symbol.iterator]();
  if (after === null) return itemsOf(rows, places, newestFirst, images, null);
  for (let next = places.next(); next.done !== true; next = places.next()) {
    const { id, head, place } = next.value;
    const at = tables.items.get([head.organizationId, itemKey(after), head.createdAt, id]);
    if (at === undefined || at[0] !== place || at[2] === true) continue;
    return itemsOf(rows, places, newestFirst, images, { id, place, from: at[1] + (newestFirst ? -1 : 1) });
  }
  return null;
}

interface Part {
  id: string;
  head: Head;
  place: Place;
}

function* youngestFirst(ancestors: Iterable<Link>): Generator<Part> {
  let own = true;
  for (const [id, head] of ancestors) {
    if (!own) yield { id, head, place: 'output' };
    yield { id, head, place: 'input' };
    own = false;
  }
}

function* itemsOf(
  rows: ResponseRows,
  rest: Iterator<Part>,
  newestFirst: boolean,
  images: boolean,
  begin: { id: string; place: Place; from: number } | null,
): Generator<StoredItem> {
  if (begin !== null) yield* rows.walk(begin.id, begin.place, newestFirst, images, begin.from);
  for (let next = rest.next(); next.done !== true; next = rest.next())
    yield* rows.walk(next.value.id, next.value.place, newestFirst, images);
}
