// The page store: records of KV pages in the data directory, found by engine and chain digest, within a byte budget.
//
// Writing: the records of a batch are written and synced, then their index entries are appended to the journal and
// synced. Erasing: the bytes are overwritten and synced, then the index entries are removed. A record without an index
// entry is garbage and is overwritten at startup. A record that cannot be verified is dropped.
//
// Changes run one after another; reads run at any time. Worker thread only (tier-worker.ts).
import { compact, evictToFit } from './fit-budget.js';
import { Journal } from './journal.js';
import { chainPages, type ChainPage, type OrganizationKeys, type PositionText } from './page-content.js';
import type { PageFiles } from './page-files.js';
import { entryName, journaled, PageIndex, type Entry, type StoreUsage } from './page-index.js';
import { isPinLabel } from './labels.js';
import { openRecord, PARTS, recordBytes, sealRecord, type PagePart } from './page-record.js';
import { RecordBuffers } from './record-buffers.js';
import { RemovedPages, type Removal, type RemovalReason } from './removed-pages.js';
import { SlabFiles, type Slot } from './slab-files.js';

/** Limits the memory of the index. */
const MAX_RECORDS = 400_000;
/** A page's expiry time is postponed only if it moves by at least this many seconds. */
const EXTEND_S = 3_600;
/**
 * Maximum number of records that are evicted together when several slots are needed, because each eviction takes two
 * syncs.
 */
const EVICTED_TOGETHER = 32;
/** Maximum number of concurrent reads. */
const READS = 8;
/** Maximum size of one read, in bytes. Records in consecutive slots are read together up to this size. */
const READ_BYTES = 1024 ** 2;

export interface EngineIdentity {
  /** SHA-256 of everything that affects the bits of a page, apart from the tokens. */
  readonly key: Buffer;
  /** Estimated time to compute one token, in ms; only the ratio between engines matters. */
  readonly tokenMs: number;
}

/** Parts of one page, either to be stored or as read from the store. */
export type PageParts = Partial<Record<PagePart, Uint8Array>>;

export interface StoreCounts {
  written: number;
  writtenBytes: number;
  read: number;
  readBytes: number;
  evicted: number;
  erased: number;
  skipped: number; // records that could not be written, for lack of space or because of an error
  dropped: Record<DropReason, number>;
}
export type DropReason = 'corrupt' | 'unreadable' | 'interrupted';

export interface LookUp {
  /** The stored parts of each leading page that is stored. */
  readonly stored: readonly (readonly PagePart[])[];
  readonly missing: ChainPage | null;
}

/** Why not all pages of a put or a lookup could be handled; for the log. */
export type StoreProblem = (action: 'write' | 'read' | 'erase', error: unknown) => void;

export interface PageStoreOptions {
  readonly folder: string;
  readonly files: PageFiles;
  readonly maxBytes: number;
  /** False only in tests. */
  readonly encrypts?: boolean;
  readonly report?: StoreProblem;
  /** Number of bytes by which the journal may exceed four times its content before it is rewritten; for tests. */
  readonly journalSlackBytes?: number | undefined;
  readonly now?: () => number; // seconds
}

export interface PutOptions {
  readonly engine: EngineIdentity;
  readonly organization: OrganizationKeys;
  readonly text: PositionText;
  readonly pages: readonly { readonly index: number; readonly parts: PageParts }[];
  /** Stored response that needs the prefix; null if there is none. */
  readonly label: string | null;
  /** Seconds for which the pages are kept without a label; 0 = until they are evicted. */
  readonly keepS: number;
}

