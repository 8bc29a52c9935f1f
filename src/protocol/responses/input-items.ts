// GET /v1/responses/{id}/input_items: pages through the items from which a response was generated, including its chain.
// Items are listed as stored; only images depend on the query. Event-loop thread only.
import type { ItemPage as StoredPage, StoredItem } from '../../storage/response-store.js';
import { readPageQuery, type PageQuery } from '../page-query.js';
import { HIDDEN } from './items.js';

export interface ItemQuery extends PageQuery {
  /** Whether images are listed with their `image_url`. If false, `image_url` is null. */
  imageUrls: boolean;
}

export interface ItemPage {
  object: 'list';
  data: Readonly<Record<string, unknown>>[];
  first_id: string | null;
  last_id: string | null;
  has_more: boolean;
}

/** Throws ApiError invalid_query_parameter (400), value_out_of_range or invalid_value (422). */
export function readItemQuery(query: URLSearchParams, include: readonly string[]): ItemQuery {
  return {
    ...readPageQuery(query, 'desc'),
    imageUrls: include.includes('message.input_image.image_url'),
  };
}

export function itemPage({ items, more }: StoredPage, imageUrls: boolean): ItemPage {
  return {
    object: 'list',
    data: items.map((item) => shown(item, imageUrls)),
    first_id: items[0]?.id ?? null,
    last_id: items.at(-1)?.id ?? null,
    has_more: more,
  };
}

/** Item members that are lists and may contain images. */
const LISTS = ['content', 'output'] as const;

function shown(stored: StoredItem, imageUrls: boolean): Readonly<Record<string, unknown>> {
  let item: Readonly<Record<string, unknown>> = Object.fromEntries(
    Object.entries(stored.item).filter(([name]) => !HIDDEN.has(name)),
  );
  for (const list of LISTS) {
    const parts = item[list];
    if (!Array.isArray(parts) || !parts.some(isImage)) continue;
    let image = 0;
    item = {
      ...item,
      [list]: parts.map((part: unknown) => {
        if (!isImage(part)) return part;
        const index = image++;
        return {
          ...part,
          detail: part.detail ?? 'auto',
          image_url: imageUrls ? imageUrl(part.image_url, stored, index) : null,
        };
      }),
    };
  }
  return item;
}

interface ImagePart {
  type: 'input_image';
  image_url?: unknown;
  detail?: unknown;
}

function isImage(part: unknown): part is ImagePart {
  return typeof part === 'object' && part !== null && 'type' in part && part.type === 'input_image';
}

/** A data URL's data is stored separately from the item, so it is added back here. */
function imageUrl(url: unknown, { images }: StoredItem, index: number): unknown {
  if (typeof url !== 'string' || !/^data:[^,]*,$/.test(url)) return url ?? null;
  const bytes = images?.[index];
  if (bytes === undefined) return url;
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  return /;base64,$/i.test(url) ? url + base64 : `${url.slice(0, -1)};base64,${base64}`;
}
