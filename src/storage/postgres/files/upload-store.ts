// Implements UploadStore on the PostgreSQL tables `uploads` and `upload_parts` and the tables of contents.ts. Several
// processes share the tables. A row lock on the upload serializes its changes. A part's contents have the same ID as
// the part.

import { isUploadId, newFileId, newPartId } from '../../../shared/ids.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { FileDescription, StoredFile } from '../../file-store.js';
import { RowWriter } from '../../files/row-writer.js';
import { rowSlices } from '../../files/segments.js';
import {
  ENDED_UPLOAD_S,
  MAX_PARTS,
  MAX_UPLOADS,
  partTooLarge,
  tooManyParts,
  tooManyUploads,
  UPLOAD_S,
  uploadNotPending,
} from '../../upload-store.js';
import type { NewUpload, PartWriter, StoredUpload, UploadPart, UploadStore } from '../../upload-store.js';
import type { Queryable } from '../database.js';
import type { PostgresFileContents } from './contents.js';
import type { PostgresFileStore } from './file-store.js';

interface UploadRow {
  id: string;
  organization: string;
  purpose: string;
  filename: string;
  media_type: string;
  bytes: number;
  created_at: number;
  expires_at: number;
  file_lifetime: number | null;
  status: StoredUpload['status'];
  file_id: string | null;
}

/** Number of uploads that one DELETE statement erases, with up to MAX_PARTS parts each. */
const ERASED_AT_ONCE = 100;
const UPLOAD =
  'id, organization, purpose, filename, media_type, bytes, created_at, expires_at, file_lifetime, status, file_id';

export class PostgresUploadStore implements UploadStore {
  constructor(
    private readonly contents: PostgresFileContents,
    private readonly files: PostgresFileStore,
    private readonly gate: EraseGate = OPEN_GATE,
  ) {}