/** A record to read. */
interface Wanted {
  readonly entry: Entry;
  readonly page: ChainPage;
}
interface Found extends Wanted {
  readonly data: Buffer;
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');

export class PageStore {
  readonly counts: StoreCounts = {
    written: 0,
    writtenBytes: 0,
    read: 0,
    readBytes: 0,
    evicted: 0,
    erased: 0,
    skipped: 0,
    dropped: { corrupt: 0, unreadable: 0, interrupted: 0 },
  };
  readonly #journal: Journal;
  readonly #slabs: SlabFiles;
  readonly #index: PageIndex;
  readonly #writeBuffers = new RecordBuffers();
  readonly #readBuffers = new RecordBuffers();
  /** Entries of the put in progress, which must not be evicted to make room for it. */
  readonly #inUse = new Set<string>();
  /**
   * Entries whose records are being overwritten. If reading such a record fails, the record does not count as damaged.
   */
  readonly #leaving = new Set<Entry>();
  /** Labels whose pages were erased recently. Pages that arrive late for these labels are not stored. */
  readonly #erasedLabels = new Map<string, number>();
  readonly #removed = new RemovedPages();
  readonly #encrypts: boolean;
  readonly #now: () => number;
  #changes: Promise<unknown> = Promise.resolve();
  #closed = false;

  private constructor(private readonly options: PageStoreOptions) {
    this.#journal = new Journal(options.folder, options.files, options.journalSlackBytes);
    this.#slabs = new SlabFiles(options.folder, options.files, options.maxBytes);
    this.#index = new PageIndex(this.#slabs);
    this.#encrypts = options.encrypts ?? true;
    this.#now = options.now ?? (() => Math.floor(Date.now() / 1000));
  }

