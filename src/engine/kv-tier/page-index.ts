// In-memory index of the page store: which records exist, which labels need them, and which are evicted first.
// PageStore writes changes to the index to the journal. Worker thread only.
import type { JournalEntry } from './journal.js';
import { isPinLabel } from './labels.js';
import { PARTS, type PagePart } from './page-record.js';
import type { Slab, SlabFiles, Slot } from './slab-files.js';

/** Number of random entries among which the next one to evict is chosen. */
const SAMPLE = 48;

export interface Entry {
  readonly name: string;
  readonly engine: string;
  readonly organization: string;
  readonly digest: string;
  readonly parent: string;
  readonly part: PagePart;
  readonly page: number;
  slot: Slot;
  readonly bytes: number;
  /**
   * Number of labels that need this entry, and how many of these labels belong to pinned prompts. Counted only in
   * entries of the part `full`.
   */
  references: number;
  pins: number;
  /** Time in seconds since 1970 after which the entry is erased, unless a label needs it. 0 = no limit. */
  until: number;
  /** Prefill time saved per byte, comparable between engines. */
  readonly value: number;
  /** The entry with the lowest priority is evicted first. */
  priority: number;
  at: number; // index in #list
}

/** Number and size of the pages that an organization has for one engine key. */
export interface StoreUsage {
  readonly engine: string;
  readonly organization: string;
  readonly pages: number;
  readonly bytes: number;
}

/** Returns the name of a record: its part, engine key and digest. The engine key and the digest are hexadecimal. */
export const entryName = (part: PagePart, engine: string, digest: string): string => `${part}:${engine}:${digest}`;
const slotName = (slab: Slab, index: number): string => `${slab.name}/${index}`;

export function journaled(entry: Entry): JournalEntry {
  const { name, organization, parent, page, slot, bytes, until, priority, value } = entry;
  return ['p', name, organization, parent, page, slot.slab.name, slot.index, bytes, until, priority, value];
}

