// Implements RequestLog on the `requests` table, with the number and total size of entries in `request_log_size`.
// Transactions lock the row in `request_log_size` last. Only erasing locks it first, so that only one process erases at
// a time.

import type { Database, Queryable } from '../database.js';
import { NO_ORGANIZATION } from '../../../shared/request-entry.js';
import type { RequestEntry, RequestText } from '../../../shared/request-entry.js';
import {
  entryBytes,
  MAX_SCANNED,
  placeId,
  placeIn,
  placeOf,
  textBytes,
} from '../../../usage/requests/request-place.js';
import type { Place } from '../../../usage/requests/request-place.js';
import { MAX_UNKNOWN_CLIENT_ROWS } from '../../../usage/requests/request-log.js';
import type {
  ListedRow,
  LoggedRow,
  RequestBounds,
  RequestLog,
  RequestPage,
  RequestQuery,
} from '../../../usage/requests/request-log.js';

interface Row {
  ended_at: number;
  request_id: string;
  entry: Omit<LoggedRow, 'hasText'>;
  has_text: boolean;
}

const ERASED_AT_ONCE = 500;
const NEVER: Place = [Number.MAX_SAFE_INTEGER, ''];

const COLUMNS = 'ended_at, request_id, entry, text IS NOT NULL AS has_text';
const IN_RANGE = '($1::text IS NULL OR organization_id = $1) AND (ended_at, request_id) < ($2, $3) AND ended_at >= $4';
const MATCHES =
  'WHERE ($5::text IS NULL OR key_id = $5) AND ($6::text IS NULL OR model = $6) AND ($7::text IS NULL OR outcome = $7)';
const rowOf = ({ entry, has_text: hasText }: Row): LoggedRow => ({ ...entry, hasText });
const listed = (row: Row): ListedRow => ({ id: placeId([row.ended_at, row.request_id]), row: rowOf(row) });

export class PostgresRequestLog implements RequestLog {
  constructor(private readonly database: Database) {}

  add(entries: readonly RequestEntry[]): Promise<void> {
    const columns = entries.map(({ text, ...entry }) => {
      const ofText = text === null ? 0 : textBytes(text);
      return { entry, text, bytes: entryBytes(entry) + ofText, textBytes: ofText };
    });
    return this.database.transaction(async (sql) => {
      // An existing row was written by an earlier attempt whose commit was not confirmed.
      const added = await sql.query<{ bytes: number }>(
        `INSERT INTO requests (ended_at, request_id, organization_id, key_id, model, outcome, entry, bytes, text, text_bytes)
         SELECT ended_at, request_id, organization_id, key_id, model, outcome, entry::json, bytes, text::json, text_bytes
         FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::integer[], $9::text[], $10::integer[])
           AS given (ended_at, request_id, organization_id, key_id, model, outcome, entry, bytes, text, text_bytes)
         ON CONFLICT (ended_at, request_id) DO NOTHING RETURNING bytes`,
        [
          columns.map(({ entry }) => entry.endedAt),
          columns.map(({ entry }) => entry.requestId),
          columns.map(({ entry }) => entry.organizationId),
          columns.map(({ entry }) => entry.keyId),
          columns.map(({ entry }) => entry.model),
          columns.map(({ entry }) => entry.outcome),
          columns.map(({ entry }) => JSON.stringify(entry)),
          columns.map(({ bytes }) => bytes),
          columns.map(({ text }) => (text === null ? null : JSON.stringify(text))),
          columns.map((one) => one.textBytes),
        ],
      );
      await resize(
        sql,
        added.length,
        added.reduce((sum, { bytes }) => sum + bytes, 0),
      );
    });
  }

  async list(
    { organizationId, keyId, model, outcome, requestId, from: since, to }: RequestQuery,
    limit: number,
    after: string | null,
  ): Promise<RequestPage> {
    const filters = [keyId, model, outcome];
    const least = since ?? 0;
    const cursor = after === null ? NEVER : placeOf(after, 'after');
    const from: Place = to != null && to < cursor[0] ? [to, ''] : cursor;
    if (requestId != null)
      return { rows: await this.#withId(requestId, [organizationId, ...from, least, ...filters]), next: null };
    // Limits the number of rows scanned per page, which matters for selective filters.
    const scanned = `FROM requests WHERE ${IN_RANGE} ORDER BY ended_at DESC, request_id DESC`;
    const range = [organizationId, ...from, least];
    const found = await this.database.query<Row>(
      `SELECT ended_at, request_id, entry, has_text FROM (SELECT ${COLUMNS}, key_id, model, outcome ${scanned} LIMIT ${MAX_SCANNED}) AS scanned
       ${MATCHES}
       ORDER BY ended_at DESC, request_id DESC LIMIT $8`,
      [...range, ...filters, limit + 1],
    );
    const rows = found.slice(0, limit).map(listed);
    if (found.length > limit) return { rows, next: rows.at(-1)?.id ?? null };
    const [end] = await this.database.query<{ ended_at: number; request_id: string }>(
      `SELECT ended_at, request_id ${scanned} OFFSET ${MAX_SCANNED - 1} LIMIT 1`,
      range,
    );
    return { rows, next: end === undefined ? null : placeId([end.ended_at, end.request_id]) };
  }

  /**
   * A separate statement, so that it always uses the index on the request ID. `range`: the values of IN_RANGE and
   * MATCHES.
   */
  async #withId(requestId: string, range: readonly (string | number | null)[]): Promise<ListedRow[]> {
    const found = await this.database.query<Row>(
      `SELECT ${COLUMNS} FROM requests ${MATCHES} AND ${IN_RANGE} AND request_id = $8 LIMIT 1`,
      [...range, requestId],
    );
    return found.map(listed);
  }

