import { spawnSync } from 'node:child_process';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { lockDataDir } from '../../src/storage/data-dir-lock.js';
import { open } from 'lmdb';
import { makeFolder } from '../../src/shared/make-folder.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { agreed, checkWhole, DamagedFile, emptyDatabase } from '../../src/storage/lmdb/database-file.js';
import { makeDatabase, openStore, SCHEMA_VERSION } from '../../src/storage/lmdb/lmdb-store.js';

/** Returns the files that this process has open. */
const openFiles = (): string[] =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(join('/proc/self/fd', fd))];
    } catch {
      return []; // the descriptor used for listing
    }
  });

t.test('an LMDB store reads, writes and removes rows, and refuses a newer schema version', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const store = await openStore(join(path, 'deep', 'er'));
  const table = store.table<{ n: number; bytes?: Uint8Array }>('keys');
  await table.put('b', { n: 2, bytes: new Uint8Array([1, 255]) });
  t.equal(await table.insert('a', { n: 1 }), true);
  t.equal(await table.insert('a', { n: 9 }), false);
  await store.transaction(() => {
    void table.put('c', { n: 3 });
    void table.remove('b');
  });
  t.same(
    [...table.range()].map(({ key, value }) => [key, value.n]),
    [
      ['a', 1],
      ['c', 3],
    ],
  );
  t.same(
    [...table.range({ from: 'b', limit: 1 })].map(({ key }) => key),
    ['c'],
  );
  t.equal(table.get('b'), undefined);
  await t.rejects(
    store.transaction(() => {
      void table.put('d', { n: 4 });
      throw new Error('no');
    }),
  );
  t.equal(table.get('d'), undefined, 'a failed transaction writes nothing');
  await store.close();
  const again = await openStore(join(path, 'deep', 'er'));
  t.same(again.table<{ n: number }>('keys').get('a'), { n: 1 });
  await again.table<number>('meta').put('schema', SCHEMA_VERSION + 1);
  await again.close();
  await t.rejects(openStore(join(path, 'deep', 'er')), {
    name: 'StorageError',
    message: new RegExp(`schema version ${SCHEMA_VERSION + 1}`),
  });
  t.same(
    openFiles().filter((file) => file.startsWith(path)),
    [],
    'a closed or refused database leaves no file open',
  );
});

t.test('closing the store completes pending writes and resolves them', async (t) => {
  const said: string[] = [];
  t.capture(console, 'warn', (...words: unknown[]) => {
    said.push(String(words[0]));
  });
  for (let writes = 1; writes <= 6; writes++) {
    const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
    t.teardown(() => rmSync(path, { recursive: true, force: true }));
    const store = await openStore(path);
    const written = Array.from({ length: writes }, (_, at) => store.table<number>('keys').put(`k${at}`, at));
    if (writes % 2 === 0) await new Promise(setImmediate);
    const closed = store.close();
    t.same(
      (await Promise.allSettled([...written, closed])).filter(({ status }) => status === 'rejected'),
      [],
      `${writes} writes`,
    );
    const again = await openStore(path);
    t.equal([...again.table<number>('keys').range()].length, writes);
    await again.close();
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  // This test would also fail on an error in the event loop.
  t.same(said, [], 'the LMDB library prints no warning');
});

t.test('reads within one event loop turn see one snapshot until it is refreshed', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const table = store.table<number>('keys');
  const module = new URL('../../src/storage/lmdb/lmdb-store.js', import.meta.url).href;
  t.equal(table.get('k'), undefined);
  const { status } = spawnSync(process.execPath, [
    '--input-type=module',
    '-e',
    `
    const store = await (await import(${JSON.stringify(module)})).openStore(${JSON.stringify(path)});
    await store.table('keys').put('k', 1);
    await store.close();`,
  ]);
  t.same([status, table.get('k')], [0, undefined]);
  store.refresh();
  t.equal(table.get('k'), 1);
});

t.test('a new database file is byte-identical to one created by the LMDB library', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const mapSize = 3 * 1024 ** 3;
  await open({ path, pageSize: 4096, mapSize }).close();
  t.ok(readFileSync(join(path, 'data.mdb')).equals(emptyDatabase(mapSize)));
});

t.test('the file check accepts every page size that the LMDB library supports, and no other', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  for (const pageSize of [512, 32_768]) {
    const root = open({ path: join(path, String(pageSize)), pageSize });
    await root.put('key', 'x'.repeat(2_000));
    await root.close();
    const file = join(path, String(pageSize), 'data.mdb');
    t.match(checkWhole(file), { tables: [] });
    const bytes = readFileSync(file);
    for (const other of [pageSize / 2, pageSize * 2, pageSize + 512]) {
      if (other >= 512 && other <= 32_768 && other % 1_024 === 0) continue;
      bytes.writeUInt32LE(other, 24 + 24);
      writeFileSync(file, bytes);
      t.throws(() => checkWhole(file), {
        name: 'DamagedFile',
        message: `is damaged: invalid page size of ${other} bytes`,
      });
    }
  }
  const exact = open({ path: join(path, 'exact'), pageSize: 4096, encoding: 'binary' });
  await exact.put('key', Buffer.alloc(3 * 4096 - 24));
  await exact.close();
  t.match(
    checkWhole(join(path, 'exact', 'data.mdb')),
    { usedPages: 6 },
    'a value that exactly fills its pages is accepted',
  );
});

