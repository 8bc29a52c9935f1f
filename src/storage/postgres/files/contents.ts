// Stores the contents of files and of parts of uploads in the PostgreSQL tables file_contents, file_rows and
// file_sizes. Each write locks the organization's row in file_sizes, so files.organization_bytes is exact across
// processes. The check of files.total_bytes takes no lock: each concurrent write can exceed that limit by one row.

import { countedBytes, fileNotFound, fileStorageFull, storageQuotaExceeded } from '../../file-store.js';
import type { FileSettings } from '../../file-store.js';
import type { RowSlice } from '../../files/segments.js';
import type { Database, Queryable } from '../database.js';

/** Contents that are being written. */
export interface NewContents {
  readonly id: string;
  readonly organizationId: string;
  /** Time at which the contents are erased unless a file adopts them, in seconds since 1970. */
  readonly deadline: number;
  /** Whether files.organization_bytes applies. */
  readonly limited: boolean;
}

export class PostgresFileContents {
  constructor(
    readonly database: Database,
    readonly settings: FileSettings,
    /** Returns the time in seconds since 1970 on the database's clock. */
    private readonly clock: () => number,
  ) {}

  now(): number {
    return Math.floor(this.clock());
  }

  /** Stores one row. Rejects with ApiError 400 or 503 if a total size would exceed its limit. */
  put({ id, organizationId, deadline, limited }: NewContents, position: number, row: Uint8Array): Promise<void> {
    const limit = limited ? this.settings.organization_bytes : null;
    const bytes = countedBytes(position, row);
    return this.database.transaction(async (within) => {
      const [all] = await within.query<{ bytes: number }>(
        'SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM file_sizes',
        [],
      );
      if ((all?.bytes ?? 0) + bytes > this.settings.total_bytes) throw fileStorageFull(this.settings.total_bytes);
      await within.execute('INSERT INTO file_sizes (organization, bytes) VALUES ($1, 0) ON CONFLICT DO NOTHING', [
        organizationId,
      ]);
      const resized = await within.execute(
        `UPDATE file_sizes SET bytes = bytes + $2::bigint
         WHERE organization = $1 AND ($3::bigint IS NULL OR bytes + $2::bigint <= $3::bigint)`,
        [organizationId, bytes, limit],
      );
      if (resized === 0) throw storageQuotaExceeded(this.settings.organization_bytes);
      const isKnown =
        position === 0
          ? await within.execute(
              'INSERT INTO file_contents (id, organization, bytes, deadline) VALUES ($1, $2, $3, $4)',
              [id, organizationId, bytes, deadline],
            )
          : await within.execute('UPDATE file_contents SET bytes = bytes + $2::bigint WHERE id = $1', [id, bytes]);
      if (isKnown === 0) throw fileNotFound(id);
      await within.execute('INSERT INTO file_rows (contents_id, position, data) VALUES ($1, $2, $3)', [
        id,
        position,
        row,
      ]);
    });
  }

  /** Makes complete contents part of a file. Rejects with ApiError 404 if any of them were erased. */
  async adopt(within: Queryable, ids: readonly string[]): Promise<void> {
    const adopted = await within.execute('UPDATE file_contents SET deadline = NULL WHERE id = ANY ($1::text[])', [ids]);
    if (adopted < ids.length) throw fileNotFound(ids[0] as string);
  }

  /** Erases contents and subtracts their size from the organization's total. Must be called within a transaction. */
  async erase(within: Queryable, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await within.execute(
      `WITH gone AS (DELETE FROM file_contents WHERE id = ANY ($1::text[]) RETURNING organization, bytes)
       UPDATE file_sizes SET bytes = file_sizes.bytes - sums.bytes
       FROM (SELECT organization, sum(bytes)::bigint AS bytes FROM gone GROUP BY organization) AS sums
       WHERE file_sizes.organization = sums.organization`,
      [ids],
    );
  }

  async discard(id: string): Promise<void> {
    await this.database.transaction((within) => this.erase(within, [id]));
  }

  /** Reads (part of) a row. Rejects with ApiError 404 if the contents were erased; `file` is the ID in the message. */
  async read({ id, position, from, to }: RowSlice, file: string): Promise<Uint8Array> {
    const [row] = await this.database.query<{ data: Buffer }>(
      'SELECT substring(data FROM $3::int FOR $4::int) AS data FROM file_rows WHERE contents_id = $1 AND position = $2',
      [id, position, from + 1, to - from],
    );
    if (row === undefined) throw fileNotFound(file);
    return row.data;
  }

  async usedBytes(organizationId: string): Promise<number> {
    const [row] = await this.database.query<{ bytes: number }>('SELECT bytes FROM file_sizes WHERE organization = $1', [
      organizationId,
    ]);
    return row?.bytes ?? 0;
  }

  /** Erases all contents of an organization, one at a time. */
  async eraseOrganization(organizationId: string): Promise<void> {
    await this.#eraseEach('SELECT id FROM file_contents WHERE organization = $1 LIMIT $2', organizationId);
    await this.database.execute('DELETE FROM file_sizes WHERE organization = $1 AND bytes <= 0', [organizationId]);
  }

  /** Erases contents whose deadline has passed. `allows` returns whether erasing is currently allowed. */
  sweep(allows: () => boolean): Promise<void> {
    return this.#eraseEach('SELECT id FROM file_contents WHERE deadline <= $1 LIMIT $2', this.now(), allows);
  }

  async #eraseEach(query: string, value: string | number, allows = () => true): Promise<void> {
    for (;;) {
      const found = await this.database.query<{ id: string }>(query, [value, 100]);
      for (const { id } of found) {
        if (!allows()) return;
        await this.discard(id);
      }
      if (found.length === 0) return;
    }
  }
}