  /** Opens the store in an existing directory. Rejects with the file system's error. */
  static async open(options: PageStoreOptions): Promise<PageStore> {
    const store = new PageStore(options);
    try {
      await store.#load();
    } catch (error) {
      await Promise.allSettled([store.#journal.close(), store.#slabs.close()]);
      throw error;
    }
    return store;
  }

  async #load(): Promise<void> {
    await this.#slabs.open();
    for (const entry of await this.#journal.read()) this.#index.replay(entry);
    this.#index.countReferences();
    await this.#fit();
    await this.#journal.rewrite(this.#index.snapshot());
    await this.#slabs.eraseFree();
    if (this.bytes > this.options.maxBytes) await this.#slabs.trim();
  }

  /** Shrinks the store to its byte budget, which may be smaller than at the last start. */
  async #fit(): Promise<void> {
    const { maxBytes } = this.options;
    if (this.bytes <= maxBytes) return;
    this.counts.evicted += evictToFit(this.#index, maxBytes);
    // The journal must no longer list the removed records, because compact() may overwrite their slots.
    await this.#journal.rewrite(this.#index.snapshot());
    await compact(this.#index, this.#slabs);
  }

  /** Bytes of the page files. */
  get bytes(): number {
    return this.#slabs.bytes;
  }
  get records(): number {
    return this.#index.size;
  }
  get maxBytes(): number {
    return this.options.maxBytes;
  }
  hasAnyOf(organization: string): boolean {
    return this.#index.hasAnyOf(organization);
  }
  hasEngine(key: Buffer): boolean {
    const engine = hex(key);
    return this.#index.entries.some((entry) => entry.engine === engine);
  }
  /** Labels that were added at least `olderThanS` seconds ago. */
  labels(olderThanS: number): string[] {
    return this.#index.labelsBefore(this.#now() - olderThanS);
  }

  /**
   * Stores those pages whose predecessors are already stored or part of the call, and records that `label` needs the
   * prefix. Pages that are already stored are not written again. Resolves when all data is durable. Never rejects:
   * pages that cannot be stored are counted and reported.
   */
  async put(options: PutOptions): Promise<void> {
    if (this.#closed) {
      this.counts.skipped += options.pages.length;
      return;
    }
    await this.#change(async () => {
      try {
        await this.#put(options);
      } catch (error) {
        this.options.report?.('write', error);
      }
    });
  }

  async #put({ engine, organization, text, pages, label, keepS }: PutOptions): Promise<void> {
    if (label !== null && this.#erasedLabels.has(label)) return;
    const byIndex = new Map(pages.map(({ index, parts }) => [index, parts]));
    const written: Entry[] = [];
    // Number of records of this call that have not been handled yet.
    let left = pages.reduce((sum, { parts }) => sum + PARTS.filter((part) => parts[part] !== undefined).length, 0);
    let leaf: Entry | null = null;
    const until = keepS > 0 ? this.#now() + keepS : 0;
    const extended: Entry[] = [];
    try {
      for (const page of chainPages(organization, text, Math.floor(text.tokens.length / 16))) {
        const parts = byIndex.get(page.index) ?? {};
        for (const part of PARTS) {
          const data = parts[part];
          const name = nameOf(engine.key, page, part);
          const known = this.#index.get(name);
          this.#inUse.add(name);
          if (known !== undefined) {
            this.#index.touch(known);
            // A journal entry for each use would make the journal grow without bound.
            if (known.until > 0 && (until === 0 || until >= known.until + EXTEND_S)) {
              known.until = until;
              extended.push(known);
            }
          } else if (data !== undefined) {
            const entry = await this.#write({ engine, organization, page, part, data, until, following: left });
            if (entry === null) this.counts.skipped++;
            else written.push(entry);
          }
          if (data !== undefined) left--;
        }
        const own = this.#index.get(nameOf(engine.key, page, 'full'));
        if (own === undefined) {
          // Without this page, the pages after it cannot be found. They are counted as not stored, so that the engine
          // exports them again.
          this.counts.skipped += pages.filter(({ index }) => index > page.index).length;
          break;
        }
        leaf = own;
      }
      await this.#slabs.sync(written.map(({ slot }) => slot));
      await this.#journal.append([...written.map(journaled), ...extended.map(({ name, until: u }) => ['u', name, u])]);
    } catch (error) {
      for (const entry of written) this.#index.forget(entry); // the next records overwrite the freed slots
      this.counts.skipped += written.length + 1;
      throw error;
    } finally {
      this.#inUse.clear();
    }
    for (const { bytes } of written) {
      this.counts.written++;
      this.counts.writtenBytes += bytes;
    }
    if (label !== null && leaf !== null) await this.#refer(label, leaf);
  }

  async #write({
    engine,
    organization,
    page,
    part,
    data,
    until,
    following,
  }: {
    engine: EngineIdentity;
    organization: OrganizationKeys;
    page: ChainPage;
    part: PagePart;
    data: Uint8Array;
    until: number;
    /** Number of records left to write, including this one. If the store is full, space for them is freed together. */
    following: number;
  }): Promise<Entry | null> {
    const slotBytes = SlabFiles.slotBytes(recordBytes(data.length));
    const slot = await this.#room(slotBytes, following);
    if (slot === null) return null;
    try {
      const record = this.#writeBuffers.take(slotBytes);
      sealRecord({ engine: engine.key, organization, page, part }, data, record, this.#encrypts);
      await this.#slabs.write(slot, record);
      this.#writeBuffers.give(record);
    } catch (error) {
      slot.slab.free(slot.index);
      throw error;
    }
    const value = (engine.tokenMs * 16 * 1024) / Math.max(data.length, 1024);
    const entry: Entry = {
      name: nameOf(engine.key, page, part),
      engine: hex(engine.key),
      organization: organization.id,
      digest: hex(page.digest),
      parent: hex(page.parent),
      part,
      page: page.index,
      slot,
      bytes: data.length,
      references: 0,
      pins: 0,
      until,
      value,
      priority: this.#index.clock + value,
      at: 0,
    };
    this.#index.add(entry);
    if (part === 'full') this.#removed.delete(entry.name);
    return entry;
  }

  /** Reserves a slot, evicting records if necessary. Returns null if the budget is too small. */
  async #room(slotBytes: number, following: number): Promise<Slot | null> {
    for (;;) {
      const slot = this.#index.size < MAX_RECORDS ? await this.#slabs.allocate(slotBytes) : null;
      if (slot !== null) return slot;
      if (slotBytes > this.options.maxBytes) return null;
      const victims = this.#index.victims(slotBytes, Math.min(following, EVICTED_TOGETHER), this.#inUse);
      if (victims.length === 0) return null;
      const slots = victims.map(({ slot: own }) => own);
      await this.#overwrite(victims);
      for (const entry of victims) {
        this.#index.evict(entry);
        this.#left(entry, 'evicted');
        this.counts.evicted++;
      }
      for (const slab of new Set(slots.map(({ slab: own }) => own)))
        if (slab.used.size === 0 && slab.slotBytes !== slotBytes) await this.#slabs.remove(slab);
    }
  }

