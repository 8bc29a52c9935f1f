// Tests the page store with real files: written pages can be read back, even after a restart; damaged pages are never
// returned; erased pages are no longer in any file.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { organizationKeys, type PositionText } from '../../../src/engine/kv-tier/page-content.js';
import { nodeFiles, type PageFile, type PageFiles } from '../../../src/engine/kv-tier/page-files.js';
import { PageStore, type PageStoreOptions } from '../../../src/engine/kv-tier/page-store.js';

const ENGINE = { key: Buffer.alloc(32, 7), tokenMs: 1 };
const ORGANIZATION = organizationKeys('org_a', Buffer.alloc(32, 1));
const OTHER = organizationKeys('org_b', Buffer.alloc(32, 2));

const textOf = (pages: number, seed = 1): PositionText => ({
  tokens: Int32Array.from({ length: 16 * pages }, (_, i) => (i * 7 + seed * (i >= 32 ? 1000 : 0)) % 100_003),
  spans: [],
});
const bytesOf = (page: number, seed: number, length = 3000): Buffer =>
  Buffer.alloc(length, `page ${page} of ${seed}. `);
const pagesOf = (count: number, seed = 1, from = 0) =>
  Array.from({ length: count - from }, (_, i) => ({
    index: from + i,
    parts: { full: bytesOf(from + i, from + i < 2 ? 0 : seed) },
  }));

interface Opened {
  store: PageStore;
  problems: string[];
}

function folderOf(test: Pick<typeof t, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'kv-'));
  test.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** All stores are closed at the end, because Node.js 26 throws if an open file handle is garbage-collected. */
const stores: PageStore[] = [];
t.teardown(async () => {
  for (const store of stores) await store.close();
});

async function opened(folder: string, more: Partial<PageStoreOptions> = {}): Promise<Opened> {
  const problems: string[] = [];
  const report = (action: string): void => void problems.push(action);
  const store = await PageStore.open({ folder, files: nodeFiles, maxBytes: 1 << 24, report, ...more });
  stores.push(store);
  return { store, problems };
}

const put = (store: PageStore, pages: number, seed = 1, label: string | null = null, keepS = 0): Promise<void> =>
  store.put({
    engine: ENGINE,
    organization: ORGANIZATION,
    text: textOf(pages, seed),
    pages: pagesOf(pages, seed),
    label,
    keepS,
  });

async function readAll(store: PageStore, pages: number, seed = 1): Promise<number> {
  const found = store.find(ENGINE, ORGANIZATION, textOf(pages, seed), pages);
  const wanted = new Map(found.map((parts, index) => [index, parts]));
  const read = await store.read(ENGINE, ORGANIZATION, textOf(pages, seed), wanted);
  let count = 0;
  for (; read.has(count); count++)
    if (!bytesOf(count, count < 2 ? 0 : seed).equals(read.get(count)!.full!)) throw new Error(`page ${count} is wrong`);
  return count;
}

const contents = (folder: string): string =>
  readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join('');

t.test('pages can be read back, even by another store', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder);
  await put(store, 6);
  t.equal(await readAll(store, 6), 6);
  t.equal(await readAll(store, 6, 2), 2, 'a prompt that differs at position 32');
  t.same(store.find(ENGINE, OTHER, textOf(6), 6), [], 'another organization');
  t.same(store.find({ ...ENGINE, key: Buffer.alloc(32, 8) }, ORGANIZATION, textOf(6), 6), [], 'another engine');
  t.notMatch(contents(folder), /page 3 of 1/, 'encrypted');
  await store.close();
  const again = await opened(folder);
  t.equal(await readAll(again.store, 6), 6);
  await put(again.store, 8);
  t.equal(again.store.counts.written, 2, 'pages that are stored are not written again');
  t.equal(await readAll(again.store, 8), 8);
  await again.store.close();
});

