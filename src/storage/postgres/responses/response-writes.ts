// Saves responses and their logs. A save is a single statement, so it is atomic. A save with large images is a
// transaction that writes them in small steps. While it runs, the response that it continues is locked against erasure.
// Event-loop thread only.

import { previewOf } from '../../response-parts.js';
import type { ResponseRecord } from '../../response-store.js';
import type { StoredEvent } from '../../../shared/stored-event.js';
import type { FinishedUsage } from '../../../shared/usage-sink.js';
import type { Database, Queryable, Value } from '../database.js';
import { indexed, writtenOf } from './response-rows.js';
import type { ImageRow, Indexed, Written } from './response-rows.js';

/** Images of more than this many bytes in total are written in separate statements of about this size. */
const IMAGE_BYTES = 8 * 1024 ** 2;

/** Appended after `made`: inserts the rows for items and images of the response being written. Parameters $1 to $8. */
const PARTS = `items AS (
    INSERT INTO response_items (organization, item_key, created_at, response_id, place, item, repeats)
    SELECT made.organization, u.item_key, made.created_at, made.id, u.place, u.item, u.repeats
    FROM made, unnest($1::text[], $2::text[], $3::int[], $4::boolean[]) AS u (item_key, place, item, repeats)
    ON CONFLICT (organization, item_key, created_at, response_id) DO UPDATE SET place = excluded.place, item = excluded.item, repeats = excluded.repeats
  ), pictures AS (
    INSERT INTO response_images (response_id, place, item, image, bytes)
    SELECT made.id, u.place, u.item, u.image, u.bytes FROM made, unnest($5::text[], $6::int[], $7::int[], $8::bytea[]) AS u (place, item, image, bytes)
    ON CONFLICT (response_id, place, item, image) DO UPDATE SET bytes = excluded.bytes
  ) SELECT made.id FROM made`;

// A background response is first saved as queued, so if it is missing later, it has been deleted in the meantime.
const INSERT = `WITH parent AS (
    SELECT depth, chain_size FROM responses WHERE id = $15 AND organization = $10 FOR KEY SHARE
  ), made AS (
    INSERT INTO responses (id, organization, model, created_at, made_at, status, background, previous_id, depth, context_size, chain_size, log_until, owner, resource, output, shown, images, preview)
    SELECT $9, $10, $11, $12::bigint, $13::float8, $14, $16::boolean, $15, coalesce((SELECT depth FROM parent), 0) + 1,
      $17::bigint + coalesce((SELECT chain_size FROM parent), 0), $17::bigint + coalesce((SELECT chain_size FROM parent), 0) + $18::bigint,
      $19::bigint, CASE WHEN $16::boolean THEN $20 END, $21, $22, $23, $24::int, $27
    ON CONFLICT (id) DO NOTHING RETURNING id, organization, created_at
  ), inputs AS (
    INSERT INTO response_inputs (response_id, first, rows) SELECT made.id, u.first, u.rows FROM made, unnest($25::int[], $26::text[]) AS u (first, rows)
  ), ${PARTS}`;

// If another process has ended a background response, its result is kept, because an end state is final.
const UPDATE = `WITH made AS (
    UPDATE responses SET model = $11, status = $12, chain_size = context_size + $13::bigint, log_until = $14::bigint, resource = $15, output = $16, shown = $17,
      images = greatest(images, $18::int), usage = CASE WHEN $12 IN ('queued', 'in_progress') THEN usage END
    WHERE id = $9 AND organization = $10 AND NOT dead AND (NOT background OR (owner = $19 AND status IN ('queued', 'in_progress')))
    RETURNING id, organization, created_at
  ), ${PARTS}`;

const MORE_IMAGES = `INSERT INTO response_images (response_id, place, item, image, bytes)
  SELECT $1, u.place, u.item, u.image, u.bytes FROM unnest($2::text[], $3::int[], $4::int[], $5::bytea[]) AS u (place, item, image, bytes)
  ON CONFLICT (response_id, place, item, image) DO UPDATE SET bytes = excluded.bytes`;

// Locks the row first, so that a log does not grow after its response is deleted. If a write was not confirmed, its
// events are written again together with newer events.
const APPEND = `WITH grown AS (
    UPDATE responses SET usage = CASE WHEN $4::text IS NOT NULL AND status IN ('queued', 'in_progress') THEN $4 ELSE usage END
    WHERE id = $1 AND background AND NOT dead AND owner = $5 RETURNING id
  ) INSERT INTO response_events (response_id, first, events) SELECT id, $2::bigint, $3 FROM grown ON CONFLICT (response_id, first) DO UPDATE SET events = excluded.events`;

