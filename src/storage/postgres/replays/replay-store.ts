// Implements ReplayStore on the shared database. save() enforces an organization's size limit each time this store has
// written a sixteenth of the limit, because adding up the sizes requires a scan of the organization's rows. An
// organization can thus exceed its limit by at most a sixteenth per store (one per thread and process). sweep()
// enforces it exactly. If save() cannot enforce the limit, the rows are saved nevertheless, and the next save() tries
// again.

import type { FoundReplay, ReplayRow, ReplayStore } from '../../../generation/replay/replay-store.js';
import type { Log } from '../../../telemetry/types.js';
import type { Database } from '../database.js';

/** Maximum number of rows that one statement erases. */
const ERASED_AT_ONCE = 1_000;
/** Estimated size in bytes of a row and its index entries, without the tokens. */
const ROW_BYTES = 256;
/** Fraction of the limit that may be written before the limit is enforced. */
const UNCHECKED = 1 / 16;
/**
 * Maximum number of organizations whose written bytes are counted. For all others, the limit is enforced on each
 * write.
 */
const MAX_COUNTED = 4_096;

export class PostgresReplayStore implements ReplayStore {
  /** Bytes written since the limit was last enforced, by organization. The least recently written comes first. */
  readonly #unchecked = new Map<string, number>();

  /** `maxBytes`: maximum total size of an organization's rows. */
  constructor(
    private readonly sql: Database,
    private readonly maxBytes: number,
    private readonly log: Pick<Log, 'warn'>,
  ) {}

  /** The caller supplies timestamps from the database's clock (DatabaseClock). */
  async save(rows: readonly ReplayRow[]): Promise<void> {
    // One statement cannot update a row twice, so only the last row with each key is written. Rows are sorted so that
    // concurrent statements lock them in the same order.
    const last = [...new Map(rows.map((row) => [`${row.organizationId}\n${row.key}`, row])).entries()]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([, row]) => row);
    await this.sql.execute(
      `INSERT INTO replays (organization_id, key, model, tokens, response_id, expires_at)
       SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::bigint[])
       ON CONFLICT (organization_id, key) DO UPDATE
       SET model = excluded.model, tokens = excluded.tokens, response_id = excluded.response_id,
           expires_at = excluded.expires_at`,
      [
        last.map(({ organizationId }) => organizationId),
        last.map(({ key }) => key),
        last.map(({ model }) => model),
        last.map(({ tokens }) => Buffer.from(tokens)),
        last.map(({ responseId }) => responseId),
        last.map(({ expiresAt }) => Math.floor(expiresAt)),
      ],
    );
    const due = this.#count(last);
    if (due.length === 0) return;
    try {
      await this.#eraseExcess(due);
    } catch (err) {
      for (const id of due) this.#unchecked.delete(id); // due again at the next write
      this.log.warn({ err }, 'cannot enforce the size limit of replays');
    }
  }

  /** Counts written rows, and returns the organizations whose limit must now be enforced. */
  #count(rows: readonly ReplayRow[]): string[] {
    for (const { organizationId, tokens } of rows) {
      const before = this.#unchecked.get(organizationId) ?? Infinity; // unknown: this store has not enforced it yet
      this.#unchecked.delete(organizationId);
      this.#unchecked.set(organizationId, before + tokens.length + ROW_BYTES);
    }
    const organizations = [...new Set(rows.map(({ organizationId }) => organizationId))];
    const due = organizations.filter((id) => this.#unchecked.get(id)! > UNCHECKED * this.maxBytes);
    for (const id of due) this.#unchecked.set(id, 0);
    for (const id of this.#unchecked.keys()) {
      if (this.#unchecked.size <= MAX_COUNTED) break;
      this.#unchecked.delete(id);
    }
    return due;
  }

  async find(organizationId: string, keys: readonly string[]): Promise<readonly FoundReplay[]> {
    const rows = await this.sql.query<{ key: string; model: string; tokens: Buffer; expires_at: string }>(
      `SELECT key, model, tokens, expires_at FROM replays
       WHERE organization_id = $1 AND key = ANY($2) AND expires_at > extract(epoch FROM now())`,
      [organizationId, keys],
    );
    return rows.map(({ key, model, tokens, expires_at }) => ({ key, model, tokens, expiresAt: Number(expires_at) }));
  }

  async eraseResponse(organizationId: string, responseId: string): Promise<void> {
    await this.sql.execute('DELETE FROM replays WHERE organization_id = $1 AND response_id = $2', [
      organizationId,
      responseId,
    ]);
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    await this.sql.execute('DELETE FROM replays WHERE organization_id = $1', [organizationId]);
  }

  async sweep(): Promise<number> {
    return (await this.#eraseExpired()) + (await this.#eraseExcess(null));
  }

  async #eraseExpired(): Promise<number> {
    let erased = 0;
    for (;;) {
      const gone = await this.sql.query(
        `DELETE FROM replays WHERE (organization_id, key) IN (
           SELECT organization_id, key FROM replays WHERE expires_at <= extract(epoch FROM now())
           ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
         ) RETURNING 1`,
        [ERASED_AT_ONCE],
      );
      erased += gone.length;
      if (gone.length < ERASED_AT_ONCE) return erased;
    }
  }

  /**
   * Erases each organization's rows that expire first, until the remaining rows fit the limit. Null selects all
   * organizations. Rows are locked in the same order as by save(), and rows that another statement has locked are left
   * to the next call.
   */
  async #eraseExcess(organizations: readonly string[] | null): Promise<number> {
    return organizations === null
      ? this.sql.execute(ERASE_ALL_EXCESS, [this.maxBytes, ROW_BYTES])
      : this.sql.execute(ERASE_EXCESS, [this.maxBytes, ROW_BYTES, organizations]);
  }
}

const eraseExcess = (condition: string): string =>
  `DELETE FROM replays WHERE (organization_id, key) IN (
     SELECT organization_id, key FROM replays JOIN (
       SELECT organization_id, key,
         sum(octet_length(tokens) + $2) OVER (PARTITION BY organization_id ORDER BY expires_at DESC, key) AS total
       FROM replays WHERE organization_id IN (
         SELECT organization_id FROM replays ${condition}
         GROUP BY organization_id HAVING sum(octet_length(tokens) + $2) > $1
       )
     ) AS counted USING (organization_id, key)
     WHERE total > $1
     ORDER BY organization_id, key FOR UPDATE OF replays SKIP LOCKED
   )`;
// Two separate statements, so that the statement for a few organizations is planned with the index on the organization.
const ERASE_ALL_EXCESS = eraseExcess('');
const ERASE_EXCESS = eraseExcess('WHERE organization_id = ANY($3::text[])');