t.test('pages that were computed with another adapter, or without one, are not found', async (t) => {
  const { store } = await opened(folderOf(t));
  const pages = 4;
  const text: PositionText = { ...textOf(pages), adapter: '1'.repeat(32) };
  await store.put({
    engine: ENGINE,
    organization: ORGANIZATION,
    text,
    pages: pagesOf(pages),
    label: null,
    keepS: 0,
  });
  const found = (adapter?: string): number =>
    store.find(ENGINE, ORGANIZATION, { ...textOf(pages), ...(adapter !== undefined && { adapter }) }, pages).length;
  t.equal(found('1'.repeat(32)), pages);
  t.equal(found('2'.repeat(32)), 0);
  t.equal(found(), 0);
  await put(store, pages);
  t.equal(found(), pages);
  t.equal(found(''), pages);
  await store.close();
});

t.test('a store that was not closed has everything that was acknowledged', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder);
  await put(store, 4);
  const again = await opened(folder); // the first one is as if its process had been killed
  t.equal(await readAll(again.store, 4), 4);
  await again.store.close();
});

t.test('damaged records are dropped and counted, and are never returned', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder);
  await put(store, 5);
  const [name] = readdirSync(folder).filter((one) => one.endsWith('.pages'));
  const path = join(folder, name!);
  const slotBytes = Number(name!.split('-')[0]);
  const bytes = readFileSync(path);
  for (const offset of [0, 5, 40, 120, 200, 900, 3500]) {
    const damaged = Buffer.from(bytes);
    damaged[2 * slotBytes + offset]! ^= 1;
    writeFileSync(path, damaged);
    const before = store.counts.dropped.corrupt;
    t.equal(await readAll(store, 5), 2, `byte ${offset}`);
    await store.settled();
    t.equal(store.counts.dropped.corrupt, before + 1);
    t.same(store.find(ENGINE, ORGANIZATION, textOf(5), 5).length, 2, 'the records after it can no longer be found');
    writeFileSync(path, bytes);
    await put(store, 5);
    t.equal(await readAll(store, 5), 5);
  }
  await store.close();
  truncateSync(path, 3 * slotBytes + 100);
  const again = await opened(folder);
  t.equal(await readAll(again.store, 5), 3, 'a torn file');
  await again.store.close();
});

/**
 * Records the size of every read in `reads`. In the first page file, a read that includes position `failsAt()` fails.
 */
function countedFiles(reads: number[], failsAt: () => number): PageFiles {
  return {
    ...nodeFiles,
    open: async (path) => {
      const file = await nodeFiles.open(path);
      const read: PageFile['read'] = async (into, position) => {
        reads.push(into.length);
        const fails = path.endsWith('-1.pages') && position <= failsAt() && failsAt() < position + into.length;
        if (fails) throw new Error('EIO');
        return await file.read(into, position);
      };
      return Object.assign(Object.create(file) as PageFile, { read });
    },
  };
}

t.test('records in consecutive slots are read together; a failed read drops only its record', async (t) => {
  const reads: number[] = [];
  let failsAt = -1;
  const { store, problems } = await opened(folderOf(t), { files: countedFiles(reads, () => failsAt) });
  await put(store, 300);
  reads.length = 0;
  t.equal(await readAll(store, 300), 300);
  t.same(reads, [1024 ** 2, 300 * 4096 - 1024 ** 2], 'a read has at most 1 MiB');
  failsAt = 7 * 4096 + 100;
  t.equal(await readAll(store, 300), 7);
  t.same(problems, ['read'], 'the failure is reported once');
  t.equal(store.counts.dropped.unreadable, 1);
  await store.close();
});

t.test('a closed store changes nothing', async (t) => {
  const folder = folderOf(t);
  const { store, problems } = await opened(folder);
  await put(store, 4);
  await store.close();
  const before = contents(folder);
  await put(store, 4, 2);
  await t.rejects(store.eraseWhere({}), /closed/);
  await store.close();
  t.equal(contents(folder), before);
  t.same([store.counts.written, store.counts.skipped, problems], [4, 4, []]);
});

t.test('pages after a missing one are counted as skipped', async (t) => {
  const { store } = await opened(folderOf(t));
  const text = textOf(6);
  await store.put({ engine: ENGINE, organization: ORGANIZATION, text, pages: pagesOf(6, 1, 2), label: null, keepS: 0 });
  t.same([store.counts.written, store.counts.skipped], [0, 4]);
  await store.close();
});

