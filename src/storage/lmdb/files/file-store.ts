// Implements FileStore in LMDB. In addition to the tables of contents.ts, it uses (- = no value, only the key is used):
//
//   files                  id                          the file's properties and segments
//   files-by-organization  [organization, list, id]    -; the list is 'all', 'deleted' or 'purpose:' and a purpose
//   file-holds             [id, holder]                -
//   file-times             ['expires', seconds, id]    -
//
// A file that is deleted while it is held moves from the other lists to 'deleted'. It is erased when its last hold is
// released.

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
import type { Key, Table } from '../../store.js';
import { below } from './contents.js';
import type { LmdbFileContents } from './contents.js';

interface FileRow extends Omit<StoredFile, 'id'> {
  segments: readonly Segment[];
  deleted?: true;
}

const AFTER_ALL = '\u{10ffff}';

export class LmdbFileStore implements FileStore {
  readonly #files: Table<FileRow>;
  readonly #lists: Table<[]>;
  readonly #holds: Table<[]>;
  readonly #times: Table<[]>;

  constructor(
    private readonly contents: LmdbFileContents,
    private readonly gate: EraseGate = OPEN_GATE,
  ) {
    const { store } = contents;
    this.#files = store.table('files');
    this.#lists = store.table('files-by-organization');
    this.#holds = store.table('file-holds');
    this.#times = store.table('file-times');
  }

  create(organizationId: string, { limited = true, id: givenId }: NewFileOptions = {}): FileWriter {
    const { contents } = this;
    // The contents have a separate ID, because several writers may write the file `givenId` concurrently.
    const id = newFileId();
    const fileId = givenId ?? id;
    const fresh = { id, organizationId, limited, deadline: Math.floor(contents.now()) + UNFINISHED_S };
    return new RowWriter(
      {
        put: (position, row) => contents.put(fresh, position, row),
        finish: async (description: FileDescription, bytes) => {
          const { file, isNew } = await contents.store.transaction(() => {
            const earlier = this.#files.get(fileId);
            if (earlier !== undefined) {
              contents.forget(id);
              return { file: fileOf(fileId, earlier), isNew: false };
            }
            contents.adopt(id);
            return { file: this.add(fileId, organizationId, description, [{ id, bytes }]), isNew: true };
          });
          if (!isNew) await contents.eraseRows(id);
          return file;
        },
        discard: () => contents.discard(id),
      },
      limited ? contents.settings.max_bytes : null,
      fileTooLarge,
    );
  }

  /** Adds a file whose contents have been adopted. Must be called within a transaction. */
  add(
    id: string,
    organizationId: string,
    { purpose, filename, mediaType, expiresAt, createdAt = Math.floor(this.contents.now()) }: FileDescription,
    segments: readonly Segment[],
  ): StoredFile {
    const bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
    const file = { organizationId, purpose, filename, mediaType, expiresAt, bytes, createdAt };
    void this.#files.put(id, { ...file, segments });
    void this.#times.put(['expires', expiresAt, id], []);
    for (const list of listsOf(purpose)) void this.#lists.put([organizationId, list, id], []);
    return { id, ...file };
  }

  async get(organizationId: string, id: string, holder?: string): Promise<StoredFile | null> {
    this.contents.store.refresh();
    const row = this.#readable(organizationId, id, holder);
    return row === null ? null : fileOf(id, row);
  }

  async list(organizationId: string, { purpose, newestFirst, after, limit }: FileListQuery): Promise<FilePage> {
    this.contents.store.refresh();
    const list = purpose === undefined ? 'all' : `purpose:${purpose}`;
    const start = [organizationId, list];
    const range = newestFirst
      ? { from: [...start, after ?? AFTER_ALL], to: start, reverse: true }
      : { from: [...start, ...(after === null ? [] : [after])], to: [...start, AFTER_ALL] };
    const files: StoredFile[] = [];
    for (const key of this.#lists.keys(range)) {
      const id = (key as string[])[2] as string;
      const row = id === after ? null : this.#readable(organizationId, id);
      if (row === null) continue;
      if (files.length === limit) return { files, more: true };
      files.push(fileOf(id, row));
    }
    return { files, more: false };
  }