  /** Returns the number and total size of the pages of each engine key and organization. */
  usage(): StoreUsage[] {
    return [...this.#index.usage];
  }
  /** Returns the IDs of the organizations that have pages. */
  organizations(): string[] {
    return this.#index.organizations();
  }

  /** Returns why a page of a text is not stored. */
  whyMissing(engine: EngineIdentity, page: ChainPage): Removal | 'other engine' | 'never stored' {
    const removal = this.#removed.get(nameOf(engine.key, page, 'full'));
    if (removal !== undefined) return removal;
    return this.#index.hasForOtherEngine(hex(engine.key), hex(page.digest)) ? 'other engine' : 'never stored';
  }

  /** Returns the stored parts of each leading page of a text, up to the first page that is not stored. */
  find(engine: EngineIdentity, organization: OrganizationKeys, text: PositionText, pages: number): LookUp['stored'] {
    return this.lookUp(engine, organization, text, pages).stored;
  }

  /** Like find(), but also returns in `missing` the first page that is not stored. */
  lookUp(engine: EngineIdentity, organization: OrganizationKeys, text: PositionText, pages: number): LookUp {
    const stored: PagePart[][] = [];
    for (const page of chainPages(organization, text, pages)) {
      if (!this.#index.has(nameOf(engine.key, page, 'full'))) return { stored, missing: page };
      stored.push(PARTS.filter((part) => this.#index.has(nameOf(engine.key, page, part))));
    }
    return { stored, missing: null };
  }

  /**
   * Reads parts of pages. `wanted`: the parts to read, by page index. A record that cannot be read or verified is
   * dropped and is missing from the result.
   */
  async read(
    engine: EngineIdentity,
    organization: OrganizationKeys,
    text: PositionText,
    wanted: ReadonlyMap<number, readonly PagePart[]>,
  ): Promise<Map<number, PageParts>> {
    const read = new Map<number, PageParts>();
    const pages = [...chainPages(organization, text, Math.max(-1, ...wanted.keys()) + 1)];
    const records = pages.flatMap((page) =>
      (wanted.get(page.index) ?? []).flatMap((part) => {
        const entry = this.#index.get(nameOf(engine.key, page, part));
        return entry === undefined ? [] : [{ entry, page }];
      }),
    );
    const left = inRuns(records).values();
    const work = async (): Promise<void> => {
      for (const run of left)
        for (const { entry, page, data } of await this.#readRun(run, engine, organization))
          read.set(page.index, { ...read.get(page.index), [entry.part]: data });
    };
    await Promise.all(Array.from({ length: READS }, work));
    return read;
  }

  /**
   * Reads records in consecutive slots with one read. Records that cannot be read or verified are dropped and
   * omitted from the result.
   */
  async #readRun(run: readonly Wanted[], engine: EngineIdentity, organization: OrganizationKeys): Promise<Found[]> {
    const found: Found[] = [];
    const { slot } = run[0]!.entry;
    const { slotBytes } = slot.slab;
    const bytes = run.length * slotBytes;
    const buffer = this.#readBuffers.take(Math.max(READ_BYTES, slotBytes));
    let bytesRead = 0;
    try {
      bytesRead = await this.#slabs.read(slot, buffer.subarray(0, bytes));
    } catch (error) {
      // The buffer is not returned to #readBuffers, because the failed read may still write to it.
      if (run.length > 1) {
        for (const one of run) found.push(...(await this.#readRun([one], engine, organization)));
      } else if (this.#isStored(run[0]!.entry)) {
        this.options.report?.('read', error);
        this.#drop(run[0]!.entry, 'unreadable');
      }
      return found;
    }
    for (const [at, { entry, page }] of run.entries()) {
      const isComplete = (at + 1) * slotBytes <= bytesRead;
      const name = { engine: engine.key, organization, page, part: entry.part };
      const record = buffer.subarray(at * slotBytes, (at + 1) * slotBytes);
      const data = isComplete ? openRecord(name, record, this.#encrypts) : null;
      if (data !== null && data.length === entry.bytes) {
        this.#index.touch(entry);
        this.counts.read++;
        this.counts.readBytes += data.length;
        found.push({ entry, page, data });
      } else if (this.#isStored(entry)) {
        this.#drop(entry, isComplete ? 'corrupt' : 'interrupted');
      }
    }
    this.#readBuffers.give(buffer);
    return found;
  }

  /** Returns false if the record was evicted or erased while it was being read. */
  #isStored(entry: Entry): boolean {
    return this.#index.get(entry.name) === entry && !this.#leaving.has(entry);
  }

  /** Erases an unusable record and the records of the following pages, which can be found only through this one. */
  #drop(entry: Entry, reason: DropReason): void {
    this.counts.dropped[reason]++;
    void this.#change(() => this.#erase(this.#index.withDescendants([entry]), 'damaged')).catch(() => undefined);
  }

  /**
   * Removes these labels and erases the pages that no other label needs. Resolves when the pages have been
   * overwritten.
   */
  eraseLabels(labels: readonly string[]): Promise<void> {
    return this.#change(async () => {
      const gone: Entry[] = [];
      const known: string[] = [];
      for (const label of labels) {
        this.#erasedLabels.set(label, this.#now());
        const released = this.#index.release(label);
        if (released === null) continue;
        known.push(label);
        gone.push(...released);
      }
      for (const [label, at] of this.#erasedLabels)
        if (at < this.#now() - 86_400 || this.#erasedLabels.size > 100_000) this.#erasedLabels.delete(label);
      await this.#erase(this.#index.withDescendants(gone));
      await this.#journal.append(known.map((label) => ['x', label]));
    });
  }

  /**
   * Erases all pages, or only the pages of one organization or of some engine keys. `keepPinned`: keeps the pages of
   * pinned prompts. Resolves to the number and total bytes of the erased records.
   */
  eraseWhere(matches: {
    organization?: string;
    engines?: readonly Buffer[];
    keepPinned?: boolean;
  }): Promise<{ records: number; bytes: number }> {
    return this.#change(async () => {
      const engines = matches.engines === undefined ? undefined : new Set(matches.engines.map(hex));
      const gone = this.#index.entries.filter(
        (entry) =>
          (matches.organization === undefined || entry.organization === matches.organization) &&
          engines?.has(entry.engine) !== false &&
          (matches.keepPinned !== true || !this.#index.isPinned(entry)),
      );
      const bytes = gone.reduce((sum, { slot }) => sum + slot.slab.slotBytes, 0);
      await this.#erase(this.#index.withDescendants(gone));
      return { records: gone.length, bytes };
    });
  }

  /** Erases expired pages. */
  eraseExpired(): Promise<void> {
    return this.#change(async () => {
      const now = this.#now();
      const gone = this.#index.entries.filter(
        (entry) => entry.until > 0 && entry.until < now && !this.#index.isReferenced(entry),
      );
      await this.#erase(this.#index.withDescendants(gone), 'expired');
    });
  }