t.test('an incomplete last line of the index is ignored', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder);
  await put(store, 3);
  await put(store, 4);
  const [name] = readdirSync(folder).filter((one) => one.endsWith('.journal'));
  const journal = readFileSync(join(folder, name!));
  for (const cut of [1, 20, 60]) {
    writeFileSync(join(folder, name!), journal.subarray(0, journal.length - cut));
    const copy = folderOf(t);
    for (const file of readdirSync(folder)) writeFileSync(join(copy, file), readFileSync(join(folder, file)));
    const again = await opened(copy);
    t.equal(await readAll(again.store, 4), 3, `${cut} bytes less`);
    await again.store.close();
  }
});

t.test('erased pages are in no file; pages that another response needs stay', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder, { encrypts: false });
  await put(store, 6, 1, 'resp_1');
  await put(store, 5, 2, 'resp_2');
  t.match(contents(folder), /page 4 of 1/);
  await store.eraseLabels(['resp_1', 'resp_unknown']);
  t.notMatch(contents(folder), /page \d of 1\./);
  t.match(contents(folder), /page 1 of 0/, 'common pages stay');
  t.equal(await readAll(store, 5, 2), 5);
  await put(store, 6, 1, 'resp_1');
  t.notMatch(contents(folder), /page \d of 1\./, 'pages that arrive after the deletion are not stored');
  await store.close();
  const again = await opened(folder, { encrypts: false });
  t.equal(await readAll(again.store, 5, 2), 5);
  await again.store.eraseLabels(['resp_2']);
  t.notMatch(contents(folder), /page \d of \d\./);
  t.equal(again.store.records, 0);
  await again.store.close();
});

t.test('a turn of a conversation needs the pages of the turns before it', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder);
  await put(store, 4, 1, 'resp_1');
  await put(store, 7, 1, 'resp_2');
  await store.eraseLabels(['resp_1']);
  t.equal(await readAll(store, 7), 7);
  await store.eraseLabels(['resp_2']);
  t.equal(await readAll(store, 7), 0);
  await store.close();
});

t.test('pages with a time limit are erased after it, unless a response needs them', async (t) => {
  const folder = folderOf(t);
  let now = 1000;
  const { store } = await opened(folder, { now: () => now });
  await put(store, 3, 1, null, 60);
  await put(store, 5, 2, 'resp_2', 60);
  now += 61;
  await store.eraseExpired();
  t.equal(await readAll(store, 3, 1), 2);
  t.equal(await readAll(store, 5, 2), 5);
  await store.close();
});

t.test('the files stay within the budget; the least useful pages go first', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder, { maxBytes: 40 * 4096 });
  await put(store, 4, 1);
  for (let seed = 2; seed < 20; seed++) {
    await put(store, 6, seed);
    await readAll(store, 4, 1);
    t.ok(store.bytes <= 40 * 4096);
    t.equal(await readAll(store, 6, seed), 6, 'the newest one is complete');
  }
  t.ok(store.counts.evicted > 20);
  t.equal(await readAll(store, 4, 1), 4, 'pages that are used stay');
  const sizes = store.bytes;
  // Records of a different size replace the first records.
  for (let seed = 30; seed < 33; seed++)
    await store.put({
      engine: ENGINE,
      organization: ORGANIZATION,
      text: textOf(3, seed),
      pages: [0, 1, 2].map((index) => ({
        index,
        parts: { full: bytesOf(index, index < 2 ? 0 : seed), snapshot: Buffer.alloc(20_000, seed) },
      })),
      label: null,
      keepS: 0,
    });
  t.ok(store.bytes <= 40 * 4096, `${store.bytes} after ${sizes}`);
  t.same(store.find(ENGINE, ORGANIZATION, textOf(3, 32), 3)[2], ['full', 'snapshot']);
  // In a full store, a snapshot replaces another snapshot, even after all other records of the call have been written.
  for (let seed = 40; seed < 50; seed++) {
    await store.put({
      engine: ENGINE,
      organization: ORGANIZATION,
      text: textOf(3, seed),
      pages: [{ index: 2, parts: { full: bytesOf(2, seed), snapshot: Buffer.alloc(20_000, seed) } }],
      label: null,
      keepS: 0,
    });
    t.same(store.find(ENGINE, ORGANIZATION, textOf(3, seed), 3)[2], ['full', 'snapshot'], `snapshot ${seed}`);
  }
  await store.close();
  const again = await opened(folder, { maxBytes: 40 * 4096 });
  t.ok(again.store.records > 5);
  await again.store.close();
});

