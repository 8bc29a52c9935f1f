// The page store: records of KV pages in the data directory, found by engine and chain digest, within a byte budget.
//
// Writing: the records of a batch are written and synced, then their index entries are appended to the journal and
// synced. Erasing: the bytes are overwritten and synced, then the index entries are removed. A record without an index
// entry is garbage and is overwritten at startup. A record that cannot be verified is dropped.
//
// Changes run one after another; reads run at any time. Worker thread only (tier-worker.ts).
import { Journal, type JournalEntry } from './journal.js';
import { chainPages, type ChainPage, type OrganizationKeys, type PositionText } from './page-content.js';
import type { PageFiles } from './page-files.js';
import { openRecord, PARTS, recordBytes, sealRecord, type PagePart } from './page-record.js';
import { SlabFiles, type Slab, type Slot } from './slab-files.js';

/** Limits the memory of the index. */
const MAX_RECORDS = 400_000;
const SAMPLE = 48;
/** The time limit of a page is extended only by at least this many seconds. */
const EXTEND_S = 3_600;

export interface EngineIdentity {
  /** SHA-256 over everything that changes the bits of a page. */
  readonly key: Buffer;
  /** Estimated time to compute one token, in ms; only the ratio between engines matters. */
  readonly tokenMs: number;
}

/** Parts of one page, to be stored or as stored. */
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

interface Entry {
  readonly name: string;
  readonly engine: string;
  readonly organization: string;
  readonly digest: string;
  readonly parent: string;
  readonly part: PagePart;
  readonly page: number;
  readonly slot: Slot;
  readonly bytes: number;
  /** Number of references by labels; only the entries of the part `full` are counted. */
  references: number;
  /** Time in seconds after which the entry is erased unless it is referenced; 0 = no limit. */
  until: number;
  /** Time saved per byte, relative to other engines. */
  readonly value: number;
  /** The entry with the lowest priority is evicted first. */
  priority: number;
  at: number; // index in the list of all entries
}

/** Why a put or a lookup did less than it could; for the log. */
export type StoreProblem = (action: 'write' | 'read' | 'erase', error: unknown) => void;

export interface PageStoreOptions {
  readonly folder: string;
  readonly files: PageFiles;
  readonly maxBytes: number;
  /** False only in tests. */
  readonly encrypts?: boolean;
  readonly report?: StoreProblem;
  readonly now?: () => number; // seconds
}

export interface PutOptions {
  readonly engine: EngineIdentity;
  readonly organization: OrganizationKeys;
  readonly text: PositionText;
  readonly pages: readonly { readonly index: number; readonly parts: PageParts }[];
  /** Stored response that needs the prefix; null: none does. */
  readonly label: string | null;
  /** Seconds for which the pages are kept without a label; 0 = until they are evicted. */
  readonly keepS: number;
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
  readonly #entries = new Map<string, Entry>();
  readonly #list: Entry[] = [];
  readonly #bySlot = new Map<string, Entry>();
  readonly #children = new Map<string, Set<string>>(); // names of `full` entries by the name of their parent's
  /** The last page of each prefix that a label needs, and the labels by that page. */
  readonly #labels = new Map<string, Set<string>>();
  readonly #labelsOf = new Map<string, Set<string>>();
  readonly #perOrganization = new Map<string, number>();
  /** Entries of the put in progress, which are not evicted for it. */
  readonly #pinned = new Set<string>();
  readonly #labelTimes = new Map<string, number>();
  /** Labels whose pages were erased recently, so that late pages are not stored. */
  readonly #erasedLabels = new Map<string, number>();
  readonly #encrypts: boolean;
  readonly #now: () => number;
  #clock = 0; // priority of the entry that was evicted last
  #changes: Promise<unknown> = Promise.resolve();
  #closed = false;

