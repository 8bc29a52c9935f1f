// Stores the contents of files and of parts of uploads in LMDB. Tables, keys and values (- = no value, only the key is
// used):
//
//   file-contents  contents ID                     organization, size and deadline
//   file-rows      [contents ID, position]         up to ROW_BYTES bytes
//   file-sizes     organization                    total size in bytes; key '*' = sum of all organizations
//   file-times     ['unfinished', seconds, id]     -; contents to be erased at this time unless a file adopts them
//                  ['erase', 0, id]                -; contents whose rows are still to be erased
//
// To erase contents, a transaction first removes them from `file-contents`, so that they can no longer be found. Their
// rows are then erased in short transactions. After a crash, the sweep continues the erasure.

import type { EraseGate } from '../../erase-gate.js';
import { setImmediate } from 'node:timers/promises';
import { countedBytes, fileNotFound, fileStorageFull, storageQuotaExceeded } from '../../file-store.js';
import type { FileSettings } from '../../file-store.js';
import type { RowSlice } from '../../files/segments.js';
import { ShortTransactions } from '../short-transactions.js';
import type { Key, Store, Table } from '../../store.js';

interface Contents {
  organizationId: string;
  /** Number of bytes that the contents count toward the total sizes. */
  bytes: number;
  /** Time at which unfinished contents are erased, in seconds since 1970. Null if the contents belong to a file. */
  deadline: number | null;
}

/** Contents that are being written. */
export interface NewContents {
  readonly id: string;
  readonly organizationId: string;
  readonly deadline: number;
  /** Whether files.organization_bytes applies. */
  readonly limited: boolean;
}

// Upper bound of key ranges: sorts after every number and string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';
/** Key of the sum of all organizations in `file-sizes`. */
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

  /** Stores one row. Rejects with ApiError 400 or 503 if a total size would exceed its limit. */
  put(contents: NewContents, position: number, row: Uint8Array): Promise<void> {
    return this.store.transaction(() => {
      const { id, organizationId, limited } = contents;
      const known = position === 0 ? this.#begin(contents) : this.known(id);
      const bytes = countedBytes(position, row);
      const total = (this.#sizes.get(organizationId) ?? 0) + bytes;
      if (limited && total > this.settings.organization_bytes)
        throw storageQuotaExceeded(this.settings.organization_bytes);
      if (this.#total() + bytes > this.settings.total_bytes) throw fileStorageFull(this.settings.total_bytes);
      this.#resize(organizationId, bytes);
      void this.#rows.put([id, position], row);
      void this.#contents.put(id, { ...known, bytes: known.bytes + bytes });
    });
  }

  /**
   * Makes complete contents part of a file. Must be called within a transaction. Throws ApiError 404 if they were
   * erased.
   */
  adopt(id: string): void {
    const known = this.known(id);
    void this.#times.remove(['unfinished', known.deadline ?? 0, id]);
    void this.#contents.put(id, { ...known, deadline: null });
  }

  /** Returns the entry of contents. Throws ApiError 404 if they were erased. */
  known(id: string): Contents {
    const known = this.#contents.get(id);
    if (known === undefined) throw fileNotFound(id);
    return known;
  }

  /**
   * Removes contents so that they cannot be found. Must be called within a transaction, followed by eraseRows() to
   * erase the rows.
   */
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
   * Reads (part of) a row. Rejects with ApiError 404 if the contents were erased; `file` is the ID in the error
   * message. Yields to the event loop first, because LMDB reads are synchronous and a file may have thousands of rows.
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

  /** Erases the organization's contents that are not yet part of a file. */
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

  /**
   * Adds `change` bytes to the totals of the organization and of all organizations. Must be called within a
   * transaction.
   */
  #resize(organizationId: string, change: number): void {
    const sizes = [
      [ALL, this.#total() + change],
      [organizationId, (this.#sizes.get(organizationId) ?? 0) + change],
    ] as const;
    for (const [key, size] of sizes)
      if (size > 0) void this.#sizes.put(key, size);
      else void this.#sizes.remove(key);
  }

  /** Returns the total size of all files. If the key '*' is missing, adds up the totals of the organizations. */
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