t.test('the journal stays small', async (t) => {
  const folder = folderOf(t);
  const slack = 20_000;
  const { store } = await opened(folder, { journalSlackBytes: slack });
  let largest = 0;
  let written = 0;
  for (let round = 0; round < 150; round++) {
    await put(store, 3, 1, `resp_${round}`);
    await store.eraseLabels([`resp_${round}`]);
    await store.settled();
    written += 1_000; // lower bound of the bytes that each round appends to the journal
    const sizes = readdirSync(folder).filter((name) => name.endsWith('.journal'));
    t.equal(sizes.length, 1);
    largest = Math.max(largest, readFileSync(join(folder, sizes[0]!)).length);
  }
  t.ok(written > 4 * slack);
  t.ok(largest < 2 * slack, `${largest} bytes`);
  await store.close();
});

t.test('random changes give the pages that a model of the store expects', async (t) => {
  const folder = folderOf(t);
  let { store } = await opened(folder, { encrypts: false });
  const expected = new Map<string, number>();
  for (let round = 0; round < 120; round++) {
    const seed = 1 + (randomBytes(1)[0]! % 6);
    const label = `resp_${round}`;
    const pages = 3 + (randomBytes(1)[0]! % 4);
    if (round % 3 === 2 && expected.size > 0) {
      const [gone] = expected.keys();
      await store.eraseLabels([gone!]);
      expected.delete(gone!);
    } else {
      await put(store, pages, seed, label);
      expected.set(label, seed * 100 + pages);
    }
    if (round % 20 === 19) {
      if (round % 40 === 39) await store.close();
      store = (await opened(folder, { encrypts: false })).store;
    }
    for (let one = 1; one <= 6; one++) {
      const most = Math.max(
        0,
        ...[...expected.values()].filter((v) => Math.floor(v / 100) === one).map((v) => v % 100),
      );
      const found = await readAll(store, 7, one);
      const common = expected.size > 0 ? 2 : 0;
      if (found !== Math.max(most, common)) t.equal(found, Math.max(most, common), `round ${round}, seed ${one}`);
    }
  }
  t.pass();
  await store.close();
});

t.test('a smaller budget is enforced on the files of an earlier process', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder);
  for (let seed = 1; seed <= 40; seed++) await put(store, 20, seed);
  await put(store, 20, 100, 'org_a pin:one');
  for (let seed = 1; seed <= 5; seed++) await readAll(store, 20, seed);
  const before = store.bytes;
  await store.close();
  const maxBytes = Math.floor(before / 3);
  const again = await opened(folder, { maxBytes });
  const size = (): number =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.pages'))
      .reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  t.ok(size() <= maxBytes, `${size()} of ${maxBytes}`);
  t.ok(again.store.bytes <= maxBytes && again.store.bytes > maxBytes / 2, 'no more than necessary is evicted');
  t.ok(again.store.counts.evicted > 0);
  t.equal(await readAll(again.store, 20, 100), 20, 'a pinned prompt stays');
  let left = 0;
  for (let seed = 1; seed <= 40; seed++) left += await readAll(again.store, 20, seed);
  t.ok(left > 0);
  t.same(again.store.counts.dropped, { corrupt: 0, unreadable: 0, interrupted: 0 }, 'moved records are intact');
  await put(again.store, 20, 200);
  t.equal(await readAll(again.store, 20, 200), 20);
  t.ok(size() <= maxBytes);
  await again.store.close();
  const { store: last } = await opened(folder, { maxBytes });
  t.equal(await readAll(last, 20, 100), 20);
  t.equal(await readAll(last, 20, 200), 20);
  await last.close();
});