  #left({ name, part }: Entry, reason: RemovalReason): void {
    if (part === 'full') this.#removed.add(name, reason, this.#now());
  }

  async #erase(entries: readonly Entry[], reason: RemovalReason = 'erased'): Promise<void> {
    const left = entries.filter((entry) => this.#index.get(entry.name) === entry);
    if (left.length === 0) return;
    try {
      // If overwriting fails, the pages are removed from the index anyway. Their bytes are overwritten at the next
      // startup.
      await this.#overwrite(left);
    } catch (error) {
      for (const entry of left) this.#index.unlink(entry);
      this.options.report?.('erase', error);
      throw error;
    }
    for (const entry of left) {
      this.#index.forget(entry);
      this.#left(entry, reason);
    }
    this.counts.erased += left.length;
    for (const slab of new Set(left.map(({ slot }) => slot.slab)))
      if (slab.used.size === 0) await this.#slabs.remove(slab);
  }

  /** Overwrites records and then removes them from the journal. */
  async #overwrite(entries: readonly Entry[]): Promise<void> {
    for (const entry of entries) this.#leaving.add(entry);
    try {
      await this.#slabs.erase(entries.map(({ slot }) => slot));
      await this.#journal.append(entries.map(({ name }) => ['d', name]));
    } finally {
      this.#leaving.clear(); // changes run one at a time, so all these entries belong to this one
    }
  }

  /** Writes the eviction order and closes the files. */
  close(): Promise<void> {
    if (this.#closed) return this.settled();
    const closing = this.#change(async () => {
      await this.#journal
        .rewrite(this.#index.snapshot())
        .catch((error: unknown) => this.options.report?.('write', error));
      await this.#journal.close();
      await this.#slabs.close();
    });
    this.#closed = true;
    return closing;
  }

  /** Resolves when all changes that were requested so far are done. */
  async settled(): Promise<void> {
    await this.#changes;
  }

  #change<T>(work: () => Promise<T>): Promise<T> {
    // Slots that appear free in a closed store may contain records.
    if (this.#closed) return Promise.reject(new Error('the page store is closed'));
    const result = this.#changes.then(work);
    this.#changes = result
      .catch(() => undefined)
      .then(() => this.#shorten())
      .catch((error: unknown) => this.options.report?.('write', error));
    return result;
  }

  async #shorten(): Promise<void> {
    if (!this.#closed && this.#journal.isLarge) await this.#journal.rewrite(this.#index.snapshot());
  }

  async #refer(label: string, leaf: Entry): Promise<void> {
    const now = this.#now();
    if (isPinLabel(label)) {
      // The prefix stored for a pinned prompt is outdated if the prompt's tokens or the engine key have changed since
      // it was stored.
      const { leaf: last, replaced } = this.#index.pinnedLeaf(label, leaf.name);
      if (replaced) {
        await this.#journal.append([
          ['x', label],
          ['r', label, last, now],
        ]);
        await this.#erase(this.#index.withDescendants(this.#index.referOnly(label, last, now)));
        return;
      }
      if (last !== leaf.name) return;
    }
    if (this.#index.refers(label, leaf.name)) return;
    await this.#journal.append([['r', label, leaf.name, now]]);
    this.#index.refer(label, leaf.name, now);
  }
}

/** Groups neighboring records of the list that are in consecutive slots into reads of at most READ_BYTES. */
function inRuns(records: readonly Wanted[]): Wanted[][] {
  const runs: Wanted[][] = [];
  for (const record of records) {
    const { slab, index } = record.entry.slot;
    const run = runs.at(-1);
    const last = run?.at(-1)?.entry.slot;
    if (last?.slab === slab && last.index + 1 === index && (run!.length + 1) * slab.slotBytes <= READ_BYTES)
      run!.push(record);
    else runs.push([record]);
  }
  return runs;
}

const nameOf = (engine: Buffer, page: ChainPage, part: PagePart): string =>
  entryName(part, hex(engine), hex(page.digest));
