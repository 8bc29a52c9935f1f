// Reads stored responses. Each method is a single statement, or reads only data that cannot be erased in the meantime.
// Event-loop thread only.

import { MAX_CHAIN, MAX_CHAIN_SIZE, chainTooDeep, chainTooLong } from '../../response-size.js';
import type { ChainedResponse, ResponseHead, ResponsePage, StoredItem, StoredResponse } from '../../response-store.js';
import type { StoredEvent } from '../../../shared/stored-event.js';
import { StorageError } from '../../store.js';
import type { Database, Queryable } from '../database.js';
import { HEAD, STORED, headOf, rowsOf, storedOf } from './response-rows.js';
import type { HeadRow, ImageRow, StoredRow } from './response-rows.js';
import type { ItemRow, Place } from '../../response-parts.js';

/** SQL condition for access. $3: responses created at or before this time are past their retention. */
const READABLE = 'id = $1 AND organization = $2 AND NOT dead AND created_at > $3::float8';

const GET_HEAD = `SELECT ${HEAD} FROM responses WHERE ${READABLE}`;
const GET_SIZE = `SELECT chain_size FROM responses WHERE ${READABLE}`;
const GET = `SELECT ${STORED} FROM responses WHERE ${READABLE}`;

// The statement that finds the response also commits the hold. Erasure cannot happen in between, because it also locks
// the row. Commits of holds do not wait for the disk, so the most recent holds may be lost if the database's machine
// crashes.
const CHAIN = `WITH RECURSIVE anchor AS MATERIALIZED (
    SELECT id, previous_id, organization, depth, chain_size FROM responses WHERE ${READABLE} FOR KEY SHARE
  ), held AS (
    INSERT INTO response_holds (response_id, process) SELECT id, $4 FROM anchor WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
    ON CONFLICT (response_id, process) DO NOTHING
  ), ancestors (id, previous_id, organization, n) AS (
    SELECT id, previous_id, organization, 1 FROM anchor WHERE depth <= ${MAX_CHAIN} AND chain_size <= ${MAX_CHAIN_SIZE}
    UNION ALL
    SELECT r.id, r.previous_id, r.organization, l.n + 1 FROM ancestors l JOIN responses r ON r.id = l.previous_id AND r.organization = l.organization WHERE l.n < ${MAX_CHAIN}
  )
  SELECT a.depth, a.chain_size, c.* FROM anchor a LEFT JOIN (
    SELECT l.n, r.id, r.organization, r.model, r.created_at, r.status, r.background, r.previous_id, r.output, r.images,
      ARRAY(SELECT i.rows FROM response_inputs i WHERE i.response_id = r.id ORDER BY i.first) AS inputs
    FROM ancestors l JOIN responses r ON r.id = l.id
  ) c ON true ORDER BY c.n DESC`;

interface ChainRow extends HeadRow {
  depth: number;
  chain_size: number;
  n: number | null;
  output: string;
  images: number;
  inputs: string[];
}

const IMAGES_OF =
  'SELECT response_id, place, item, image, bytes FROM response_images WHERE response_id = ANY($1::text[]) ORDER BY response_id, place, item, image';
const IMAGES_AT = `SELECT i.response_id, i.place, i.item, i.image, i.bytes FROM unnest($1::text[], $2::text[], $3::int[]) AS u (response_id, place, item)
  JOIN response_images i ON i.response_id = u.response_id AND i.place = u.place AND i.item = u.item ORDER BY i.response_id, i.place, i.item, i.image`;

const LIST = `SELECT id, model, status, background, created_at, made_at, preview FROM responses
  WHERE organization = $1 AND NOT dead AND created_at > $2::float8 AND (made_at, id) < ($3::float8, $4::text) ORDER BY made_at DESC, id DESC LIMIT $5`;

const HAS_LOG = 'id = $1 AND background AND NOT dead AND (log_until IS NULL OR log_until > $2::float8)';
const EVENTS = `SELECT e.events FROM responses r LEFT JOIN response_events e ON e.response_id = r.id
    AND e.first >= coalesce((SELECT max(first) FROM response_events WHERE response_id = $1 AND first <= $3::bigint), 0)
  WHERE r.${HAS_LOG} ORDER BY e.first LIMIT $4`;
const LAST_EVENT = `SELECT e.events FROM responses r JOIN response_events e ON e.response_id = r.id WHERE r.${HAS_LOG} ORDER BY e.first DESC LIMIT 1`;

/** An item found in a response. The bytes of its images may be stored separately. */
export interface FoundRow {
  responseId: string;
  place: Place;
  index: number;
  row: ItemRow;
}

type ImageAt = ImageRow & { response_id: string };

export class ResponseReads {
  constructor(
    private readonly database: Database,
    private readonly now: () => number,
    private readonly retentionS: number,
  ) {}

  /** Responses created at or before this time are past their retention. */
  get expired(): number {
    return this.now() - this.retentionS;
  }

  async head(organizationId: string, id: string): Promise<ResponseHead | null> {
    const [row] = await this.database.query<HeadRow>(GET_HEAD, [id, organizationId, this.expired]);
    return row === undefined ? null : headOf(row);
  }