function addTo(counts: Map<string, number>, key: string, added: number): void {
  const count = (counts.get(key) ?? 0) + added;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

export class PageIndex {
  readonly #entries = new Map<string, Entry>();
  readonly #list: Entry[] = [];
  readonly #bySlot = new Map<string, Entry>();
  readonly #children = new Map<string, Set<string>>(); // `full` entries by the `full` entry of their parent page
  /** Maps each label to the last pages of the prefixes that it needs. `#labelsOf` maps last pages to labels. */
  readonly #labels = new Map<string, Set<string>>();
  readonly #labelsOf = new Map<string, Set<string>>();
  readonly #labelTimes = new Map<string, number>();
  readonly #perOrganization = new Map<string, number>();
  readonly #perEngine = new Map<string, number>();
  /** By engine key and organization. */
  readonly #usage = new Map<string, StoreUsage>();
  #clock = 0; // highest priority of any evicted entry

  constructor(private readonly slabs: SlabFiles) {}

  get size(): number {
    return this.#entries.size;
  }
  get clock(): number {
    return this.#clock;
  }
  /** Returns all entries in no particular order. */
  get entries(): readonly Entry[] {
    return this.#list;
  }
  get(name: string): Entry | undefined {
    return this.#entries.get(name);
  }
  has(name: string): boolean {
    return this.#entries.has(name);
  }
  /** Returns the number and total size of the pages of each engine key and organization. */
  get usage(): Iterable<StoreUsage> {
    return this.#usage.values();
  }
  organizations(): string[] {
    return [...this.#perOrganization.keys()];
  }
  hasAnyOf(organization: string): boolean {
    return (this.#perOrganization.get(organization) ?? 0) > 0;
  }

  /** Returns whether a page with this digest was stored by an engine with a different key. */
  hasForOtherEngine(engine: string, digest: string): boolean {
    for (const other of this.#perEngine.keys())
      if (other !== engine && this.has(entryName('full', other, digest))) return true;
    return false;
  }
  /** Returns whether a label needs the page of an entry. */
  isReferenced({ engine, digest }: Entry): boolean {
    return (this.#entries.get(entryName('full', engine, digest))?.references ?? 0) > 0;
  }
  /** Returns whether the page of an entry belongs to a pinned prompt. Such pages are not evicted. */
  isPinned({ engine, digest }: Entry): boolean {
    return (this.#entries.get(entryName('full', engine, digest))?.pins ?? 0) > 0;
  }

  /** Returns the labels that were added at the time `before` or earlier, in seconds since 1970. */
  labelsBefore(before: number): string[] {
    return [...this.#labels.keys()].filter((label) => (this.#labelTimes.get(label) ?? 0) <= before);
  }
  /** Returns whether `leaf` is the last page of a prefix that `label` needs. */
  refers(label: string, leaf: string): boolean {
    return this.#labels.get(label)?.has(leaf) === true;
  }

  /**
   * Returns entries to evict, in order to free about `count` slots of the size `slotBytes`. Chooses records of this
   * size, or all records of the least useful file of another size if there are none. Entries of pinned prompts and
   * entries named in `kept` are never chosen. The deepest pages of a prefix come first.
   */
  victims(slotBytes: number, count: number, kept: ReadonlySet<string>): Entry[] {
    const victims = new Map<string, Entry>();
    const isLeft = (name: string): boolean => !victims.has(name);
    let found = this.#leastUseful(slotBytes, (name) => !kept.has(name));
    if (found === null) return this.#leastUsefulFile(slotBytes, kept);
    while (found !== null && victims.size < count) {
      const parts = this.#deepest(found, isLeft);
      if (parts.some(({ name }) => kept.has(name))) break;
      for (const part of parts) victims.set(part.name, part);
      found = this.#leastUseful(slotBytes, (name) => !kept.has(name) && isLeft(name));
    }
    return [...victims.values()];
  }

  /**
   * Returns the entry with the lowest priority in a random sample of entries that have this size and whose name
   * `isSuitable` accepts.
   */
  #leastUseful(slotBytes: number, isSuitable: (name: string) => boolean): Entry | null {
    let found: Entry | null = null;
    for (let tries = 0, seen = 0; tries < 16 * SAMPLE && seen < SAMPLE && this.#list.length > 0; tries++) {
      const entry = this.#list[Math.floor(Math.random() * this.#list.length)]!;
      if (entry.slot.slab.slotBytes !== slotBytes || this.isPinned(entry) || !isSuitable(entry.name)) continue;
      seen++;
      if (
        found === null ||
        entry.priority < found.priority ||
        (entry.priority === found.priority && entry.page > found.page)
      )
        found = entry;
    }
    return found;
  }

  #leastUsefulFile(slotBytes: number, kept: ReadonlySet<string>): Entry[] {
    const means: { slab: Slab; mean: number }[] = [];
    for (const slab of this.slabs.all()) {
      if (slab.slotBytes === slotBytes) continue;
      let sum = 0;
      for (const index of slab.used) sum += this.#bySlot.get(slotName(slab, index))?.priority ?? 0;
      means.push({ slab, mean: slab.used.size === 0 ? 0 : sum / slab.used.size });
    }
    for (const { slab } of means.sort((a, b) => a.mean - b.mean)) {
      const all = [...slab.used].flatMap((index) => this.#bySlot.get(slotName(slab, index)) ?? []);
      const gone = this.withDescendants(all);
      if (gone.length > 0 && !gone.some((entry) => kept.has(entry.name) || this.isPinned(entry))) return gone;
    }
    return [];
  }

  /**
   * Returns the records of the deepest page that descends from `entry`, or those of `entry` itself if no page follows
   * it. Deeper pages are evicted first, because they could not be found without the pages before them.
   */
  #deepest(entry: Entry, isLeft: (name: string) => boolean): Entry[] {
    if (entry.part !== 'full') return [entry];
    let leaf = entry;
    for (;;) {
      const child = [...(this.#children.get(leaf.name) ?? [])].find(isLeft);
      const next = child === undefined ? undefined : this.#entries.get(child);
      if (next === undefined) break;
      leaf = next;
    }
    return this.#partsOf(leaf);
  }

  #partsOf({ engine, digest }: Entry): Entry[] {
    return PARTS.flatMap((part) => this.#entries.get(entryName(part, engine, digest)) ?? []);
  }

  /** Returns the entries and all pages that can be found only through them, deepest pages first. */
  withDescendants(entries: readonly Entry[]): Entry[] {
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

  /**
   * Raises the priority of an entry that was used. The new priority is the entry's value plus the highest priority of
   * any entry evicted so far.
   */
  touch(entry: Entry): void {
    entry.priority = Math.max(entry.priority, this.#clock + entry.value);
  }

  /** Yields the entry and all its ancestors, the deepest page first. */
  *#chain(name: string): Generator<Entry> {
    for (let entry = this.#entries.get(name); entry !== undefined; ) {
      yield entry;
      entry = entry.parent === '' ? undefined : this.#entries.get(entryName('full', entry.engine, entry.parent));
    }
  }

  /** Records that `label` needs the prefix that ends with the page `leaf`. `at`: time in seconds since 1970. */
  refer(label: string, leaf: string, at: number): void {
    this.#reference(label, leaf, at);
    this.#count(label, leaf, 1);
  }
  #count(label: string, leaf: string, added: 1 | -1): void {
    const pins = isPinLabel(label) ? added : 0;
    for (const entry of this.#chain(leaf)) {
      entry.references += added;
      entry.pins += pins;
    }
  }

  /**
   * Returns the last page of the only prefix that a pinned prompt still needs. This is `leaf` or a later page that the
   * label already has, because a prompt is stored in several parts. `replaced`: whether the label has other last pages,
   * which it no longer needs.
   */
  pinnedLeaf(label: string, leaf: string): { leaf: string; replaced: boolean } {
    const leaves = [...(this.#labels.get(label) ?? [])];
    const deepest = leaves.find((one) => this.#isWithin(leaf, one)) ?? leaf;
    return { leaf: deepest, replaced: leaves.some((one) => one !== deepest) };
  }
  #isWithin(name: string, leaf: string): boolean {
    for (const entry of this.#chain(leaf)) if (entry.name === name) return true;
    return false;
  }

  /**
   * Records that `label` needs only the prefix that ends with the page `leaf`. Returns the entries that no label needs
   * any longer.
   */
  referOnly(label: string, leaf: string, at: number): Entry[] {
    const former = [...(this.#labels.get(label) ?? [])];
    for (const one of former) this.#count(label, one, -1);
    this.#dropLabel(label);
    this.refer(label, leaf, at);
    return former.flatMap((one) => [...this.#chain(one)].filter(({ references }) => references === 0));
  }

  /** Removes a label. Returns the entries that no label needs any longer, or null if the label is unknown. */
  release(label: string): Entry[] | null {
    const leaves = this.#labels.get(label);
    if (leaves === undefined) return null;
    const gone: Entry[] = [];
    for (const leaf of leaves) {
      this.#count(label, leaf, -1);
      for (const entry of this.#chain(leaf)) if (entry.references === 0) gone.push(entry);
    }
    this.#dropLabel(label);
    return gone;
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

  countReferences(): void {
    for (const entry of this.#list) {
      entry.references = 0;
      entry.pins = 0;
    }
    for (const [label, leaves] of this.#labels) for (const leaf of leaves) this.#count(label, leaf, 1);
  }

  add(entry: Entry): void {
    entry.at = this.#list.length;
    this.#list.push(entry);
    this.#entries.set(entry.name, entry);
    addTo(this.#perOrganization, entry.organization, 1);
    addTo(this.#perEngine, entry.engine, 1);
    this.#use(entry, 1);
    this.#bySlot.set(slotName(entry.slot.slab, entry.slot.index), entry);
    if (entry.part !== 'full' || entry.parent === '') return;
    const parent = entryName('full', entry.engine, entry.parent);
    const children = this.#children.get(parent) ?? new Set();
    children.add(entry.name);
    this.#children.set(parent, children);
  }

  /** Evicts an entry: removes it from the index and frees its slot. */
  evict(entry: Entry): void {
    this.#clock = Math.max(this.#clock, entry.priority);
    this.forget(entry);
  }

  /** Records that an entry's record was copied to another slot, and frees the old slot. */
  move(entry: Entry, slot: Slot): void {
    this.#bySlot.delete(slotName(entry.slot.slab, entry.slot.index));
    entry.slot.slab.free(entry.slot.index);
    entry.slot = slot;
    this.#bySlot.set(slotName(slot.slab, slot.index), entry);
  }

  /** Removes an entry from the index and frees its slot. */
  forget(entry: Entry): void {
    this.unlink(entry);
    this.#bySlot.delete(slotName(entry.slot.slab, entry.slot.index));
    entry.slot.slab.free(entry.slot.index);
  }

  #use({ engine, organization, part, slot }: Entry, added: 1 | -1): void {
    const key = `${engine} ${organization}`;
    const { pages, bytes } = this.#usage.get(key) ?? { pages: 0, bytes: 0 };
    const usage = {
      engine,
      organization,
      pages: pages + (part === 'full' ? added : 0),
      bytes: bytes + added * slot.slab.slotBytes,
    };
    if (usage.bytes === 0) this.#usage.delete(key);
    else this.#usage.set(key, usage);
  }

  /** Removes an entry from the index. The slot of the entry stays reserved. */
  unlink(entry: Entry): void {
    if (this.#entries.get(entry.name) !== entry) return;
    this.#entries.delete(entry.name);
    addTo(this.#perOrganization, entry.organization, -1);
    addTo(this.#perEngine, entry.engine, -1);
    this.#use(entry, -1);
    const last = this.#list.pop()!;
    if (last !== entry) {
      this.#list[entry.at] = last;
      last.at = entry.at;
    }
    if (entry.part !== 'full') return;
    const parent = entryName('full', entry.engine, entry.parent);
    // Labels whose prefix ends with the removed page still need the preceding pages.
    for (const label of this.#labelsOf.get(entry.name) ?? []) {
      const leaves = this.#labels.get(label)!;
      leaves.delete(entry.name);
      if (!this.#entries.has(parent)) {
        if (leaves.size === 0) this.#dropLabel(label);
      } else if (leaves.has(parent)) {
        this.#count(label, parent, -1);
      } else {
        this.#reference(label, parent, this.#labelTimes.get(label) ?? 0);
      }
    }
    this.#labelsOf.delete(entry.name);
    const children = this.#children.get(parent);
    children?.delete(entry.name);
    if (children?.size === 0) this.#children.delete(parent);
  }

  replay(entry: JournalEntry): void {
    const [op, first, ...rest] = entry;
    const text = String(first);
    if (op === 'd') {
      const gone = this.#entries.get(text);
      if (gone !== undefined) this.forget(gone);
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
      const slab = this.slabs.get(String(file));
      const at = Number(index);
      const known = PARTS.find((one) => one === part);
      if (slab === undefined || known === undefined || engine === undefined || digest === undefined) return;
      if (at >= slab.slots || slab.used.has(at) || this.#entries.has(text)) return;
      slab.used.add(at);
      this.add({
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
        pins: 0,
        until: Number(until),
        priority: Number(priority),
        value: Number(value),
        at: 0,
      });
    }
  }

  *snapshot(): Generator<JournalEntry> {
    // Priorities are written relative to the clock, because the clock starts at 0 after a restart.
    for (const entry of this.#list) yield journaled({ ...entry, priority: Math.max(0, entry.priority - this.#clock) });
    for (const [label, leaves] of this.#labels)
      for (const leaf of leaves) yield ['r', label, leaf, this.#labelTimes.get(label) ?? 0];
  }
}