  async find(organizationId: string | null, id: string): Promise<LoggedRow | null> {
    const place = placeIn(id);
    const [row] =
      place === null
        ? []
        : await this.database.query<Row>(
            `SELECT ${COLUMNS} FROM requests WHERE ended_at = $1 AND request_id = $2 AND ($3::text IS NULL OR organization_id = $3)`,
            [...place, organizationId],
          );
    return row === undefined ? null : rowOf(row);
  }

  async text(organizationId: string, id: string): Promise<RequestText | null> {
    const place = placeIn(id);
    const [row] =
      place === null
        ? []
        : await this.database.query<{ text: RequestText | null }>(
            'SELECT text FROM requests WHERE ended_at = $1 AND request_id = $2 AND organization_id = $3',
            [...place, organizationId],
          );
    return row?.text ?? null;
  }

  async size(): Promise<{ rows: number; bytes: number }> {
    return (
      (await this.database.query<{ rows: number; bytes: number }>('SELECT rows, bytes FROM request_log_size'))[0] ?? {
        rows: 0,
        bytes: 0,
      }
    );
  }

  async erase({ before, rows, bytes }: RequestBounds, signal: AbortSignal): Promise<number> {
    let erased = 0;
    while (!signal.aborted) {
      const gone = await this.database.transaction(async (sql) => {
        const [size = { rows: 0, bytes: 0 }] = await sql.query<{ rows: number; bytes: number }>(
          'SELECT rows, bytes FROM request_log_size FOR UPDATE',
        );
        const oldest = await sql.query<{ ended_at: number; request_id: string; bytes: number }>(
          'SELECT ended_at, request_id, bytes FROM requests ORDER BY ended_at, request_id LIMIT $1',
          [ERASED_AT_ONCE],
        );
        let gone = 0;
        let freed = 0;
        for (const one of oldest) {
          if (one.ended_at >= before && size.rows - gone <= rows && size.bytes - freed <= bytes) break;
          freed += one.bytes;
          gone++;
        }
        const last = oldest[gone - 1];
        if (last === undefined) return 0;
        // Erases as many of the oldest rows as were counted. If an older row was added in the meantime, one of the
        // counted rows is erased next time.
        const ids = oldest.slice(0, gone);
        await sql.execute(
          'DELETE FROM requests WHERE (ended_at, request_id) IN (SELECT * FROM unnest($1::bigint[], $2::text[]))',
          [ids.map((one) => one.ended_at), ids.map((one) => one.request_id)],
        );
        await resize(sql, -gone, -freed);
        return gone;
      });
      erased += gone;
      if (gone < ERASED_AT_ONCE) break;
    }
    return erased + (await this.#eraseUnknownClients());
  }

  /** Erases the oldest entries without an organization, beyond the maximum. */
  #eraseUnknownClients(): Promise<number> {
    return this.#each((sql) =>
      sql.query<{ rows: number; bytes: number }>(
        `DELETE FROM requests WHERE (ended_at, request_id) IN (SELECT ended_at, request_id FROM requests
           WHERE organization_id = $1 ORDER BY ended_at DESC, request_id DESC OFFSET $2 LIMIT $3)
         RETURNING 1 AS rows, bytes`,
        [NO_ORGANIZATION, MAX_UNKNOWN_CLIENT_ROWS, ERASED_AT_ONCE],
      ),
    );
  }

  async eraseTexts(organizationId: string): Promise<void> {
    await this.#each((sql) =>
      sql.query<{ rows: number; bytes: number }>(
        `UPDATE requests SET text = NULL, bytes = requests.bytes - requests.text_bytes, text_bytes = 0
       FROM (SELECT ended_at, request_id, text_bytes AS freed FROM requests WHERE organization_id = $1 AND text IS NOT NULL ORDER BY ended_at, request_id LIMIT $2) AS chosen
       WHERE requests.ended_at = chosen.ended_at AND requests.request_id = chosen.request_id RETURNING 0 AS rows, chosen.freed AS bytes`,
        [organizationId, ERASED_AT_ONCE],
      ),
    );
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    await this.#each((sql) =>
      sql.query<{ rows: number; bytes: number }>(
        `DELETE FROM requests WHERE (ended_at, request_id) IN (SELECT ended_at, request_id FROM requests WHERE organization_id = $1 ORDER BY ended_at, request_id LIMIT $2)
       RETURNING 1 AS rows, bytes`,
        [organizationId, ERASED_AT_ONCE],
      ),
    );
  }

  /**
   * Erases in batches until no rows are left, subtracting each batch from the totals. Resolves to the number of
   * rows erased.
   */
  async #each(erase: (sql: Queryable) => Promise<{ rows: number; bytes: number }[]>): Promise<number> {
    let erased = 0;
    for (let more = true; more; ) {
      more = await this.database.transaction(async (sql) => {
        await sql.query('SELECT 1 FROM request_log_size FOR UPDATE');
        const gone = await erase(sql);
        const rows = gone.reduce((sum, one) => sum + one.rows, 0);
        erased += rows;
        await resize(sql, -rows, -gone.reduce((sum, { bytes }) => sum + bytes, 0));
        return gone.length === ERASED_AT_ONCE;
      });
    }
    return erased;
  }
}

/** Must be called within a transaction, because several processes add to the totals. */
async function resize(sql: Queryable, rows: number, bytes: number): Promise<void> {
  await sql.execute('UPDATE request_log_size SET rows = rows + $1, bytes = bytes + $2', [rows, bytes]);
}
