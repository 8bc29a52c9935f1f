// Reads single items of stored responses by ID, and pages of the items from which a response was generated. Reads no
// more than the requested page. Event-loop thread only.

import { itemKey } from '../../response-parts.js';
import type { Place } from '../../response-parts.js';
import { MAX_CHAIN, itemSize } from '../../response-size.js';
import type { ItemPage, ItemPageQuery, StoredItem } from '../../response-store.js';
import type { Database } from '../database.js';
import type { FoundRow, ResponseReads } from './response-reads.js';
import { rowsOf } from './response-rows.js';

/** Number of IDs, or of rows, that one statement reads. */
const IDS = 64;
const PAGES = 16;
const RESPONSES = 32;

// If several responses have the item, the newest readable one is used.
const FIND = `SELECT k.item_key, f.response_id, f.place, f.item FROM unnest($1::text[]) AS k (item_key) CROSS JOIN LATERAL (
    SELECT i.response_id, i.place, i.item FROM response_items i JOIN responses r ON r.id = i.response_id AND NOT r.dead AND r.created_at > $3::float8
    WHERE i.organization = $2 AND i.item_key = k.item_key ORDER BY i.created_at DESC, i.response_id DESC LIMIT 1
  ) f`;
const INPUT_PAGES = `SELECT DISTINCT ON (p.response_id, p.first) p.response_id, p.first, p.rows FROM unnest($1::text[], $2::int[]) AS u (response_id, item) CROSS JOIN LATERAL (
    SELECT i.response_id, i.first, i.rows FROM response_inputs i WHERE i.response_id = u.response_id AND i.first <= u.item ORDER BY i.first DESC LIMIT 1
  ) p`;
const OUTPUTS = 'SELECT id, output FROM responses WHERE id = ANY($1::text[])';

const ANCESTORS = `WITH RECURSIVE ancestors (id, previous_id, organization, n) AS (
    SELECT id, previous_id, organization, 1 FROM responses WHERE id = $1 AND organization = $2 AND NOT dead AND created_at > $3::float8
    UNION ALL
    SELECT r.id, r.previous_id, r.organization, l.n + 1 FROM ancestors l JOIN responses r ON r.id = l.previous_id AND r.organization = l.organization WHERE l.n < ${MAX_CHAIN}
  ) SELECT id FROM ancestors ORDER BY n`;
const PLACES = `SELECT response_id, place, item FROM response_items WHERE organization = $1 AND item_key = $2 AND response_id = ANY($3::text[]) AND NOT repeats`;
const PAGES_UP = `SELECT first, rows FROM response_inputs WHERE response_id = $1 AND first >= coalesce((SELECT max(first) FROM response_inputs WHERE response_id = $1 AND first <= $2::int), 0) ORDER BY first LIMIT ${PAGES}`;
const PAGES_DOWN = `SELECT first, rows FROM response_inputs WHERE response_id = $1 AND first <= $2::int ORDER BY first DESC LIMIT ${PAGES}`;
const FIRST_PAGES = `SELECT u.id, i.first, i.rows FROM unnest($1::text[]) AS u (id) CROSS JOIN LATERAL (
    SELECT first, rows FROM response_inputs WHERE response_id = u.id ORDER BY first LIMIT 2) i`;

interface Page {
  first: number;
  rows: string;
}
interface Part {
  id: string;
  place: Place;
}

const LAST = 2 ** 31 - 1;

export class ResponseItems {
  constructor(
    private readonly database: Database,
    private readonly reads: ResponseReads,
  ) {}

  async items(
    organizationId: string,
    ids: Iterable<string>,
    maxSize: number,
  ): Promise<ReadonlyMap<string, StoredItem>> {
    const wanted = [...new Set(ids)];
    const found = new Map<string, StoredItem>();
    let size = 0;
    for (let at = 0; at < wanted.length; at += IDS) {
      const rows = await this.#find(organizationId, wanted.slice(at, at + IDS));
      const taken: FoundRow[] = [];
      let full = false;
      for (const one of rows) {
        taken.push(one);
        if ((full = (size += itemSize(one.row.item)) > maxSize)) break;
      }
      for (const item of await this.reads.withImages(taken, true)) found.set(item.id, item);
      if (full) break;
    }
    return found;
  }

