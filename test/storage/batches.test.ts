// Tests batches in a real LMDB database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { newBatchId } from '../../src/shared/ids.js';
import { LmdbBatchStore } from '../../src/storage/lmdb/batches/batch-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { TABLES } from '../../src/storage/store.js';
import { batchStoreTests, START_MS } from './batch-store.js';

t.setTimeout(300_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-batches-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});
const clock = { now: START_MS };
const batches = new LmdbBatchStore(store, { retention_days: 30 }, { now: () => clock.now });
const rows = async (): Promise<number> =>
  TABLES.filter((name) => name.startsWith('batch')).reduce(
    (sum, name) => sum + [...store.table(name).keys()].length,
    0,
  );

batchStoreTests({ batches, clock, rows });

t.test('the lines of an earlier process on the same directory are available immediately', async (t) => {
  const id = newBatchId('messages');
  await batches.create(
    {
      id,
      organizationId: 'org_a',
      keyId: 'key_a',
      kind: 'messages',
      endpoint: '/v1/messages',
      createdAt: clock.now,
      expiresAt: clock.now + 1_000,
      inputFileId: null,
      metadata: null,
      headers: {},
      outputExpiresS: null,
    },
    1,
  );
  await batches.addLines(id, [{ line: 1, customId: 'x', body: '{}' }]);
  await batches.begin(id, 1, null);
  await batches.claim('earlier', 1, 30_000);
  t.same(await batches.claim('now', 1, 30_000), []);
  await batches.releaseOthers('now');
  const [line] = await batches.claim('now', 1, 30_000);
  t.equal(line?.lost, 1);
  await batches.releaseOthers('now');
  t.ok(await batches.finish(line!, { outcome: 'errored', text: '{}', usage: null }), 'own claims stay');
});

t.test('a sweep finishes an erasure that was interrupted', async (t) => {
  await store.table('batch-results').put(['batch_x', 1], { customId: 'x', outcome: 'errored', text: '' });
  await store.table('batch-times').put(['erase', 0, 'batch_x'], []);
  await batches.sweep();
  t.same([...store.table('batch-results').keys()], []);
});
