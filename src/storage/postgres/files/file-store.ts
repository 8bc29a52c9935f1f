// Implements FileStore on the PostgreSQL tables `files` and `file_holds` and the tables of contents.ts. Several
// processes share the tables. A row lock on the file serializes deletions, holds and releases.

import { isFileId, newFileId } from '../../../shared/ids.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import { fileNotFound, fileTooLarge, UNFINISHED_S } from '../../file-store.js';
import type {
  FileDescription,
  FileListQuery,
  FilePage,
  FileStore,
  FileWriter,
  NewFileOptions,
  ReadOptions,
  StoredFile,
} from '../../file-store.js';
import { RowWriter } from '../../files/row-writer.js';
import { rowSlices } from '../../files/segments.js';
import type { Segment } from '../../files/segments.js';
import type { Queryable } from '../database.js';
import type { PostgresFileContents } from './contents.js';

interface FileRow {
  id: string;
  organization: string;
  purpose: string;
  filename: string;
  media_type: string;
  bytes: number;
  created_at: number;
  expires_at: number;
  segments: string;
}

const FILE = 'id, organization, purpose, filename, media_type, bytes, created_at, expires_at, segments';
const ERASED_AT_ONCE = 100;

export class PostgresFileStore implements FileStore {
  constructor(
    private readonly contents: PostgresFileContents,
    private readonly gate: EraseGate = OPEN_GATE,
  ) {}

  create(organizationId: string, { limited = true, id: givenId }: NewFileOptions = {}): FileWriter {
    const { contents } = this;
    // The contents have a separate ID, because several writers may write the file `givenId` concurrently.
    const id = newFileId();
    const fileId = givenId ?? id;
    const fresh = { id, organizationId, limited, deadline: contents.now() + UNFINISHED_S };
    return new RowWriter(
      {
        put: (position, row) => contents.put(fresh, position, row),
        finish: (description: FileDescription, bytes) =>
          contents.database.transaction(async (within) => {
            const segments = [{ id, bytes }];
            const added = await this.add(within, { id: fileId, organizationId, description, segments });
            if (added !== null) {
              await contents.adopt(within, [id]);
              return added;
            }
            await contents.erase(within, [id]);
            const [earlier] = await within.query<FileRow>(`SELECT ${FILE} FROM files WHERE id = $1`, [fileId]);
            if (earlier === undefined) throw fileNotFound(fileId); // erased at this moment
            return fileOf(earlier);
          }),
        discard: () => contents.discard(id),
      },
      limited ? contents.settings.max_bytes : null,
      fileTooLarge,
    );
  }

