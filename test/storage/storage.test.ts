import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { lockDataDir } from '../../src/storage/data-dir-lock.js';
import { openStore, SCHEMA_VERSION } from '../../src/storage/lmdb-store.js';

t.test('tables', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const store = await openStore(join(path, 'deep', 'er'));
  const table = store.table<{ n: number; bytes?: Uint8Array }>('keys');
  await table.put('b', { n: 2, bytes: new Uint8Array([1, 255]) });
  t.equal(await table.insert('a', { n: 1 }), true);
  t.equal(await table.insert('a', { n: 9 }), false);
  await store.transaction(() => { void table.put('c', { n: 3 }); void table.remove('b'); });
  t.same([...table.range()].map(({ key, value }) => [key, value.n]), [['a', 1], ['c', 3]]);
  t.same([...table.range({ from: 'b', limit: 1 })].map(({ key }) => key), ['c']);
  t.equal(table.get('b'), undefined);
  await t.rejects(store.transaction(() => { void table.put('d', { n: 4 }); throw new Error('no'); }));
  t.equal(table.get('d'), undefined, 'a failed transaction writes nothing');
  await store.close();
  const again = await openStore(join(path, 'deep', 'er'));
  t.same(again.table<{ n: number }>('keys').get('a'), { n: 1 });
  await again.table<number>('meta').put('schema', SCHEMA_VERSION + 1);
  await again.close();
  await t.rejects(openStore(join(path, 'deep', 'er')), { name: 'StorageError', message: /schema version 2/ });
});

t.test('a folder that cannot be', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-store-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  writeFileSync(join(path, 'file'), '');
  await t.rejects(openStore(join(path, 'file', 'x')), { name: 'StorageError' });
  await t.rejects(lockDataDir(join(path, 'file', 'x')), { name: 'StorageError' });
});

t.test('one server per folder', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-lock-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const lock = await lockDataDir(path);
  await t.rejects(lockDataDir(join(path, '.')), { name: 'StorageError', message: /Another server uses the data folder/ });
  await lock.release();
  await (await lockDataDir(path)).release();
});