  /** In the order of `ids`. */
  async #find(organizationId: string, ids: readonly string[]): Promise<FoundRow[]> {
    const places = await this.database.query<{ item_key: string; response_id: string; place: Place; item: number }>(
      FIND,
      [[...new Set(ids.map(itemKey))], organizationId, this.reads.expired],
    );
    const byKey = new Map(places.map((place) => [place.item_key, place]));
    const inputs = places.filter(({ place }) => place === 'input');
    const outputs = [...new Set(places.filter(({ place }) => place === 'output').map(({ response_id: id }) => id))];
    const pages =
      inputs.length === 0
        ? []
        : await this.database.query<Page & { response_id: string }>(INPUT_PAGES, [
            inputs.map(({ response_id: id }) => id),
            inputs.map(({ item }) => item),
          ]);
    const shown =
      outputs.length === 0 ? [] : await this.database.query<{ id: string; output: string }>(OUTPUTS, [outputs]);
    const rows = new Map<string, FoundRow>();
    const take = (responseId: string, place: Place, first: number, text: string): void => {
      rowsOf(text).forEach((row, at) =>
        rows.set(`${responseId} ${place} ${first + at}`, { responseId, place, index: first + at, row }),
      );
    };
    for (const { response_id: id, first, rows: text } of pages) take(id, 'input', first, text);
    for (const { id, output } of shown) take(id, 'output', 0, output);
    return ids.flatMap((id) => {
      const at = byKey.get(itemKey(id));
      const row = at === undefined ? undefined : rows.get(`${at.response_id} ${at.place} ${at.item}`);
      return row?.row.id === id ? [row] : [];
    });
  }

  async inputItems(
    organizationId: string,
    id: string,
    { newestFirst, after, limit, images }: ItemPageQuery,
  ): Promise<ItemPage | 'no response' | 'no item'> {
    const ancestors = (
      await this.database.query<{ id: string }>(ANCESTORS, [id, organizationId, this.reads.expired])
    ).map((row) => row.id);
    if (ancestors.length === 0) return 'no response';
    const parts = ancestors.flatMap((one, n): Part[] =>
      n === 0
        ? [{ id: one, place: 'input' }]
        : [
            { id: one, place: 'output' },
            { id: one, place: 'input' },
          ],
    );
    if (!newestFirst) parts.reverse();
    let begin: { part: number; from: number } = { part: 0, from: newestFirst ? LAST : 0 };
    if (after !== null) {
      const places = await this.database.query<{ response_id: string; place: Place; item: number }>(PLACES, [
        organizationId,
        itemKey(after),
        ancestors,
      ]);
      const part = parts.findIndex((one) => places.some((at) => at.response_id === one.id && at.place === one.place));
      const at = places.find((one) => one.response_id === parts[part]?.id && one.place === parts[part]?.place);
      if (at === undefined) return 'no item';
      begin = { part, from: at.item + (newestFirst ? -1 : 1) };
    }
    const found: FoundRow[] = [];
    for await (const row of this.#walk(parts, begin, newestFirst)) if (found.push(row) > limit) break;
    return { items: await this.reads.withImages(found.slice(0, limit), images), more: found.length > limit };
  }

  /** Yields items in order, skipping repetitions of earlier items. */
  async *#walk(
    parts: readonly Part[],
    begin: { part: number; from: number },
    newestFirst: boolean,
  ): AsyncGenerator<FoundRow> {
    // Starts with few parts, because they are usually enough and each may be large.
    for (let at = begin.part, count = 1; at < parts.length; at += count, count = Math.min(RESPONSES, 2 * count)) {
      const some = parts.slice(at, at + count);
      const ids = [...new Set(some.map(({ id }) => id))];
      const outputs = new Map(
        (await this.database.query<{ id: string; output: string }>(OUTPUTS, [ids])).map((row) => [row.id, row.output]),
      );
      const short = await this.#shortInputs(ids);
      for (const [index, { id, place }] of some.entries()) {
        const from = at + index === begin.part ? begin.from : newestFirst ? LAST : 0;
        const text = place === 'output' ? outputs.get(id) : short.get(id);
        if (text !== undefined) yield* rowsFrom(id, { place, first: 0, text, from, newestFirst });
        else if (place === 'input') yield* this.#pages(id, from, newestFirst);
      }
    }
  }

  /** Reads the pages of inputs that consist of a single page. */
  async #shortInputs(ids: readonly string[]): Promise<Map<string, string>> {
    const pages = await this.database.query<Page & { id: string }>(FIRST_PAGES, [ids]);
    const short = new Map(pages.filter(({ first }) => first === 0).map(({ id, rows }) => [id, rows]));
    for (const { id, first } of pages) if (first > 0) short.delete(id);
    return short;
  }

  async *#pages(id: string, from: number, newestFirst: boolean): AsyncGenerator<FoundRow> {
    for (let next = from; next >= 0; ) {
      const pages = await this.database.query<Page>(newestFirst ? PAGES_DOWN : PAGES_UP, [id, next]);
      for (const { first, rows } of pages)
        yield* rowsFrom(id, { place: 'input', first, text: rows, from: next, newestFirst });
      const last = pages.at(-1);
      if (last === undefined || pages.length < PAGES) return;
      next = newestFirst ? last.first - 1 : last.first + rowsOf(last.rows).length;
    }
  }
}

function* rowsFrom(
  responseId: string,
  {
    place,
    first,
    text,
    from,
    newestFirst,
  }: { place: Place; first: number; text: string; from: number; newestFirst: boolean },
): Generator<FoundRow> {
  const rows = rowsOf(text).map((row, at): FoundRow => ({ responseId, place, index: first + at, row }));
  for (const row of newestFirst ? rows.reverse() : rows) {
    if (row.row.repeats !== true && (newestFirst ? row.index <= from : row.index >= from)) yield row;
  }
}