  /** Adds a file. Resolves to null if a file with this ID already exists. Must be called within a transaction. */
  async add(
    within: Queryable,
    {
      id,
      organizationId,
      description: { purpose, filename, mediaType, expiresAt, createdAt = this.contents.now() },
      segments,
    }: { id: string; organizationId: string; description: FileDescription; segments: readonly Segment[] },
  ): Promise<StoredFile | null> {
    const bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
    const added = await within.execute(
      `INSERT INTO files (${FILE}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
      [id, organizationId, purpose, filename, mediaType, bytes, createdAt, expiresAt, JSON.stringify(segments)],
    );
    if (added === 0) return null;
    return { id, organizationId, purpose, filename, mediaType, expiresAt, bytes, createdAt };
  }

  async get(organizationId: string, id: string, holder?: string): Promise<StoredFile | null> {
    const row = await this.#readable(organizationId, id, holder);
    return row === null ? null : fileOf(row);
  }

  async list(organizationId: string, { purpose, newestFirst, after, limit }: FileListQuery): Promise<FilePage> {
    const rows = await this.contents.database.query<FileRow>(
      newestFirst
        ? `SELECT ${FILE} FROM files WHERE organization = $1 AND NOT deleted AND expires_at > $2
             AND ($3::text IS NULL OR purpose = $3) AND ($4::text IS NULL OR id < $4) ORDER BY id DESC LIMIT $5`
        : `SELECT ${FILE} FROM files WHERE organization = $1 AND NOT deleted AND expires_at > $2
             AND ($3::text IS NULL OR purpose = $3) AND ($4::text IS NULL OR id > $4) ORDER BY id LIMIT $5`,
      [organizationId, this.contents.now(), purpose ?? null, after, limit + 1],
    );
    return { files: rows.slice(0, limit).map(fileOf), more: rows.length > limit };
  }

  async *read(organizationId: string, id: string, options: ReadOptions = {}): AsyncIterable<Uint8Array> {
    const row = await this.#readable(organizationId, id, options.holder);
    if (row === null) throw fileNotFound(id);
    for (const slice of rowSlices(segmentsOf(row), options.start ?? 0, options.end ?? row.bytes))
      yield await this.contents.read(slice, id);
  }

  delete(organizationId: string, id: string): Promise<boolean> {
    if (!isFileId(id)) return Promise.resolve(false);
    return this.contents.database.transaction(async (within) => {
      const [row] = await within.query<FileRow>(
        `SELECT ${FILE} FROM files WHERE id = $1 AND organization = $2 AND NOT deleted AND expires_at > $3 FOR UPDATE`,
        [id, organizationId, this.contents.now()],
      );
      if (row === undefined) return false;
      if (await isHeld(within, id)) await within.execute('UPDATE files SET deleted = true WHERE id = $1', [id]);
      else await this.#erase(within, row);
      return true;
    });
  }

  async hold(organizationId: string, id: string, holder: string): Promise<StoredFile | null> {
    if (!isFileId(id)) return null;
    return this.contents.database.transaction(async (within) => {
      const [row] = await within.query<FileRow>(
        `SELECT ${FILE} FROM files WHERE id = $1 AND organization = $2 AND NOT deleted AND expires_at > $3 FOR UPDATE`,
        [id, organizationId, this.contents.now()],
      );
      if (row === undefined) return null;
      await within.execute('INSERT INTO file_holds (file_id, holder) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
        id,
        holder,
      ]);
      return fileOf(row);
    });
  }

  async release(organizationId: string, id: string, holder: string): Promise<void> {
    if (!isFileId(id)) return;
    await this.contents.database.transaction(async (within) => {
      const [row] = await within.query<FileRow & { gone: boolean }>(
        `SELECT ${FILE}, deleted OR expires_at <= $3 AS gone FROM files WHERE id = $1 AND organization = $2 FOR UPDATE`,
        [id, organizationId, this.contents.now()],
      );
      if (row === undefined) return;
      await within.execute('DELETE FROM file_holds WHERE file_id = $1 AND holder = $2', [id, holder]);
      if (row.gone && !(await isHeld(within, id))) await this.#erase(within, row);
    });
  }

  async releaseUnneeded(isNeeded: (organizationId: string, holder: string) => Promise<boolean>): Promise<void> {
    for (let after: [file: string, holder: string] = ['', '']; ; ) {
      const holds = await this.contents.database.query<{ id: string; organization: string; holder: string }>(
        `SELECT file_holds.file_id AS id, files.organization, file_holds.holder FROM file_holds
         JOIN files ON files.id = file_holds.file_id WHERE (file_holds.file_id, file_holds.holder) > ($1, $2)
         ORDER BY file_holds.file_id, file_holds.holder LIMIT $3`,
        [...after, ERASED_AT_ONCE],
      );
      for (const { id, organization, holder } of holds)
        if (!(await isNeeded(organization, holder))) await this.release(organization, id, holder);
      const last = holds.at(-1);
      if (last === undefined) return;
      after = [last.id, last.holder];
    }
  }

  usedBytes(organizationId: string): Promise<number> {
    return this.contents.usedBytes(organizationId);
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    await this.contents.database.execute('DELETE FROM files WHERE organization = $1', [organizationId]);
    await this.contents.eraseOrganization(organizationId);
  }

  async sweep(): Promise<number> {
    const { database } = this.contents;
    await this.contents.sweep(() => this.gate.allows());
    for (let erased = 0; ; ) {
      const due = await database.query<{ id: string }>(
        `SELECT id FROM files WHERE expires_at <= $1
         AND NOT EXISTS (SELECT FROM file_holds WHERE file_id = files.id) LIMIT $2`,
        [this.contents.now(), ERASED_AT_ONCE],
      );
      if (due.length === 0) return erased;
      for (const { id } of due) {
        if (!this.gate.allows()) return erased;
        await database.transaction(async (within) => {
          const [row] = await within.query<FileRow>(`SELECT ${FILE} FROM files WHERE id = $1 FOR UPDATE`, [id]);
          if (row !== undefined && !(await isHeld(within, id))) await this.#erase(within, row);
        });
        erased++;
      }
    }
  }

  async #readable(organizationId: string, id: string, holder?: string): Promise<FileRow | null> {
    if (!isFileId(id)) return null;
    const [row] = await this.contents.database.query<FileRow>(
      `SELECT ${FILE} FROM files WHERE id = $1 AND organization = $2 AND (NOT deleted AND expires_at > $3
       OR EXISTS (SELECT FROM file_holds WHERE file_id = files.id AND holder = $4))`,
      [id, organizationId, this.contents.now(), holder ?? null],
    );
    return row ?? null;
  }

  /** Erases a file and its contents. Must be called within the transaction that has locked the file. */
  async #erase(within: Queryable, row: FileRow): Promise<void> {
    await within.execute('DELETE FROM files WHERE id = $1', [row.id]);
    await this.contents.erase(
      within,
      segmentsOf(row).map(({ id }) => id),
    );
  }
}

async function isHeld(within: Queryable, id: string): Promise<boolean> {
  return (await within.query('SELECT FROM file_holds WHERE file_id = $1 LIMIT 1', [id])).length > 0;
}

const segmentsOf = ({ segments }: FileRow): readonly Segment[] => JSON.parse(segments) as Segment[];

const fileOf = (row: FileRow): StoredFile => ({
  id: row.id,
  organizationId: row.organization,
  purpose: row.purpose,
  filename: row.filename,
  mediaType: row.media_type,
  bytes: row.bytes,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
});
