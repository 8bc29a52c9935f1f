// Runs the tests for every ReplayStore on LMDB and on a real PostgreSQL.
import t from 'tap';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { LmdbReplayStore } from '../../src/storage/lmdb/replays/replay-store.js';
import { PostgresReplayStore } from '../../src/storage/postgres/replays/replay-store.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { withoutPostgres } from '../support/postgres.js';
import { replayStoreTests, row } from './replay-store.js';

t.setTimeout(300_000); // the machine may be busy

replayStoreTests(async (t, maxBytes) => {
  const store = await openStore(t.testdir());
  t.teardown(() => store.close());
  return new LmdbReplayStore(store, maxBytes);
});

t.test('LMDB: nothing is left of erased items', async (t) => {
  const store = await openStore(t.testdir());
  t.teardown(() => store.close());
  const replays = new LmdbReplayStore(store, 1 << 20);
  await replays.save([row('c1', { responseId: 'resp_1' }), row('c2'), row('c3', { expiresAt: 1 })]);
  await replays.save([row('c2', { tokens: new Uint8Array(100) })]);
  await replays.eraseResponse('org_a', 'resp_1');
  await replays.sweep();
  t.equal(store.table('replay-sizes').get('org_a'), 100 + 256);
  await replays.eraseOrganization('org_a');
  for (const name of ['replays', 'replays-by-time', 'replays-by-response', 'replay-sizes'] as const)
    t.same([...store.table(name).keys()], [], name);
});

if (withoutPostgres === false) {
  const postgres = await postgresFor(t);
  replayStoreTests(async (t, maxBytes) => new PostgresReplayStore(await databaseFor(t, postgres), maxBytes));
} else t.test('PostgreSQL', { skip: withoutPostgres }, async () => undefined);
