// Runs the ReplayStore tests with LMDB and with a real PostgreSQL server.
import t from 'tap';
import type { Charged } from '../../src/generation/provider.js';
import { packTokens } from '../../src/generation/replay/replay-item.js';
import { Replays } from '../../src/generation/replay/replays.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { LmdbReplayStore } from '../../src/storage/lmdb/replays/replay-store.js';
import { PostgresReplayStore } from '../../src/storage/postgres/replays/replay-store.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
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

t.test('a request looks up no more items than fit in its prompt', async (t) => {
  const store = await openStore(t.testdir());
  t.teardown(() => store.close());
  const kept = new LmdbReplayStore(store, 1 << 24);
  const keys = Array.from({ length: 1_000 }, (_, nth) => `c${nth}`);
  const tokens = packTokens(new Int32Array(10));
  await kept.save(keys.map((key) => row(key, { model: 'm', tokens })));
  let read = 0;
  const charged: Charged = (bytes, work) => {
    read += bytes;
    return work();
  };
  const find = async (maxTokens: number): Promise<string[]> => {
    const replays = new Replays(kept, {
      keepS: 60,
      responseS: 60,
      log: createTelemetry({ format: 'json', level: 'warn' }).log,
    });
    t.teardown(() => replays.close());
    const wanted = { organizationId: 'org_a', model: 'm', keys };
    return [...(await replays.find(wanted, { maxTokens, charged })).keys()];
  };
  t.same(await find(10_000), keys);
  t.equal(read, 10_000);
  read = 0;
  t.same(await find(50), keys.slice(0, 5), 'the first keys');
  t.ok(read <= 500, `${read} bytes`);
  read = 0;
  t.equal((await find(3_000)).length, 300);
  t.ok(read <= 5_120, `${read} bytes: two batches`);
});

const log = createTelemetry({ format: 'json', level: 'warn' }).log;

if (withoutPostgres === false) {
  const postgres = await postgresFor(t);
  replayStoreTests(async (t, maxBytes) => new PostgresReplayStore(await databaseFor(t, postgres), maxBytes, log));

  t.test('PostgreSQL: stores that share a database exceed the limit by at most a sixteenth each', async (t) => {
    const database = await databaseFor(t, postgres);
    const stores = [1, 2].map(() => new PostgresReplayStore(database, 160_000, log));
    const tokens = new Uint8Array(1_000 - 256);
    const expiresAt = Math.floor(Date.now() / 1_000) + 3_600;
    const size = async (): Promise<number> => {
      const [row] = await database.query<{ size: number }>(
        'SELECT coalesce(sum(octet_length(tokens) + 256), 0)::int AS size FROM replays',
      );
      return row!.size;
    };
    let largest = 0;
    for (let nth = 0; nth < 400; nth++) {
      await stores[nth % 2]!.save([row(`c${nth}`, { tokens, expiresAt: expiresAt + nth })]);
      largest = Math.max(largest, await size());
    }
    t.ok(largest > 160_000 && largest <= 180_000, `${largest} bytes`);
    t.same((await stores[0]!.find('org_a', ['c399'])).length, 1, 'the newest items stay');
    await stores[0]!.sweep();
    t.ok((await size()) <= 160_000, 'a sweep enforces the limit exactly');
  });

  t.test('PostgreSQL: items are saved if the limit cannot be enforced, which is tried again', async (t) => {
    const database = await databaseFor(t, postgres);
    const warned: unknown[] = [];
    const store = new PostgresReplayStore(database, 10_000, { warn: (...args: unknown[]) => warned.push(args) });
    const tokens = new Uint8Array(4_000);
    const found = async (): Promise<number> => (await store.find('org_a', ['c1', 'c2', 'c3', 'c4'])).length;
    await database.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'refused'; END $$`);
    await database.query('CREATE TRIGGER refuse BEFORE DELETE ON replays FOR EACH ROW EXECUTE FUNCTION refuse()');
    for (const key of ['c1', 'c2', 'c3']) await store.save([row(key, { tokens, expiresAt: 4_000_000_000 })]);
    t.equal(warned.length, 1);
    t.equal(await found(), 3);
    await database.query('DROP TRIGGER refuse ON replays');
    // Much less than a sixteenth of the limit.
    await store.save([row('c4', { tokens: Uint8Array.of(1), expiresAt: 4_000_000_001 })]);
    t.equal(await found(), 3);
  });
} else t.test('PostgreSQL', { skip: withoutPostgres }, async () => undefined);
