// Simulates disk failures and damaged files under the page store. Whatever fails, the store must never return wrong
// pages. A store that is opened after the failure must store and find pages again.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { organizationKeys, type PositionText } from '../../../src/engine/kv-tier/page-content.js';
import { nodeFiles, type PageFile, type PageFiles } from '../../../src/engine/kv-tier/page-files.js';
import { PageStore } from '../../../src/engine/kv-tier/page-store.js';

/**
 * EIO: the operation fails without reading or writing. ENOSPC: half of the data is written, then the write fails.
 * short: a read returns less data without an error, and a write fails partway. torn: half of the data is written, and
 * all later operations fail, as after a power failure.
 */
export const FAULTS = ['EIO', 'ENOSPC', 'short', 'torn'] as const;
export type Fault = (typeof FAULTS)[number];

const ENGINE = { key: Buffer.alloc(32, 7), tokenMs: 1 };
const ORGANIZATION = organizationKeys('org_a', Buffer.alloc(32, 1));
/** Number of pages at the start of each text that are the same in all texts. */
const COMMON = 2;
const MAX_BYTES = 14 * 4096; // less than the total size of all pages, so that some pages are evicted

const textOf = (pages: number, seed: number): PositionText => ({
  tokens: Int32Array.from({ length: 16 * pages }, (_, i) => i * 7 + seed * (i >= 16 * COMMON ? 1_000 : 0)),
  spans: [],
});
const bytesOf = (page: number, seed: number): Buffer =>
  Buffer.alloc(3_000, `page ${page} of ${page < COMMON ? 0 : seed}. `);

class FailingFiles implements PageFiles {
  /** Number of operations so far. */
  count = 0;
  #isDown = false;

  constructor(
    private readonly failing: number,
    private readonly fault: Fault,
  ) {}

  async open(path: string): Promise<PageFile> {
    const file = await nodeFiles.open(path);
    const error = (): Error => {
      const code = this.fault === 'ENOSPC' ? 'ENOSPC' : 'EIO';
      return Object.assign(new Error(code), { code });
    };
    const fails = (): boolean => {
      if (this.#isDown) throw error();
      return ++this.count === this.failing;
    };
    return {
      read: async (into, position) => {
        if (!fails()) return file.read(into, position);
        if (this.fault === 'short') return file.read(into.subarray(0, into.length >> 1), position);
        this.#isDown = this.fault === 'torn';
        throw error();
      },
      write: async (bytes, position) => {
        if (!fails()) return file.write(bytes, position);
        if (this.fault !== 'EIO') await file.write(bytes.subarray(0, bytes.length >> 1), position);
        this.#isDown = this.fault === 'torn';
        throw error();
      },
      sync: async () => {
        if (!fails()) return file.sync();
        this.#isDown = this.fault === 'torn';
        throw error();
      },
      size: () => file.size(),
      truncate: (size) => file.truncate(size),
      close: () => file.close(),
    };
  }
  list(folder: string): Promise<string[]> {
    return nodeFiles.list(folder);
  }
  remove(path: string): Promise<void> {
    return this.#isDown ? Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' })) : nodeFiles.remove(path);
  }
}

const opened = (folder: string, files: PageFiles = nodeFiles): Promise<PageStore> =>
  PageStore.open({ folder, files, maxBytes: MAX_BYTES });

const put = (store: PageStore, pages: number, seed: number, label: string | null = null): Promise<void> =>
  store.put({
    engine: ENGINE,
    organization: ORGANIZATION,
    text: textOf(pages, seed),
    pages: Array.from({ length: pages }, (_, index) => ({ index, parts: { full: bytesOf(index, seed) } })),
    label,
    keepS: 0,
  });

/**
 * Reads a text's pages. Returns how many pages at the start of the text were found. Throws if a page has wrong
 * contents.
 */
async function readAll(store: PageStore, pages: number, seed: number): Promise<number> {
  const text = textOf(pages, seed);
  const found = store.find(ENGINE, ORGANIZATION, text, pages);
  const read = await store.read(ENGINE, ORGANIZATION, text, new Map(found.map((parts, index) => [index, parts])));
  for (const [page, { full }] of read)
    if (!bytesOf(page, seed).equals(full!)) throw new Error(`page ${page} of ${seed} is wrong`);
  let count = 0;
  while (read.has(count)) count++;
  return count;
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'kv-faults-'));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function recovers(folder: string, what: string): Promise<void> {
  const store = await opened(folder);
  for (const seed of [1, 2, 3]) await readAll(store, 5, seed);
  await store.settled();
  await put(store, 5, 4);
  const read = await readAll(store, 5, 4);
  await store.close();
  if (read !== 5) throw new Error(`${what}: only ${read} of 5 pages are stored afterwards`);
}

/**
 * Runs a fixed sequence of changes and reads, in which the operation with number `failing` fails. Returns the number of
 * operations in the sequence.
 */
export function withFault(fault: Fault, failing: number): Promise<number> {
  return inFolder(async (folder) => {
    const files = new FailingFiles(failing, fault);
    // If the store cannot be opened, the server runs without the storage tier.
    const store = await opened(folder, files).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === undefined) throw error;
      return null;
    });
    if (store !== null) {
      await put(store, 3, 1);
      await put(store, 4, 1, 'resp_1');
      await put(store, 5, 2);
      for (const seed of [1, 2]) await readAll(store, 5, seed);
      await store.eraseLabels(['resp_1']).catch(() => undefined);
      await put(store, 4, 3);
      await readAll(store, 4, 3);
      await put(store, 9, 5); // evicts other pages
      await store.close().catch(() => undefined);
    }
    await recovers(folder, `${fault} of operation ${failing}`);
    return files.count;
  });
}

/** Flips `count` random bits in each of the store's files, one bit at a time, and opens the damaged store each time. */
export function withBitFlips(count: number): Promise<void> {
  return inFolder(async (folder) => {
    const first = await opened(folder);
    await put(first, 5, 1, 'resp_1');
    await put(first, 5, 2, 'resp_2');
    await first.close();
    const names = readdirSync(folder);
    const before = new Map(names.map((name) => [name, readFileSync(join(folder, name))]));
    for (const name of names) {
      for (let i = 0; i < count; i++) {
        for (const other of readdirSync(folder)) rmSync(join(folder, other));
        for (const [other, bytes] of before) writeFileSync(join(folder, other), bytes);
        const damaged = Buffer.from(before.get(name)!);
        const bit = Math.floor(Math.random() * 8 * damaged.length);
        damaged[bit >> 3]! ^= 1 << (bit & 7);
        writeFileSync(join(folder, name), damaged);
        await recovers(folder, `bit ${bit} of ${name}`);
      }
    }
  });
}