t.test('pages of a pinned prompt are not evicted', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder, { maxBytes: 400_000 });
  await put(store, 20, 1, 'org_a pin:one');
  for (let seed = 2; seed <= 40; seed++) await put(store, 20, seed);
  t.ok(store.counts.evicted > 0);
  t.equal(await readAll(store, 20, 1), 20);
  const erased = await store.eraseWhere({ keepPinned: true });
  t.ok(erased.records > 0 && erased.bytes > 0);
  t.equal(await readAll(store, 20, 1), 20, 'clearing keeps it');
  t.equal(await readAll(store, 20, 40), 2);
  const slotBytes = Number(
    readdirSync(folder)
      .find((name) => name.endsWith('.pages'))!
      .split('-')[0],
  );
  const engine = ENGINE.key.toString('hex');
  t.same(store.usage(), [{ engine, organization: 'org_a', pages: 20, bytes: 20 * slotBytes }]);
  await store.eraseLabels(['org_a pin:one']);
  t.equal(await readAll(store, 20, 1), 0);
  t.same(store.usage(), []);
  await store.close();
});

t.test('the store reports why a page is missing', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder, { maxBytes: 400_000, now: () => 1000 });
  const why = (seed: number, engine = ENGINE): unknown => {
    const { missing } = store.lookUp(engine, ORGANIZATION, textOf(20, seed), 20);
    return missing === null ? null : store.whyMissing(engine, missing);
  };
  await put(store, 20, 1, 'org_a resp_1');
  t.equal(why(1), null);
  t.equal(why(50), 'never stored');
  t.equal(why(1, { ...ENGINE, key: Buffer.alloc(32, 9) }), 'other engine');
  await store.eraseLabels(['org_a resp_1']);
  t.same(why(1), { reason: 'erased', at: 1000 });
  await put(store, 20, 1);
  t.equal(why(1), null);
  for (let seed = 2; seed <= 40; seed++) await put(store, 20, seed);
  t.same(why(1), { reason: 'evicted', at: 1000 });
  await store.close();
});

t.test('a pinned prompt keeps only the pages of its current tokens and engine', async (t) => {
  const folder = folderOf(t);
  const { store } = await opened(folder);
  const pinned = (seed: number, pages: number, engine = ENGINE): Promise<void> =>
    store.put({
      engine,
      organization: ORGANIZATION,
      text: textOf(pages, seed),
      pages: pagesOf(pages, seed),
      label: 'org_a pin:one',
      keepS: 0,
    });
  await pinned(1, 6);
  await put(store, 4, 1, 'org_a resp_1');
  await pinned(1, 3);
  t.equal(await readAll(store, 6), 6, 'a part of the same prompt replaces nothing');
  await pinned(1, 8);
  t.equal(await readAll(store, 8), 8);
  await pinned(2, 5);
  t.equal(await readAll(store, 5, 2), 5);
  t.equal(await readAll(store, 8), 4, 'the former pages are erased, except those of a stored response');
  await pinned(2, 5, { ...ENGINE, key: Buffer.alloc(32, 9) });
  t.equal(await readAll(store, 5, 2), 2, 'the pages of another engine key');
  t.equal(store.records, 4 + 5);
  await store.close();
  const again = await opened(folder);
  t.equal(again.store.records, 4 + 5);
  await again.store.eraseLabels(['org_a pin:one']);
  t.equal(again.store.records, 4);
  await again.store.close();
});

t.test('all parts of a page stay as long as a label needs it', async (t) => {
  const folder = folderOf(t);
  let now = 1000;
  const { store } = await opened(folder, { now: () => now });
  const pages = pagesOf(4).map(({ index, parts }) => ({ index, parts: { ...parts, window: bytesOf(index, 9) } }));
  await store.put({ engine: ENGINE, organization: ORGANIZATION, text: textOf(4), pages, label: 'org_a r', keepS: 60 });
  now += 100;
  await store.eraseExpired();
  t.same(
    store.find(ENGINE, ORGANIZATION, textOf(4), 4),
    Array.from({ length: 4 }, () => ['full', 'window']),
  );
  await store.close();
});