export class ResponseWrites {
  readonly #saving = new Map<string, Promise<unknown>>();

  constructor(
    private readonly database: Database,
    private readonly process: string,
    private readonly now: () => number,
  ) {}

  /** Saves of a response and of the responses that it continues are written in the order of the calls. */
  async save(record: ResponseRecord): Promise<void> {
    const { id, previousId } = record;
    const before = [this.#saving.get(id), previousId === null ? undefined : this.#saving.get(previousId)].filter(
      (one) => one !== undefined,
    );
    const saved = (before.length === 0 ? Promise.resolve() : Promise.allSettled(before)).then(() => this.#save(record));
    this.#saving.set(id, saved);
    try {
      await saved;
    } finally {
      if (this.#saving.get(id) === saved) this.#saving.delete(id);
    }
  }

  async #save(record: ResponseRecord): Promise<void> {
    const written = writtenOf(record, this.now());
    // The status determines whether to try an insert or an update first: a response past `queued` usually exists.
    const isKnown = record.background && record.status !== 'queued';
    if (
      !isKnown &&
      (await this.#write(INSERT, this.#inserted(written), indexed(record, ['input', 'output']), record.id))
    )
      return;
    await this.#write(UPDATE, this.#updated(written), indexed(record, ['output']), record.id);
  }

  /** Must be called within a transaction that has locked the response. */
  async end(within: Queryable, record: ResponseRecord): Promise<void> {
    const parts = indexed(record, ['output']);
    await within.query(UPDATE, [...partValues(parts, parts.images), ...this.#updated(writtenOf(record, this.now()))]);
  }

  async append(
    id: string,
    events: readonly StoredEvent[],
    usage: FinishedUsage | null,
    within: Queryable = this.database,
  ): Promise<void> {
    const [first] = events;
    if (first === undefined) return;
    const rows = JSON.stringify(events.map(({ sequence, type, data }) => [sequence, type, data]));
    await within.execute(APPEND, [
      id,
      first.sequence,
      rows,
      usage === null ? null : JSON.stringify(usage),
      this.process,
    ]);
  }

  /** Resolves when all saves in progress have completed. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#saving.values());
  }

  async #write(text: string, values: readonly Value[], parts: Indexed, id: string): Promise<boolean> {
    const bytes = parts.images.reduce((sum, { bytes: { length } }) => sum + length, 0);
    if (bytes <= IMAGE_BYTES)
      return (await this.database.query(text, [...partValues(parts, parts.images), ...values])).length > 0;
    return this.database.transaction(async (within) => {
      if ((await within.query(text, [...partValues(parts, []), ...values])).length === 0) return false;
      for (const some of slices(parts.images)) await within.execute(MORE_IMAGES, [id, ...imageValues(some)]);
      return true;
    });
  }

  #inserted({ record, inputSize, outputSize, logUntil, pages, resource, output, shown }: Written): Value[] {
    const { id, organizationId, model, createdAt, madeAt = createdAt, status, previousId, background } = record;
    return [
      id,
      organizationId,
      model,
      createdAt,
      madeAt,
      status,
      previousId,
      background,
      inputSize,
      outputSize,
      logUntil,
      this.process,
      resource,
      output,
      shown,
      imagesOf(record),
      pages.first,
      pages.rows,
      previewOf(record.input),
    ];
  }

  #updated({ record, outputSize, logUntil, resource, output, shown }: Written): Value[] {
    const { id, organizationId, model, status } = record;
    return [
      id,
      organizationId,
      model,
      status,
      outputSize,
      logUntil,
      resource,
      output,
      shown,
      imagesOf(record),
      this.process,
    ];
  }
}

const imagesOf = ({ input, output }: ResponseRecord): number =>
  [...input, ...output].some(({ images = [] }) => images.length > 0) ? 1 : 0;

const imageValues = (images: readonly ImageRow[]): Value[] => [
  images.map(({ place }) => place),
  images.map(({ item }) => item),
  images.map(({ image }) => image),
  images.map(({ bytes }) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)),
];

const partValues = (parts: Indexed, images: readonly ImageRow[]): Value[] => [
  parts.keys,
  parts.places,
  parts.items,
  parts.repeats,
  ...imageValues(images),
];

function* slices(images: readonly ImageRow[]): Generator<ImageRow[]> {
  let slice: ImageRow[] = [];
  let bytes = 0;
  for (const image of images) {
    slice.push(image);
    if ((bytes += image.bytes.length) < IMAGE_BYTES) continue;
    yield slice;
    slice = [];
    bytes = 0;
  }
  if (slice.length > 0) yield slice;
}
