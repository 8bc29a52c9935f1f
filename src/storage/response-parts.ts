// Splits a stored response's items into pages and indexes them by lookup key, for every type of database. No side
// effects.

import { createHash } from 'node:crypto';
import { itemSize } from './response-size.js';
import type { ResponseRecord, StoredItem } from './response-store.js';

export interface ItemRow {
  id: string;
  item: Readonly<Record<string, unknown>>;
  images: number;
  /** See StoredItem. */
  repeats?: true;
}
export interface OutputRow {
  items: ItemRow[];
  /** The resource's output, if it differs from the items. */
  shown: unknown[] | null;
}

export type Place = 'input' | 'output';

const PAGE_ITEMS = 32;
/** Maximum size of a page, as measured by itemSize(). A larger item gets its own page. */
const PAGE_SIZE = 8_192;

export interface ItemPage {
  first: number;
  rows: ItemRow[];
}

/** Returns the pages of an input: at least one, so that an empty input is also stored. */
export function pages(rows: readonly ItemRow[]): ItemPage[] {
  let page: ItemPage = { first: 0, rows: [] };
  const all = [page];
  let size = 0;
  for (const [index, row] of rows.entries()) {
    const own = itemSize(row.item);
    if (page.rows.length > 0 && (page.rows.length === PAGE_ITEMS || size + own > PAGE_SIZE)) {
      page = { first: index, rows: [] };
      all.push(page);
      size = 0;
    }
    page.rows.push(row);
    size += own;
  }
  return all;
}

const PLAIN_ITEM_ID = /^[\w.:-]{1,128}$/;

/** Lookup key for an item ID. Clients choose these IDs, so unusual or long ones are hashed. */
export const itemKey = (itemId: string): string =>
  PLAIN_ITEM_ID.test(itemId) ? itemId : `#${createHash('sha256').update(itemId, 'utf8').digest('hex')}`;

/** The size of rows that counts toward the chain limit. */
export const sizeOf = (rows: readonly Pick<ItemRow, 'item'>[]): number =>
  rows.reduce((size, { item }) => size + itemSize(item), 0);

export const itemRows = (items: readonly StoredItem[]): ItemRow[] =>
  items.map(({ id, item, images = [], repeats = false }) => ({
    id,
    item: images.length === 0 ? item : withoutImageData(item),
    images: images.length,
    ...(repeats ? { repeats } : {}),
  }));

/** Stores the resource's output only if it differs from the items. */
export function outputRow(record: ResponseRecord): OutputRow {
  const { output } = record.resource;
  const shown = Array.isArray(output) ? (output as unknown[]) : [];
  const same = shown.length === record.output.length && record.output.every(({ item }, index) => shown[index] === item);
  return { items: itemRows(record.output), shown: same ? null : shown };
}

/** The properties of an item that may contain image parts. */
const IMAGE_LISTS = ['content', 'output'] as const;

/** Removes the data from image data URLs, because the bytes are stored separately. */
function withoutImageData(item: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...item };
  for (const list of IMAGE_LISTS) {
    const parts = item[list];
    if (!Array.isArray(parts)) continue;
    copy[list] = parts.map((part: unknown) => {
      if (typeof part !== 'object' || part === null || !('image_url' in part) || typeof part.image_url !== 'string')
        return part;
      const comma = part.image_url.startsWith('data:') ? part.image_url.indexOf(',') : -1;
      return comma < 0 ? part : { ...part, image_url: part.image_url.slice(0, comma + 1) };
    });
  }
  return copy;
}

const PREVIEW_LENGTH = 120;
/** A prompt may be long, and only its first words are needed. */
const PREVIEW_READ = 2_000;

/** The first words of the newest user message; null if there are none. */
export function previewOf(input: readonly StoredItem[]): string | null {
  for (let at = input.length - 1; at >= 0; at--) {
    const { item } = input[at] as StoredItem;
    if (item['role'] !== 'user') continue;
    const text = firstText(item['content'])
      .slice(0, PREVIEW_READ)
      .replace(/[\s\p{Cc}]+/gu, ' ')
      .trim();
    if (text === '') continue;
    return text.length <= PREVIEW_LENGTH ? text : `${text.slice(0, PREVIEW_LENGTH).replace(/[\uD800-\uDBFF]$/, '')}…`;
  }
  return null;
}

function firstText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  for (const part of content as unknown[]) {
    const { text } = Object(part) as { text?: unknown };
    if (typeof text === 'string' && text.trim() !== '') return text;
  }
  return '';
}