  private constructor(private readonly options: PageStoreOptions) {
    this.#journal = new Journal(options.folder, options.files);
    this.#slabs = new SlabFiles(options.folder, options.files, options.maxBytes);
    this.#encrypts = options.encrypts ?? true;
    this.#now = options.now ?? (() => Math.floor(Date.now() / 1000));
  }

  /** Opens the store in an existing directory. Rejects with the file system's error. */
  static async open(options: PageStoreOptions): Promise<PageStore> {
    const store = new PageStore(options);
    await store.#slabs.open();
    for (const entry of await store.#journal.read()) store.#replay(entry);
    store.#countReferences();
    await store.#journal.rewrite(store.#snapshot());
    await store.#slabs.eraseFree();
    return store;
  }

  /** Bytes of the page files. */
  get bytes(): number {
    return this.#slabs.bytes;
  }
  get records(): number {
    return this.#entries.size;
  }
  get maxBytes(): number {
    return this.options.maxBytes;
  }
  hasAnyOf(organization: string): boolean {
    return (this.#perOrganization.get(organization) ?? 0) > 0;
  }
  /** Labels that were added at least `olderThanS` seconds ago. */
  labels(olderThanS: number): string[] {
    const before = this.#now() - olderThanS;
    return [...this.#labels.keys()].filter((label) => (this.#labelTimes.get(label) ?? 0) <= before);
  }

  /**
   * Stores pages whose predecessors are stored or among them, and notes that `label` needs the prefix. Pages that are
   * stored already are not written again. Resolves when everything is durable. Never rejects: what cannot be stored is
   * counted and reported.
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
    let leaf: Entry | null = null;
    const until = keepS > 0 ? this.#now() + keepS : 0;
    const extended: Entry[] = [];
    try {
      for (const page of chainPages(organization, text, Math.floor(text.tokens.length / 16))) {
        const parts = byIndex.get(page.index) ?? {};
        for (const part of PARTS) {
          const data = parts[part];
          const name = nameOf(engine.key, page, part);
          const known = this.#entries.get(name);
          this.#pinned.add(name);
          if (known !== undefined) {
            this.#touch(known);
            // An entry in the journal for each use would make it grow without bound.
            if (known.until > 0 && (until === 0 || until >= known.until + EXTEND_S)) {
              known.until = until;
              extended.push(known);
            }
          } else if (data !== undefined) {
            const entry = await this.#write({ engine, organization, page, part, data, until });
            if (entry === null) this.counts.skipped++;
            else written.push(entry);
          }
        }
        const own = this.#entries.get(nameOf(engine.key, page, 'full'));
        if (own === undefined) {
          // What follows could not be found. It is counted, so that the engine exports it again.
          this.counts.skipped += pages.filter(({ index }) => index > page.index).length;
          break;
        }
        leaf = own;
      }
      await this.#slabs.sync(written.map(({ slot }) => slot));
      await this.#journal.append([...written.map(journaled), ...extended.map(({ name, until: u }) => ['u', name, u])]);
    } catch (error) {
      for (const entry of written) this.#forget(entry); // their bytes are overwritten with the next free slots
      this.counts.skipped += written.length + 1;
      throw error;
    } finally {
      this.#pinned.clear();
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
  }: {
    engine: EngineIdentity;
    organization: OrganizationKeys;
    page: ChainPage;
    part: PagePart;
    data: Uint8Array;
    until: number;
  }): Promise<Entry | null> {
    const slotBytes = SlabFiles.slotBytes(recordBytes(data.length));
    const slot = await this.#room(slotBytes);
    if (slot === null) return null;
    try {
      const record = Buffer.allocUnsafe(slotBytes);
      sealRecord({ engine: engine.key, organization, page, part }, data, record, this.#encrypts);
      await this.#slabs.write(slot, record);
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
      until,
      value,
      priority: this.#clock + value,
      at: 0,
    };
    this.#add(entry);
    return entry;
  }

  /** Reserves a slot, evicting records if necessary. Null: the budget is too small. */
  async #room(slotBytes: number): Promise<Slot | null> {
    for (;;) {
      const slot = this.#entries.size < MAX_RECORDS ? await this.#slabs.allocate(slotBytes) : null;
      if (slot !== null) return slot;
      if (slotBytes > this.options.maxBytes) return null;
      const victims = this.#victims(slotBytes);
      if (victims.length === 0) return null;
      const slots = victims.map(({ slot: own }) => own);
      await this.#slabs.erase(slots);
      await this.#journal.append(victims.map(({ name }) => ['d', name]));
      for (const entry of victims) {
        this.#clock = Math.max(this.#clock, entry.priority);
        this.#forget(entry);
        this.counts.evicted++;
      }
      for (const slab of new Set(slots.map(({ slab: own }) => own)))
        if (slab.used.size === 0 && slab.slotBytes !== slotBytes) await this.#slabs.remove(slab);
    }
  }

  /** What to evict for a slot of this size: one page of it, or all records of the least useful file. */
  #victims(slotBytes: number): Entry[] {
    let found: Entry | null = null;
    for (let tries = 0, seen = 0; tries < 16 * SAMPLE && seen < SAMPLE && this.#list.length > 0; tries++) {
      const entry = this.#list[Math.floor(Math.random() * this.#list.length)]!;
      if (entry.slot.slab.slotBytes !== slotBytes || this.#pinned.has(entry.name)) continue;
      seen++;
      if (
        found === null ||
        entry.priority < found.priority ||
        (entry.priority === found.priority && entry.page > found.page)
      )
        found = entry;
    }
    if (found !== null) return this.#deepest(found);
    const means: { slab: Slab; mean: number }[] = [];
    for (const slab of this.#slabs.all()) {
      if (slab.slotBytes === slotBytes) continue;
      let sum = 0;
      for (const index of slab.used) sum += this.#bySlot.get(slotName(slab, index))?.priority ?? 0;
      means.push({ slab, mean: slab.used.size === 0 ? 0 : sum / slab.used.size });
    }
    for (const { slab } of means.sort((a, b) => a.mean - b.mean)) {
      const all = [...slab.used].flatMap((index) => this.#bySlot.get(slotName(slab, index)) ?? []);
      const gone = this.#withDescendants(all);
      if (gone.length > 0 && !gone.some(({ name }) => this.#pinned.has(name))) return gone;
    }
    return [];
  }

  /** The deepest pages after `entry` leave before it, because nothing could find them any more. */
  #deepest(entry: Entry): Entry[] {
    if (entry.part !== 'full') return [entry];
    let leaf = entry;
    for (;;) {
      const [child] = this.#children.get(leaf.name) ?? [];
      const next = child === undefined ? undefined : this.#entries.get(child);
      if (next === undefined) break;
      leaf = next;
    }
    return this.#pinned.has(leaf.name) ? [] : this.#partsOf(leaf);
  }

  #partsOf({ engine, digest }: Entry): Entry[] {
    return PARTS.flatMap((part) => this.#entries.get(`${part}:${engine}:${digest}`) ?? []);
  }

  /** The parts that are stored of each leading page of a text; ends at the first page that is not stored. */
  find(engine: EngineIdentity, organization: OrganizationKeys, text: PositionText, pages: number): PagePart[][] {
    const found: PagePart[][] = [];
    for (const page of chainPages(organization, text, pages)) {
      if (!this.#entries.has(nameOf(engine.key, page, 'full'))) break;
      found.push(PARTS.filter((part) => this.#entries.has(nameOf(engine.key, page, part))));
    }
    return found;
  }

  /**
   * Reads parts of pages. `wanted`: the parts per page index. A record that cannot be read or verified is dropped and
   * is missing from the result.
   */
  async read(
    engine: EngineIdentity,
    organization: OrganizationKeys,
    text: PositionText,
    wanted: ReadonlyMap<number, readonly PagePart[]>,
  ): Promise<Map<number, PageParts>> {
    const read = new Map<number, PageParts>();
    const last = Math.max(-1, ...wanted.keys());
    const pending: Promise<void>[] = [];
    for (const page of chainPages(organization, text, last + 1)) {
      for (const part of wanted.get(page.index) ?? []) {
        const entry = this.#entries.get(nameOf(engine.key, page, part));
        if (entry === undefined) continue;
        pending.push(
          this.#read(entry, engine, organization, page).then((data) => {
            if (data !== null) read.set(page.index, { ...read.get(page.index), [part]: data });
          }),
        );
      }
    }
    await Promise.all(pending);
    return read;
  }

  async #read(
    entry: Entry,
    engine: EngineIdentity,
    organization: OrganizationKeys,
    page: ChainPage,
  ): Promise<Buffer | null> {
    let reason: DropReason;
    try {
      const record = await this.#slabs.read(entry.slot);
      const name = { engine: engine.key, organization, page, part: entry.part };
      const data = record === null ? null : openRecord(name, record, this.#encrypts);
      if (data !== null && data.length === entry.bytes) {
        this.#touch(entry);
        this.counts.read++;
        this.counts.readBytes += data.length;
        return data;
      }
      if (this.#entries.get(entry.name) !== entry) return null; // evicted or erased while it was read
      reason = record === null ? 'interrupted' : 'corrupt';
    } catch (error) {
      this.options.report?.('read', error);
      reason = 'unreadable';
    }
    this.counts.dropped[reason]++;
    void this.#change(() => this.#erase(this.#withDescendants([entry]))).catch(() => undefined);
    return null;
  }

  /** Erases the pages that no label needs after these labels are gone. Resolves when they are overwritten. */
  eraseLabels(labels: readonly string[]): Promise<void> {
    return this.#change(async () => {
      const gone: Entry[] = [];
      const known: string[] = [];
      for (const label of labels) {
        this.#erasedLabels.set(label, this.#now());
        const leaves = this.#labels.get(label);
        if (leaves === undefined) continue;
        known.push(label);
        for (const leaf of leaves)
          for (const entry of this.#chain(leaf)) if (--entry.references === 0) gone.push(entry);
        this.#dropLabel(label);
      }
      for (const [label, at] of this.#erasedLabels)
        if (at < this.#now() - 86_400 || this.#erasedLabels.size > 100_000) this.#erasedLabels.delete(label);
      await this.#erase(this.#withDescendants(gone));
      await this.#journal.append(known.map((label) => ['x', label]));
    });
  }

  /** Erases everything of an organization, an engine, or all. */
  eraseWhere(matches: { organization?: string; engine?: Buffer }): Promise<number> {
    return this.#change(async () => {
      const engine = matches.engine === undefined ? undefined : hex(matches.engine);
      const gone = this.#list.filter(
        (entry) =>
          (matches.organization === undefined || entry.organization === matches.organization) &&
          (engine === undefined || entry.engine === engine),
      );
      await this.#erase(this.#withDescendants(gone));
      return gone.length;
    });
  }

  /** Erases pages whose time is over. */
  eraseExpired(): Promise<void> {
    return this.#change(async () => {
      const now = this.#now();
      const gone = this.#list.filter(({ until, references }) => until > 0 && until < now && references === 0);
      await this.#erase(this.#withDescendants(gone));
    });
  }

  /** Adds the pages that can be found only through these. The deepest pages come first. */
  #withDescendants(entries: readonly Entry[]): Entry[] {
    const all = new Set(entries);
    for (const entry of all) {
      if (entry.part !== 'full') continue;
      for (const part of this.#partsOf(entry)) all.add(part);
      for (const child of this.#children.get(entry.name) ?? []) {
        const found = this.#entries.get(child);
        if (found !== undefined) all.add(found);
      }
    }
    return [...all].sort((a, b) => b.page - a.page);
  }

  async #erase(entries: readonly Entry[]): Promise<void> {
    const left = entries.filter((entry) => this.#entries.get(entry.name) === entry);
    if (left.length === 0) return;
    try {
      // Nobody finds them any more, even if overwriting fails; then the next start tries again.
      await this.#slabs.erase(left.map(({ slot }) => slot));
      await this.#journal.append(left.map(({ name }) => ['d', name]));
    } catch (error) {
      for (const entry of left) this.#unlink(entry);
      this.options.report?.('erase', error);
      throw error;
    }
    for (const entry of left) this.#forget(entry);
    this.counts.erased += left.length;
    for (const slab of new Set(left.map(({ slot }) => slot.slab)))
      if (slab.used.size === 0) await this.#slabs.remove(slab);
  }

  /** Writes the order of eviction, and closes the files. */
  close(): Promise<void> {
    if (this.#closed) return this.settled();
    const closing = this.#change(async () => {
      await this.#journal.rewrite(this.#snapshot()).catch((error: unknown) => this.options.report?.('write', error));
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
    // The slots that a closed store seems to have free may hold records.
    if (this.#closed) return Promise.reject(new Error('the page store is closed'));
    const result = this.#changes.then(work);
    this.#changes = result
      .catch(() => undefined)
      .then(() => this.#shorten())
      .catch((error: unknown) => this.options.report?.('write', error));
    return result;
  }

  async #shorten(): Promise<void> {
    if (!this.#closed && this.#journal.isLarge) await this.#journal.rewrite(this.#snapshot());
  }

  /** An entry that was used is worth what it saves, counted from the priority of the entry that was evicted last. */
  #touch(entry: Entry): void {
    entry.priority = Math.max(entry.priority, this.#clock + entry.value);
  }

  /** The entry and all its ancestors. */
  *#chain(name: string): Generator<Entry> {
    for (let entry = this.#entries.get(name); entry !== undefined; ) {
      yield entry;
      entry = entry.parent === '' ? undefined : this.#entries.get(`full:${entry.engine}:${entry.parent}`);
    }
  }

  async #refer(label: string, leaf: Entry): Promise<void> {
    const leaves = this.#labels.get(label) ?? new Set();
    if (leaves.has(leaf.name)) return;
    await this.#journal.append([['r', label, leaf.name, this.#now()]]);
    this.#reference(label, leaf.name, this.#now());
    for (const entry of this.#chain(leaf.name)) entry.references++;
  }

  #reference(label: string, leaf: string, at: number): void {
    const leaves = this.#labels.get(label) ?? new Set();
    leaves.add(leaf);
    this.#labels.set(label, leaves);
    this.#labelTimes.set(label, at);
    this.#labelsOf.set(leaf, (this.#labelsOf.get(leaf) ?? new Set()).add(label));
  }

  #dropLabel(label: string): void {
    for (const leaf of this.#labels.get(label) ?? []) {
      const labels = this.#labelsOf.get(leaf);
      labels?.delete(label);
      if (labels?.size === 0) this.#labelsOf.delete(leaf);
    }
    this.#labels.delete(label);
    this.#labelTimes.delete(label);
  }

  #countReferences(): void {
    for (const entry of this.#list) entry.references = 0;
    for (const leaves of this.#labels.values())
      for (const leaf of leaves) for (const entry of this.#chain(leaf)) entry.references++;
  }

  #add(entry: Entry): void {
    entry.at = this.#list.length;
    this.#list.push(entry);
    this.#entries.set(entry.name, entry);
    this.#perOrganization.set(entry.organization, (this.#perOrganization.get(entry.organization) ?? 0) + 1);
    this.#bySlot.set(slotName(entry.slot.slab, entry.slot.index), entry);
    if (entry.part !== 'full' || entry.parent === '') return;
    const parent = `full:${entry.engine}:${entry.parent}`;
    const children = this.#children.get(parent) ?? new Set();
    children.add(entry.name);
    this.#children.set(parent, children);
  }

  /** Removes the entry from the index and frees its slot. */
  #forget(entry: Entry): void {
    this.#unlink(entry);
    this.#bySlot.delete(slotName(entry.slot.slab, entry.slot.index));
    entry.slot.slab.free(entry.slot.index);
  }

  #unlink(entry: Entry): void {
    if (this.#entries.get(entry.name) !== entry) return;
    this.#entries.delete(entry.name);
    const others = (this.#perOrganization.get(entry.organization) ?? 1) - 1;
    if (others === 0) this.#perOrganization.delete(entry.organization);
    else this.#perOrganization.set(entry.organization, others);
    const last = this.#list.pop()!;
    if (last !== entry) {
      this.#list[entry.at] = last;
      last.at = entry.at;
    }
    if (entry.part !== 'full') return;
    const parent = `full:${entry.engine}:${entry.parent}`;
    // What needed this page still needs the pages before it.
    for (const label of this.#labelsOf.get(entry.name) ?? []) {
      const leaves = this.#labels.get(label)!;
      leaves.delete(entry.name);
      if (!this.#entries.has(parent)) {
        if (leaves.size === 0) this.#dropLabel(label);
      } else if (leaves.has(parent)) {
        for (const ancestor of this.#chain(parent)) ancestor.references--;
      } else {
        this.#reference(label, parent, this.#labelTimes.get(label) ?? 0);
      }
    }
    this.#labelsOf.delete(entry.name);
    const children = this.#children.get(parent);
    children?.delete(entry.name);
    if (children?.size === 0) this.#children.delete(parent);
  }

  #replay(entry: JournalEntry): void {
    const [op, first, ...rest] = entry;
    const text = String(first);
    if (op === 'd') {
      const gone = this.#entries.get(text);
      if (gone !== undefined) this.#forget(gone);
    } else if (op === 'r') {
      this.#reference(text, String(rest[0]), Number(rest[1]));
    } else if (op === 'x') {
      this.#dropLabel(text);
    } else if (op === 'u') {
      const known = this.#entries.get(text);
      if (known !== undefined) known.until = Number(rest[0]);
    } else if (op === 'p') {
      const [organization, parent, page, file, index, bytes, until, priority, value] = rest;
      const [part, engine, digest] = text.split(':');
      const slab = this.#slabs.get(String(file));
      const at = Number(index);
      const known = PARTS.find((one) => one === part);
      if (slab === undefined || known === undefined || engine === undefined || digest === undefined) return;
      if (at >= slab.slots || slab.used.has(at) || this.#entries.has(text)) return;
      slab.used.add(at);
      this.#add({
        name: text,
        engine,
        organization: String(organization),
        digest,
        parent: String(parent),
        part: known,
        page: Number(page),
        slot: { slab, index: at },
        bytes: Number(bytes),
        references: 0,
        until: Number(until),
        priority: Number(priority),
        value: Number(value),
        at: 0,
      });
    }
  }

  *#snapshot(): Generator<JournalEntry> {
    // Priorities are kept relative to the clock, which starts at 0 again.
    for (const entry of this.#list) yield journaled({ ...entry, priority: Math.max(0, entry.priority - this.#clock) });
    for (const [label, leaves] of this.#labels)
      for (const leaf of leaves) yield ['r', label, leaf, this.#labelTimes.get(label) ?? 0];
  }
}

const nameOf = (engine: Buffer, page: ChainPage, part: PagePart): string =>
  `${part}:${hex(engine)}:${page.digest.toString('hex')}`;
const slotName = (slab: Slab, index: number): string => `${slab.name}/${index}`;

function journaled(entry: Entry): JournalEntry {
  const { name, organization, parent, page, slot, bytes, until, priority, value } = entry;
  return ['p', name, organization, parent, page, slot.slab.name, slot.index, bytes, until, priority, value];
}
