// Converts stored responses to and from table rows. Data is split into rows by how it is read: `responses` contains the
// access fields, resource and output; input is stored in pages, so that reading one item costs no more than reading its
// page; an item is stored once, with the response that introduced it. No side effects.
//
//   responses         one row per response                   response_items    where an item is, by its id
//   response_inputs   pages of its own input                 response_events   its log, several events per row
//   response_images   bytes                                  response_holds    which processes hold it

import { itemKey, itemRows, outputRow, pages, sizeOf } from '../../response-parts.js';
import type { ItemRow, Place } from '../../response-parts.js';
import { LOG_S } from '../../response-size.js';
import { isUnfinished } from '../../response-store.js';
import type { ResponseHead, ResponseRecord, ResponseStatus, StoredResponse } from '../../response-store.js';

export const HEAD = 'id, organization, model, created_at, status, background, previous_id';

export interface HeadRow {
  id: string;
  organization: string;
  model: string;
  created_at: number;
  status: ResponseStatus;
  background: boolean;
  previous_id: string | null;
}

export const headOf = ({
  id,
  organization,
  model,
  created_at: createdAt,
  status,
  background,
  previous_id: previousId,
}: HeadRow): ResponseHead => ({ id, organizationId: organization, model, createdAt, status, background, previousId });

export interface StoredRow extends HeadRow {
  resource: string;
  output: string;
  shown: string | null;
}

export const STORED = `${HEAD}, resource, output, shown`;

export function storedOf(row: StoredRow): StoredResponse {
  const resource = JSON.parse(row.resource) as Record<string, unknown>;
  resource['output'] = row.shown === null ? rowsOf(row.output).map(({ item }) => item) : JSON.parse(row.shown);
  return { ...headOf(row), resource };
}

export const rowsOf = (text: string): ItemRow[] => JSON.parse(text) as ItemRow[];

export interface ImageRow {
  place: Place;
  item: number;
  image: number;
  bytes: Uint8Array;
}

/** A save's values, as statement parameters. */
export interface Written {
  record: ResponseRecord;
  /** Null while the response is unfinished. */
  logUntil: number | null;
  inputSize: number;
  outputSize: number;
  pages: { first: number[]; rows: string[] };
  output: string;
  shown: string | null;
  resource: string;
}

export function writtenOf(record: ResponseRecord, now: number): Written {
  const input = itemRows(record.input);
  const { items, shown } = outputRow(record);
  const inputPages = pages(input);
  return {
    record,
    logUntil: record.background && !isUnfinished(record.status) ? Math.ceil(now) + LOG_S : null,
    inputSize: sizeOf(input),
    outputSize: sizeOf(items),
    pages: { first: inputPages.map(({ first }) => first), rows: inputPages.map(({ rows }) => JSON.stringify(rows)) },
    output: JSON.stringify(items),
    shown: shown === null ? null : JSON.stringify(shown),
    resource: JSON.stringify({ ...record.resource, output: null }),
  };
}

/** Columns for lookup by item ID, and for images. */
export interface Indexed {
  keys: string[];
  places: Place[];
  items: number[];
  repeats: boolean[];
  images: ImageRow[];
}

export function indexed(record: ResponseRecord, places: readonly Place[]): Indexed {
  const found: Indexed = { keys: [], places: [], items: [], repeats: [], images: [] };
  const seen = new Set<string>(); // an ID that occurs twice is indexed at its first position
  for (const place of places) {
    record[place].forEach(({ id, images = [], repeats = false }, item) => {
      images.forEach((bytes, image) => found.images.push({ place, item, image, bytes }));
      const key = itemKey(id);
      if (seen.has(key)) return;
      seen.add(key);
      found.keys.push(key);
      found.places.push(place);
      found.items.push(item);
      found.repeats.push(repeats);
    });
  }
  return found;
}
