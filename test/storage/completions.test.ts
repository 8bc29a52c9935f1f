// Tests stored chat completions in a real LMDB database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { newStoredCompletionId } from '../../src/shared/ids.js';
import { LmdbCompletionStore } from '../../src/storage/lmdb/completions/completion-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { TABLES } from '../../src/storage/store.js';
import { completionStoreTests } from './completion-store.js';
import { START } from './records.js';

t.setTimeout(300_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-completions-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});
const clock = { now: START };
const completions = new LmdbCompletionStore(store, { retention_days: 30 }, { now: () => clock.now });
const rows = async (): Promise<number> =>
  TABLES.filter((name) => name.startsWith('chat-completion')).reduce(
    (sum, name) => sum + [...store.table(name).keys()].length,
    0,
  );

completionStoreTests({ completions, clock, rows });

t.test('a sweep finishes an erasure that was interrupted', async (t) => {
  const id = newStoredCompletionId();
  await store.transaction(() => {
    void store.table('chat-completion-texts').put([id, 0], '{}');
    void store.table('chat-completion-times').put(['erase', 0, 'org_a', id], []);
  });
  t.equal(await completions.sweep(), 0);
  t.equal(await rows(), 0);
});
