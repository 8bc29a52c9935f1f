// Files of equally large slots, in which the page store keeps its records. Records of the same size share files, so a
// freed slot fits the next record, and no record has to be moved to make room.
//
//   16384-3.pages   │ slot 0 │ slot 1 │ ...      16384 bytes each, at most 64 MiB per file
import { join } from 'node:path';
import type { PageFile, PageFiles } from './page-files.js';

/**
 * Slot sizes are multiples of this size, the operating system's page size. Thus a write covers whole pages, and the
 * operating system does not have to read the rest of a page from disk first.
 */
const UNIT_BYTES = 4096;
const MAX_FILE_BYTES = 64 * 1024 ** 2;
/**
 * Files are kept small enough that at least this many fit into the budget, because only whole files can be reassigned
 * to another slot size.
 */
const MIN_FILES = 16;
const NAME = /^(\d+)-(\d+)\.pages$/;

export interface Slot {
  readonly slab: Slab;
  readonly index: number;
}

export class Slab {
  /** Number of slots that exist in the file. */
  slots = 0;
  /** Slots that contain a record or are reserved for one. */
  readonly used = new Set<number>();
  #lowestFree = 0;

  constructor(
    readonly name: string,
    readonly slotBytes: number,
    readonly number: number,
    readonly file: PageFile,
  ) {}

  get bytes(): number {
    return this.slots * this.slotBytes;
  }
  get hasFree(): boolean {
    return this.used.size < this.slots;
  }
  take(): number {
    while (this.used.has(this.#lowestFree)) this.#lowestFree++;
    const index = this.#lowestFree;
    this.used.add(index);
    this.slots = Math.max(this.slots, index + 1);
    return index;
  }
  free(index: number): void {
    this.used.delete(index);
    this.#lowestFree = Math.min(this.#lowestFree, index);
  }
}

export class SlabFiles {
  readonly #slabs = new Map<string, Slab>();

  constructor(
    private readonly folder: string,
    private readonly files: PageFiles,
    private readonly budget: number,
  ) {}

  static slotBytes(recordBytes: number): number {
    return Math.ceil(recordBytes / UNIT_BYTES) * UNIT_BYTES;
  }

  async open(): Promise<void> {
    for (const name of await this.files.list(this.folder)) {
      const [, slotBytes, number] = NAME.exec(name) ?? [];
      if (slotBytes === undefined || number === undefined) continue;
      const file = await this.files.open(join(this.folder, name));
      const slab = new Slab(name, Number(slotBytes), Number(number), file);
      this.#slabs.set(name, slab); // before anything can fail, so that close() closes the file
      slab.slots = Math.floor((await file.size()) / slab.slotBytes);
    }
  }

  get(name: string): Slab | undefined {
    return this.#slabs.get(name);
  }
  all(): Iterable<Slab> {
    return this.#slabs.values();
  }
  /** Bytes of all files. */
  get bytes(): number {
    let bytes = 0;
    for (const slab of this.#slabs.values()) bytes += slab.bytes;
    return bytes;
  }

  /** Reserves a slot. Returns null if the files would exceed the budget. */
  async allocate(slotBytes: number): Promise<Slot | null> {
    const own = [...this.#slabs.values()].filter((slab) => slab.slotBytes === slotBytes);
    const free = own.find((slab) => slab.hasFree);
    if (free !== undefined) return { slab: free, index: free.take() };
    if (this.bytes + slotBytes > this.budget) return null;
    const maxSlots = Math.max(1, Math.floor(Math.min(MAX_FILE_BYTES, this.budget / MIN_FILES) / slotBytes));
    let slab = own.find((one) => one.slots < maxSlots);
    if (slab === undefined) {
      const number = Math.max(0, ...[...this.#slabs.values()].map((one) => one.number)) + 1;
      const name = `${slotBytes}-${number}.pages`;
      slab = new Slab(name, slotBytes, number, await this.files.open(join(this.folder, name)));
      this.#slabs.set(name, slab);
    }
    return { slab, index: slab.take() };
  }

  write({ slab, index }: Slot, record: Uint8Array): Promise<void> {
    return slab.file.write(record, index * slab.slotBytes);
  }

  /**
   * Fills `into` with consecutive slots, starting with the given slot. Resolves to the number of bytes read, which is
   * less than the size of `into` only if the file ends first.
   */
  read({ slab, index }: Slot, into: Buffer): Promise<number> {
    return slab.file.read(into, index * slab.slotBytes);
  }

  /** Overwrites slots with zeros. Resolves when that is durable. The slots stay reserved. */
  async erase(slots: readonly Slot[]): Promise<void> {
    const zeros = new Map<number, Buffer>();
    for (const slot of slots) {
      const { slotBytes } = slot.slab;
      const buffer = zeros.get(slotBytes) ?? Buffer.alloc(slotBytes);
      zeros.set(slotBytes, buffer);
      await this.write(slot, buffer);
    }
    await this.sync(slots);
  }

  async sync(slots: readonly Slot[]): Promise<void> {
    await Promise.all([...new Set(slots.map(({ slab }) => slab))].map((slab) => slab.file.sync()));
  }

  /** Overwrites data that unfinished writes and evicted records have left in free slots. */
  async eraseFree(): Promise<void> {
    const left: Slot[] = [];
    const head = Buffer.alloc(UNIT_BYTES);
    for (const slab of this.#slabs.values()) {
      for (let index = 0; index < slab.slots; index++) {
        if (slab.used.has(index)) continue;
        await slab.file.read(head, index * slab.slotBytes);
        if (head.some((byte) => byte !== 0)) left.push({ slab, index });
      }
    }
    await this.erase(left);
  }

  /** Removes files without records, and truncates the other files after their last record. */
  async trim(): Promise<void> {
    for (const slab of [...this.#slabs.values()]) {
      const slots = [...slab.used].reduce((most, index) => Math.max(most, index + 1), 0);
      if (slots === 0) {
        await this.remove(slab);
      } else if (slots < slab.slots) {
        slab.slots = slots;
        await slab.file.truncate(slab.bytes);
      }
    }
  }

  async remove(slab: Slab): Promise<void> {
    this.#slabs.delete(slab.name);
    await slab.file.close();
    await this.files.remove(join(this.folder, slab.name));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#slabs.values()].map((slab) => slab.file.close()));
    this.#slabs.clear();
  }
}