t.test('a file that is being written is checked with two consecutive reads that must agree', (t) => {
  const damaged = new DamagedFile('is cut off');
  const outcome = (...readings: unknown[]): unknown => {
    const left = [...readings];
    try {
      const read = agreed(() => {
        const now = left.shift();
        if (now instanceof Error) throw now;
        return now;
      });
      return [read, left.length];
    } catch (error) {
      return [(error as Error).message, left.length];
    }
  };
  const meta = (transaction: number): object => ({ transaction });
  t.same(outcome(meta(1), meta(1), meta(2)), [meta(1), 1]);
  t.same(outcome(meta(1), meta(2), meta(2), meta(3)), [meta(2), 1]);
  t.same(
    outcome(damaged, meta(1), damaged, meta(2), meta(2)),
    [meta(2), 0],
    'apparent damage in one read was a write in progress',
  );
  t.same(outcome(meta(1), damaged, new DamagedFile('is cut off'), meta(1)), ['is cut off', 1]);
  t.same(outcome(meta(1), meta(2), meta(3), meta(4), meta(5), meta(6)), [meta(5), 1], 'the number of reads is limited');
  t.same(outcome(meta(1), new TypeError('another'), meta(1)), ['another', 1]);
  t.end();
});

t.test('the keys of a table can be listed without their values and in reverse order', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const table = store.table<number>('response-events');
  await store.transaction(() => {
    for (const at of [3, 1, 20]) void table.put(['a', at], at);
    void table.put(['b', 1], 1);
  });
  t.same(
    [...table.keys({ from: ['a'], to: ['b'] })],
    [
      ['a', 1],
      ['a', 3],
      ['a', 20],
    ],
  );
  t.same([...table.keys({ from: ['a', 19], to: ['a'], reverse: true, limit: 1 })], [['a', 3]]);
  t.same(
    [...table.range({ from: ['a', 3], to: ['a'], reverse: true })].map(({ value }) => value),
    [3, 1],
    '`from` is inclusive and `to` is exclusive',
  );
});

t.test('a failed write rolls back its transaction', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const table = store.table<number>('responses');
  await t.rejects(
    store.transaction(() => {
      void table.put('first', 1);
      void table.put('x'.repeat(3_000), 2);
    }),
  );
  t.equal(table.get('first'), undefined);
  await t.rejects(table.put('x'.repeat(3_000), 2), 'a failed write outside a transaction rejects');
  await store.transaction(() => {
    void table.put('next', 1);
  });
  t.equal(table.get('next'), 1);
});

t.test('a database of an earlier schema version is upgraded when opened', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const old = await openStore(path);
  await old.table<number>('meta').put('schema', 1);
  const id = `resp_${'a'.repeat(48)}`;
  const rows = Array.from({ length: 100 }, (_, index) => ({ id: `item_${index}`, item: { index }, images: 0 }));
  await old.table('response-inputs').put(id, rows);
  await old.table<{ n: number }>('organizations').put('k', { n: 1 });
  await old.close();
  const store = await openStore(path);
  t.equal(store.table<number>('meta').get('schema'), SCHEMA_VERSION);
  t.same(store.table<{ n: number }>('organizations').get('k'), { n: 1 });
  const pages = [...store.table<object[]>('response-inputs').range()];
  t.same(
    pages.map(({ key }) => key),
    [
      [id, 0],
      [id, 32],
      [id, 64],
      [id, 96],
    ],
    'inputs are stored in pages since version 3',
  );
  t.same(
    pages.flatMap(({ value }) => value),
    rows,
  );
  await store.close();
});

t.test('an unusable data directory is refused with a StorageError', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  writeFileSync(join(path, 'file'), '');
  await t.rejects(openStore(join(path, 'file', 'x')), { name: 'StorageError' });
  // Node's own recursive mkdir does not return for /proc/x.
  symlinkSync(join(path, 'nowhere'), join(path, 'link'));
  for (const [folder, why] of [
    [join(path, 'file', 'x', 'y'), /file: it is not a directory/],
    [join(path, 'link', 'x'), /link: it is not a directory/],
    ['/proc/x', /\/proc\/x: this file system does not allow new directories there\. Use another directory/],
    ['/proc/x/y', /\/proc\/x: this file system/],
    ['/sys/x', /\/sys\/x: (permission denied|the file system is read-only)/],
  ] as const) {
    t.throws(() => lockDataDir(folder), { name: 'StorageError', message: why }, folder);
    t.throws(() => makeDatabase(folder), { name: 'StorageError', message: /Cannot open the database in / }, folder);
  }
  makeFolder(join(path, 'a', 'b'), 0o700);
  makeFolder(join(path, 'a', 'b'));
  t.equal(statSync(join(path, 'a')).mode & 0o777, 0o700);
});

t.test('the pinned lmdb version imports malloc where the guard for its error messages expects it', async (t) => {
  t.equal(loadAddon().guardLmdbErrors(), 1);
});