  async *read(organizationId: string, id: string, options: ReadOptions = {}): AsyncIterable<Uint8Array> {
    this.contents.store.refresh();
    const row = this.#readable(organizationId, id, options.holder);
    if (row === null) throw fileNotFound(id);
    for (const slice of rowSlices(row.segments, options.start ?? 0, options.end ?? row.bytes))
      yield await this.contents.read(slice, id);
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    const forgotten = await this.contents.store.transaction(() => {
      const row = this.#readable(organizationId, id);
      if (row === null) return null;
      if (!this.#isHeld(id)) return this.#forget(id, row);
      this.#unlist(id, row);
      void this.#lists.put([organizationId, 'deleted', id], []);
      void this.#files.put(id, { ...row, deleted: true });
      return [];
    });
    if (forgotten !== null) await this.#eraseSegments(forgotten);
    return forgotten !== null;
  }

  hold(organizationId: string, id: string, holder: string): Promise<StoredFile | null> {
    return this.contents.store.transaction(() => {
      const row = this.#readable(organizationId, id);
      if (row === null) return null;
      void this.#holds.put([id, holder], []);
      return fileOf(id, row);
    });
  }

  async release(organizationId: string, id: string, holder: string): Promise<void> {
    if (!isFileId(id)) return;
    const forgotten = await this.contents.store.transaction(() => {
      const row = this.#files.get(id);
      if (row?.organizationId !== organizationId) return [];
      void this.#holds.remove([id, holder]);
      return !this.#isHeld(id) && this.#isGone(row) ? this.#forget(id, row) : [];
    });
    await this.#eraseSegments(forgotten);
  }

  async releaseUnneeded(isNeeded: (organizationId: string, holder: string) => Promise<boolean>): Promise<void> {
    this.contents.store.refresh();
    for (const key of [...this.#holds.keys()]) {
      const [id, holder] = key as [string, string];
      const organizationId = this.#files.get(id)?.organizationId;
      if (organizationId !== undefined && !(await isNeeded(organizationId, holder)))
        await this.release(organizationId, id, holder);
    }
  }

  async usedBytes(organizationId: string): Promise<number> {
    return this.contents.usedBytes(organizationId);
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    await this.contents.eraseUnfinished(organizationId);
    const lists = ['all', 'deleted'].flatMap((list) => [...this.#lists.keys(below(organizationId, list))]);
    for (const key of lists) await this.#erase((key as string[])[2] as string, () => true);
  }

  async sweep(): Promise<number> {
    await this.contents.sweep(this.gate);
    let erased = 0;
    const due = { from: ['expires'], to: ['expires', this.contents.now(), AFTER_ALL] };
    for (const key of [...this.#times.keys(due)]) {
      if (!this.gate.allows()) break;
      const id = (key as [string, number, string])[2];
      if (await this.#erase(id, (row) => !this.#isHeld(id) && this.#isGone(row))) erased++;
    }
    return erased;
  }

  /** Erases a file, even a deleted or held one, if `condition` returns true. Resolves to whether it was erased. */
  async #erase(id: string, condition: (row: FileRow) => boolean): Promise<boolean> {
    const forgotten = await this.contents.store.transaction(() => {
      const row = this.#files.get(id);
      return row === undefined || !condition(row) ? null : this.#forget(id, row);
    });
    if (forgotten !== null) await this.#eraseSegments(forgotten);
    return forgotten !== null;
  }

  #readable(organizationId: string, id: string, holder?: string): FileRow | null {
    const row = isFileId(id) ? this.#files.get(id) : undefined;
    if (row?.organizationId !== organizationId) return null;
    return !this.#isGone(row) || (holder !== undefined && this.#holds.get([id, holder]) !== undefined) ? row : null;
  }

  #isGone({ deleted, expiresAt }: FileRow): boolean {
    return deleted === true || expiresAt <= this.contents.now();
  }

  #isHeld(id: string): boolean {
    for (const _ of this.#holds.keys({ ...below(id), limit: 1 })) return true;
    return false;
  }

  /**
   * Removes the entry of a file. Returns the segments whose rows must be erased. Must be called within a
   * transaction.
   */
  #forget(id: string, row: FileRow): readonly Segment[] {
    this.#unlist(id, row);
    void this.#lists.remove([row.organizationId, 'deleted', id]);
    void this.#times.remove(['expires', row.expiresAt, id]);
    for (const key of [...this.#holds.keys(below(id))]) void this.#holds.remove(key);
    for (const segment of row.segments) this.contents.forget(segment.id);
    void this.#files.remove(id);
    return row.segments;
  }

  #unlist(id: string, { organizationId, purpose }: FileRow): void {
    for (const list of listsOf(purpose)) void this.#lists.remove([organizationId, list, id] satisfies Key);
  }

  async #eraseSegments(segments: readonly Segment[]): Promise<void> {
    for (const { id } of segments) await this.contents.eraseRows(id);
  }
}

const listsOf = (purpose: string): string[] => ['all', `purpose:${purpose}`];

const fileOf = (
  id: string,
  { organizationId, purpose, filename, mediaType, bytes, createdAt, expiresAt }: FileRow,
): StoredFile => ({ id, organizationId, purpose, filename, mediaType, bytes, createdAt, expiresAt });