  async create(upload: NewUpload): Promise<StoredUpload> {
    const stored: StoredUpload = {
      ...upload,
      expiresAt: upload.createdAt + UPLOAD_S,
      status: 'pending',
      fileId: null,
    };
    await this.contents.database.transaction(async (within) => {
      // The lock prevents concurrent creations by the same organization from exceeding the limit.
      await within.query('SELECT pg_advisory_xact_lock(hashtext($1))', [`uploads ${stored.organizationId}`]);
      const [kept] = await within.query<{ n: number }>('SELECT count(*) AS n FROM uploads WHERE organization = $1', [
        stored.organizationId,
      ]);
      if ((kept?.n ?? 0) >= MAX_UPLOADS) throw tooManyUploads();
      await within.execute(`INSERT INTO uploads (${UPLOAD}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, [
        stored.id,
        stored.organizationId,
        stored.purpose,
        stored.filename,
        stored.mediaType,
        stored.bytes,
        stored.createdAt,
        stored.expiresAt,
        stored.fileLifetimeS,
        stored.status,
        stored.fileId,
      ]);
    });
    return stored;
  }

  async get(organizationId: string, id: string): Promise<StoredUpload | null> {
    if (!isUploadId(id)) return null;
    const [row] = await this.contents.database.query<UploadRow>(
      `SELECT ${UPLOAD} FROM uploads WHERE id = $1 AND organization = $2`,
      [id, organizationId],
    );
    return row === undefined ? null : this.#uploadOf(row);
  }

  addPart({ id: upload, organizationId, expiresAt, bytes: maxBytes }: StoredUpload): PartWriter {
    const { contents } = this;
    const id = newPartId();
    const fresh = { id, organizationId, limited: true, deadline: expiresAt };
    return new RowWriter<void, UploadPart>(
      {
        put: (position, row) => contents.put(fresh, position, row),
        finish: (_description, bytes) =>
          contents.database.transaction(async (within) => {
            await this.#pending(within, upload);
            const parts = await within.query('SELECT FROM upload_parts WHERE upload_id = $1', [upload]);
            if (parts.length >= MAX_PARTS) throw tooManyParts();
            const part: UploadPart = { id, bytes, createdAt: contents.now() };
            await within.execute(
              'INSERT INTO upload_parts (upload_id, id, bytes, created_at) VALUES ($1, $2, $3, $4)',
              [upload, id, bytes, part.createdAt],
            );
            return part;
          }),
        discard: () => contents.discard(id),
      },
      maxBytes,
      partTooLarge,
    );
  }

  parts({ id }: StoredUpload): Promise<readonly UploadPart[]> {
    return this.contents.database.query<UploadPart>(
      'SELECT id, bytes, created_at AS "createdAt" FROM upload_parts WHERE upload_id = $1 ORDER BY id',
      [id],
    );
  }

  async *read(parts: readonly UploadPart[]): AsyncIterable<Uint8Array> {
    for (const part of parts)
      for (const slice of rowSlices([part], 0, part.bytes)) yield await this.contents.read(slice, part.id);
  }

  complete(
    { id, organizationId }: StoredUpload,
    parts: readonly UploadPart[],
    description: FileDescription,
  ): Promise<StoredFile> {
    return this.contents.database.transaction(async (within) => {
      await this.#pending(within, id);
      const segments = parts.map((part) => ({ id: part.id, bytes: part.bytes }));
      const used = segments.map((segment) => segment.id);
      if (used.length > 0) await this.contents.adopt(within, used);
      await this.#eraseParts(within, id, used);
      const file = (await this.files.add(within, {
        id: newFileId(),
        organizationId,
        description,
        segments,
      })) as StoredFile;
      await within.execute("UPDATE uploads SET status = 'completed', file_id = $2 WHERE id = $1", [id, file.id]);
      return file;
    });
  }

  cancel({ id }: StoredUpload): Promise<StoredUpload> {
    return this.contents.database.transaction(async (within) => {
      const upload = await this.#pending(within, id);
      await this.#eraseParts(within, id, []);
      await within.execute("UPDATE uploads SET status = 'cancelled' WHERE id = $1", [id]);
      return { ...upload, status: 'cancelled' };
    });
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    // PostgresFileStore.eraseOrganization() erases the contents of the parts.
    await this.contents.database.execute('DELETE FROM uploads WHERE organization = $1', [organizationId]);
  }

  async sweep(): Promise<void> {
    // PostgresFileContents.sweep() erases the contents of parts that no file has adopted.
    for (let some = ERASED_AT_ONCE; some === ERASED_AT_ONCE && this.gate.allows(); )
      some = await this.contents.database.execute(
        'DELETE FROM uploads WHERE id IN (SELECT id FROM uploads WHERE expires_at <= $1 LIMIT $2)',
        [this.contents.now() - ENDED_UPLOAD_S, ERASED_AT_ONCE],
      );
  }

  /** Removes all parts of an upload, and erases the contents of the parts that are not in `kept`. */
  async #eraseParts(within: Queryable, upload: string, kept: readonly string[]): Promise<void> {
    const gone = await within.query<{ id: string }>('DELETE FROM upload_parts WHERE upload_id = $1 RETURNING id', [
      upload,
    ]);
    await this.contents.erase(
      within,
      gone.map(({ id }) => id).filter((id) => !kept.includes(id)),
    );
  }

  /** Locks the row of an upload and returns the upload. Rejects with ApiError 422 if it is no longer pending. */
  async #pending(within: Queryable, id: string): Promise<StoredUpload> {
    const [row] = await within.query<UploadRow>(`SELECT ${UPLOAD} FROM uploads WHERE id = $1 FOR UPDATE`, [id]);
    const upload = row === undefined ? null : this.#uploadOf(row);
    if (upload?.status !== 'pending') throw uploadNotPending(upload?.status ?? 'expired');
    return upload;
  }

  #uploadOf(row: UploadRow): StoredUpload {
    const isExpired = row.status === 'pending' && row.expires_at <= this.contents.now();
    return {
      id: row.id,
      organizationId: row.organization,
      purpose: row.purpose,
      filename: row.filename,
      mediaType: row.media_type,
      bytes: row.bytes,
      createdAt: row.created_at,
      fileLifetimeS: row.file_lifetime,
      expiresAt: row.expires_at,
      status: isExpired ? 'expired' : row.status,
      fileId: row.file_id,
    };
  }
}
