// Implements UploadStore in LMDB. In addition to the tables of contents.ts, it uses (- = no value, only the key is
// used):
//
//   uploads                  id                       the upload
//   uploads-by-organization  [organization, id]       -
//   upload-parts             [upload ID, part ID]     size and creation time; the part's contents have the same ID
//   file-times               ['upload', seconds, id]  -; the time at which the upload is erased

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
import type { Table } from '../../store.js';
import { below } from './contents.js';
import type { LmdbFileContents } from './contents.js';
import type { LmdbFileStore } from './file-store.js';

type UploadRow = Omit<StoredUpload, 'id'>;
type PartRow = Omit<UploadPart, 'id'>;

const AFTER_ALL = '\u{10ffff}';

export class LmdbUploadStore implements UploadStore {
  readonly #uploads: Table<UploadRow>;
  readonly #owned: Table<[]>;
  readonly #parts: Table<PartRow>;
  readonly #times: Table<[]>;

  constructor(
    private readonly contents: LmdbFileContents,
    private readonly files: LmdbFileStore,
    private readonly gate: EraseGate = OPEN_GATE,
  ) {
    const { store } = contents;
    this.#uploads = store.table('uploads');
    this.#owned = store.table('uploads-by-organization');
    this.#parts = store.table('upload-parts');
    this.#times = store.table('file-times');
  }

  async create({ id, ...upload }: NewUpload): Promise<StoredUpload> {
    const row: UploadRow = { ...upload, expiresAt: upload.createdAt + UPLOAD_S, status: 'pending', fileId: null };
    await this.contents.store.transaction(() => {
      let count = 0;
      for (const _ of this.#owned.keys(below(upload.organizationId))) count++;
      if (count >= MAX_UPLOADS) throw tooManyUploads();
      void this.#uploads.put(id, row);
      void this.#owned.put([upload.organizationId, id], []);
      void this.#times.put(['upload', row.expiresAt + ENDED_UPLOAD_S, id], []);
    });
    return { id, ...row };
  }

  async get(organizationId: string, id: string): Promise<StoredUpload | null> {
    this.contents.store.refresh();
    const row = isUploadId(id) ? this.#uploads.get(id) : undefined;
    return row?.organizationId !== organizationId ? null : this.#uploadOf(id, row);
  }

  addPart({ id: upload, organizationId, expiresAt, bytes: maxBytes }: StoredUpload): PartWriter {
    const { contents } = this;
    const id = newPartId();
    const fresh = { id, organizationId, limited: true, deadline: expiresAt };
    return new RowWriter<void, UploadPart>(
      {
        put: (position, row) => contents.put(fresh, position, row),
        finish: (_description, bytes) =>
          contents.store.transaction(() => {
            this.#pending(upload);
            contents.known(id);
            const parts = [...this.#parts.range(below(upload))];
            if (parts.length >= MAX_PARTS) throw tooManyParts();
            const part = { bytes, createdAt: Math.floor(contents.now()) };
            void this.#parts.put([upload, id], part);
            return { id, ...part };
          }),
        discard: () => contents.discard(id),
      },
      maxBytes,
      partTooLarge,
    );
  }

  async parts({ id }: StoredUpload): Promise<readonly UploadPart[]> {
    this.contents.store.refresh();
    return [...this.#parts.range(below(id))].map(({ key, value }) => ({ id: (key as [string, string])[1], ...value }));
  }

  async *read(parts: readonly UploadPart[]): AsyncIterable<Uint8Array> {
    for (const part of parts)
      for (const slice of rowSlices([part], 0, part.bytes)) yield await this.contents.read(slice, part.id);
  }

  async complete(
    { id, organizationId }: StoredUpload,
    parts: readonly UploadPart[],
    description: FileDescription,
  ): Promise<StoredFile> {
    const used = new Set(parts.map((part) => part.id));
    const { file, unused } = await this.contents.store.transaction(() => {
      const row = this.#pending(id);
      for (const part of parts) this.contents.adopt(part.id);
      const left = this.#forgetParts(id, (part) => !used.has(part));
      const added = this.files.add(
        newFileId(),
        organizationId,
        description,
        parts.map((part) => ({ id: part.id, bytes: part.bytes })),
      );
      void this.#uploads.put(id, { ...row, status: 'completed', fileId: added.id });
      return { file: added, unused: left };
    });
    for (const part of unused) await this.contents.eraseRows(part);
    return file;
  }

  async cancel({ id }: StoredUpload): Promise<StoredUpload> {
    const { row, forgotten } = await this.contents.store.transaction(() => {
      const changed: UploadRow = { ...this.#pending(id), status: 'cancelled' };
      void this.#uploads.put(id, changed);
      return { row: changed, forgotten: this.#forgetParts(id, () => true) };
    });
    for (const part of forgotten) await this.contents.eraseRows(part);
    return { id, ...row };
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    for (const key of [...this.#owned.keys(below(organizationId))]) await this.#erase((key as [string, string])[1]);
  }

  async sweep(): Promise<void> {
    for (const key of [...this.#times.keys({ from: ['upload'], to: ['upload', this.contents.now(), AFTER_ALL] })]) {
      if (!this.gate.allows()) return;
      await this.#erase((key as [string, number, string])[2]);
    }
  }

  async #erase(id: string): Promise<void> {
    const forgotten = await this.contents.store.transaction(() => {
      const row = this.#uploads.get(id);
      if (row === undefined) return [];
      // The parts of a completed upload belong to its file.
      const parts = this.#forgetParts(id, () => row.status !== 'completed');
      void this.#uploads.remove(id);
      void this.#owned.remove([row.organizationId, id]);
      void this.#times.remove(['upload', row.expiresAt + ENDED_UPLOAD_S, id]);
      return parts;
    });
    for (const part of forgotten) await this.contents.eraseRows(part);
  }

  /** Removes all parts of an upload. Returns the IDs of the selected parts, whose rows the caller must then erase. */
  #forgetParts(upload: string, selects: (part: string) => boolean): string[] {
    const forgotten: string[] = [];
    for (const key of [...this.#parts.keys(below(upload))]) {
      const part = (key as [string, string])[1];
      void this.#parts.remove(key);
      if (!selects(part)) continue;
      this.contents.forget(part);
      forgotten.push(part);
    }
    return forgotten;
  }

  #pending(id: string): UploadRow {
    const row = this.#uploads.get(id);
    const status = row === undefined ? 'expired' : this.#uploadOf(id, row).status;
    if (row === undefined || status !== 'pending') throw uploadNotPending(status);
    return row;
  }

  #uploadOf(id: string, row: UploadRow): StoredUpload {
    const isExpired = row.status === 'pending' && row.expiresAt <= this.contents.now();
    return { id, ...row, ...(isExpired ? { status: 'expired' } : {}) };
  }
}