  async size(organizationId: string, id: string): Promise<number> {
    const [row] = await this.database.query<{ chain_size: number }>(GET_SIZE, [id, organizationId, this.expired]);
    return Number(row?.chain_size ?? 0);
  }

  async get(organizationId: string, id: string): Promise<StoredResponse | null> {
    const [row] = await this.database.query<StoredRow>(GET, [id, organizationId, this.expired]);
    return row === undefined ? null : storedOf(row);
  }

  /**
   * The chain, root first, held for `process` if the response exists. Resolves to null if the response is not readable,
   * and to [] if an ancestor is missing. If it throws ApiError 422, the chain remains held.
   */
  async chain(organizationId: string, id: string, process: string): Promise<ChainedResponse[] | null> {
    const rows = await this.database.query<ChainRow>(CHAIN, [id, organizationId, this.expired, process]);
    const [root] = rows;
    if (root === undefined) return null;
    if (root.depth > MAX_CHAIN) throw chainTooDeep();
    if (root.chain_size > MAX_CHAIN_SIZE) throw chainTooLong();
    if (root.previous_id !== null) return [];
    const pictured = rows.filter(({ images }) => images > 0).map((row) => row.id);
    const images = imagesOf(pictured.length === 0 ? [] : await this.database.query<ImageAt>(IMAGES_OF, [pictured]));
    const items = (row: ChainRow, place: Place, texts: readonly string[]): StoredItem[] =>
      texts.flatMap(rowsOf).map((one, index) => itemOf({ responseId: row.id, place, index, row: one }, images));
    return rows.map((row) => ({
      ...headOf(row),
      input: items(row, 'input', row.inputs),
      output: items(row, 'output', [row.output]),
    }));
  }

  async list(organizationId: string, limit: number, after: string | null): Promise<ResponsePage | null> {
    const [, made, last] = after === null ? [] : (/^(\d{1,12}(?:\.\d{1,6})?)\.(resp_[0-9a-f]{48})$/.exec(after) ?? []);
    if (after !== null && last === undefined) return null;
    const rows = await this.database.query<HeadRow & { made_at: number; preview: string | null }>(LIST, [
      organizationId,
      this.expired,
      last === undefined ? 'Infinity' : Number(made),
      last ?? '',
      limit + 1,
    ]);
    const data = rows.slice(0, limit).map(({ id, model, status, background, created_at: createdAt, preview }) => ({
      id,
      model,
      status,
      background,
      createdAt,
      expiresAt: createdAt + this.retentionS,
      preview,
    }));
    const end = rows[limit - 1];
    return { data, next: rows.length > limit && end !== undefined ? `${end.made_at}.${end.id}` : null };
  }

  async events(
    id: string,
    after: number,
    atLeast: number,
    within: Queryable = this.database,
  ): Promise<StoredEvent[] | null> {
    const rows = await within.query<{ events: string | null }>(EVENTS, [
      id,
      this.now(),
      after + 1,
      Number.isFinite(atLeast) ? atLeast + 1 : null,
    ]);
    if (rows.length === 0) return null;
    const found: StoredEvent[] = [];
    for (const { events } of rows) {
      if (events !== null) found.push(...eventsOf(events).filter(({ sequence }) => sequence > after));
      if (found.length >= atLeast) break;
    }
    return found;
  }

  async lastEvent(id: string, within: Queryable = this.database): Promise<StoredEvent | null> {
    const [row] = await within.query<{ events: string }>(LAST_EVENT, [id, this.now()]);
    return row === undefined ? null : (eventsOf(row.events).at(-1) ?? null);
  }

  /** The items, with their images if `wanted`. */
  async withImages(found: readonly FoundRow[], wanted: boolean): Promise<StoredItem[]> {
    const pictured = wanted ? found.filter(({ row }) => row.images > 0) : [];
    if (pictured.length === 0) return found.map(({ row: { id, item } }) => ({ id, item }));
    const images = imagesOf(
      await this.database.query<ImageAt>(IMAGES_AT, [
        pictured.map(({ responseId }) => responseId),
        pictured.map(({ place }) => place),
        pictured.map(({ index }) => index),
      ]),
    );
    return found.map((one) => itemOf(one, images));
  }
}

function eventsOf(text: string): StoredEvent[] {
  return (JSON.parse(text) as [number, string, string][]).map(([sequence, type, data]) => ({ sequence, type, data }));
}

const placeOf = (responseId: string, place: Place, item: number): string => `${responseId} ${place} ${item}`;

function imagesOf(rows: readonly ImageAt[]): ReadonlyMap<string, Uint8Array[]> {
  const found = new Map<string, Uint8Array[]>();
  for (const { response_id: id, place, item, bytes } of rows) {
    const at = placeOf(id, place, item);
    const list = found.get(at);
    const own = new Uint8Array(bytes);
    if (list === undefined) found.set(at, [own]);
    else list.push(own);
  }
  return found;
}

function itemOf(
  { responseId, place, index, row: { id, item, images: count } }: FoundRow,
  images: ReadonlyMap<string, Uint8Array[]>,
): StoredItem {
  if (count === 0) return { id, item };
  const own = images.get(placeOf(responseId, place, index));
  if (own?.length !== count) throw erased(responseId);
  return { id, item, images: own };
}

const erased = (id: string): StorageError =>
  new StorageError(`The stored response ${id} was erased while it was being read.`);
