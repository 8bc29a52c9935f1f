// Contents of files and of parts of uploads, on the tables of a Store:
//
//   file-contents  contents ID                     owner, size and deadline
//   file-rows      [contents ID, position]         bytes
//   file-sizes     organization                    total size in bytes; '*' = of all organizations
//   file-times     ['unfinished', seconds, id]     nothing: erased at this time unless adopted by a file
//                  ['erase', 0, id]                nothing: forgotten, but not all rows are erased yet
//
// Forgotten contents lose their entry in file-contents first, so that they can no longer be found; their rows are then
// erased in short transactions. If a crash interrupts them, the sweep continues.

import type { EraseGate } from '../../erase-gate.js';
import { setImmediate } from 'node:timers/promises';
import { fileNotFound, fileStorageFull, storageQuotaExceeded } from '../../file-store.js';
import type { FileSettings } from '../../file-store.js';
import type { RowSlice } from '../../files/segments.js';
import { ShortTransactions } from '../short-transactions.js';
import type { Key, Store, Table } from '../../store.js';

interface Contents {
  organizationId: string;
  bytes: number;
  /** Time at which unfinished contents are erased, in seconds since 1970. Null: the contents belong to a file. */
  deadline: number | null;
}

/** Contents that are being written. */
export interface NewContents {
  readonly id: string;
  readonly organizationId: string;
  readonly deadline: number;
  /** Whether the organization's limit applies. */
  readonly limited: boolean;
}

// Sorts after every number and every string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';
/** Key of the total size of all organizations' files. */
const ALL = '*';

export class LmdbFileContents {
  readonly #contents: Table<Contents>;
  readonly #rows: Table<Uint8Array>;
  readonly #times: Table<[]>;
  readonly #sizes: Table<number>;
  readonly #transactions: ShortTransactions;

  constructor(
    readonly store: Store,
    readonly settings: FileSettings,
    /** Returns the time in seconds since 1970. */
    readonly now: () => number,
  ) {
    this.#contents = store.table('file-contents');
    this.#rows = store.table('file-rows');
    this.#times = store.table('file-times');
    this.#sizes = store.table('file-sizes');
    this.#transactions = new ShortTransactions(store);
  }

  put(contents: NewContents, position: number, row: Uint8Array): Promise<void> {
    return this.store.transaction(() => {
      const { id, organizationId, limited } = contents;
      const known = position === 0 ? this.#begin(contents) : this.known(id);
      const total = (this.#sizes.get(organizationId) ?? 0) + row.length;
      if (limited && total > this.settings.organization_bytes)
        throw storageQuotaExceeded(this.settings.organization_bytes);
      if (this.#total() + row.length > this.settings.total_bytes) throw fileStorageFull(this.settings.total_bytes);
      this.#resize(organizationId, row.length);
      void this.#rows.put([id, position], row);
      void this.#contents.put(id, { ...known, bytes: known.bytes + row.length });
    });
  }

  /** Makes finished contents part of a file. Call within a transaction. Throws ApiError 404 if they were erased. */
  adopt(id: string): void {
    const known = this.known(id);
    void this.#times.remove(['unfinished', known.deadline ?? 0, id]);
    void this.#contents.put(id, { ...known, deadline: null });
  }

  /** Throws ApiError 404 if the contents were erased. */
  known(id: string): Contents {
    const known = this.#contents.get(id);
    if (known === undefined) throw fileNotFound(id);
    return known;
  }

  /** Makes the contents unknown; eraseRows() erases the rows later. Call within a transaction. */
  forget(id: string): void {
    const known = this.#contents.get(id);
    if (known === undefined) return;
    const { organizationId, bytes, deadline } = known;
    void this.#contents.remove(id);
    if (deadline !== null) void this.#times.remove(['unfinished', deadline, id]);
    void this.#times.put(['erase', 0, id], []);
    this.#resize(organizationId, -bytes);
  }

  async eraseRows(id: string): Promise<void> {
    const keys = [...this.#rows.keys(below(id))];
    if (await this.#transactions.forEach(keys, (key) => void this.#rows.remove(key)))
      await this.#times.remove(['erase', 0, id]);
  }

  async discard(id: string): Promise<void> {
    await this.store.transaction(() => {
      this.forget(id);
    });
    await this.eraseRows(id);
  }

  /**
   * Rejects with ApiError 404 if the contents were erased. `file` is the ID to name in the error. Other work runs before
   * each read, because reading itself is synchronous and a file may have thousands of rows.
   */
  async read({ id, position, from, to }: RowSlice, file: string): Promise<Uint8Array> {
    await setImmediate();
    this.store.refresh();
    const row = this.#contents.get(id) === undefined ? undefined : this.#rows.get([id, position]);
    if (row === undefined) throw fileNotFound(file);
    return Uint8Array.prototype.slice.call(row, from, to);
  }

  usedBytes(organizationId: string): number {
    this.store.refresh();
    return this.#sizes.get(organizationId) ?? 0;
  }

  /** Discards contents that are not yet part of a file. */
  async eraseUnfinished(organizationId: string): Promise<void> {
    for (const key of [...this.#times.keys(below('unfinished'))]) {
      const id = (key as [string, number, string])[2];
      if (this.#contents.get(id)?.organizationId === organizationId) await this.discard(id);
    }
  }

  /** Continues interrupted erasures and erases the contents whose deadline has passed. */
  async sweep(gate: EraseGate): Promise<void> {
    for (const key of [...this.#times.keys(below('erase'))]) await this.eraseRows((key as [string, number, string])[2]);
    const overdue = { from: ['unfinished'], to: ['unfinished', this.now(), AFTER_ALL] };
    for (const key of [...this.#times.keys(overdue)]) {
      if (!gate.allows()) return;
      await this.discard((key as [string, number, string])[2]);
    }
  }

  close(): void {
    this.#transactions.close();
  }

  /** Adds to an organization's total and to that of all organizations. Call within a transaction. */
  #resize(organizationId: string, change: number): void {
    const sizes = [
      [ALL, this.#total() + change],
      [organizationId, (this.#sizes.get(organizationId) ?? 0) + change],
    ] as const;
    for (const [key, size] of sizes)
      if (size > 0) void this.#sizes.put(key, size);
      else void this.#sizes.remove(key);
  }

  /** Total size of all organizations' files. A database in which it is not stored yet has only the others' totals. */
  #total(): number {
    let sum = this.#sizes.get(ALL);
    if (sum !== undefined) return sum;
    sum = 0;
    for (const { value } of this.#sizes.range({ from: ALL, to: AFTER_ALL })) sum += value;
    return sum;
  }

  #begin({ id, organizationId, deadline }: NewContents): Contents {
    void this.#times.put(['unfinished', deadline, id], []);
    const contents = { organizationId, bytes: 0, deadline };
    void this.#contents.put(id, contents);
    return contents;
  }
}

export const below = (...start: string[]): { from: Key; to: Key } => ({ from: start, to: [...start, AFTER_ALL] });
