// Tests a rolling update (docs/guides/scaling.md): processes of one release run on tables that a later release has
// migrated in a compatible way. The test applies the later migration while one process is under load, then starts
// another process, which finds tables that it does not know.
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import pg from 'pg';
import t from 'tap';
import { migrate, DATABASE_VERSION, MIGRATIONS } from '../../src/storage/postgres/migrations.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { said, startScripted } from '../support/script-model.js';
import { eventually, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const model = 'tycho-1.0';
leaveOutIf(t, withoutPostgres, withoutRedis);
const postgres = await startPostgres();
t.teardown(() => postgres.close());
const redis = await startRedis();
t.teardown(() => redis.stop());
const start = (): Promise<Monolith> =>
  startScripted({
    models: [model],
    args: ['--database', postgres.url, '--redis', redis.url, '--responses-retention-days', '30'],
  });
const clientOf = ({ url, key }: Monolith): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const tables = async (): Promise<string[]> =>
  (
    await postgres.ask<{ name: string }>(
      postgres.url,
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
    )
  ).map(({ name }) => name);

t.test(
  'a compatible migration fails no request of an earlier release, and processes of that release still start',
  async (t) => {
    const a = await start();
    t.teardown(() => a.stop());
    const one = clientOf(a);
    let under = true,
      answered = 0;
    const load = Promise.all(
      Array.from({ length: 3 }, async () => {
        while (under) {
          const made = await one.responses.create({ model, input: 'A: x' });
          t.same((await one.responses.retrieve(made.id)).output, made.output);
          answered++;
        }
      }),
    );
    const before = answered;
    // A migration that a later release could contain: one more table, and an optional column in every existing table.
    const known = await tables();
    await migrate({ url: postgres.url, connections: 1, timeout_ms: 30_000 }, DATABASE_VERSION + 1, [
      ...MIGRATIONS,
      {
        what: 'additions of a later release',
        oldest: 1,
        statements: [
          'CREATE TABLE later (id integer PRIMARY KEY)',
          ...known
            .filter((name) => name !== 'monolith_versions')
            .map((name) => `ALTER TABLE ${name} ADD COLUMN later_note text`),
        ],
      },
    ]);
    const b = await start();
    t.teardown(() => b.stop());
    const other = clientOf(b);
    while (answered < before + 20)
      await new Promise((done) => {
        setTimeout(done, 10);
      });
    under = false;
    await load;
    const made = await one.responses.create({ model, input: 'A: x' });
    t.same((await other.responses.retrieve(made.id)).output, made.output);
    const next = await other.responses.create({ model, previous_response_id: made.id, input: 'S: y' });
    t.equal(next.output_text, said('S').content);
    t.equal((await one.responses.inputItems.list(next.id)).data.length, 3);
    await other.responses.delete(made.id);
    t.equal(
      await one.responses.retrieve(made.id).then(
        () => 'none',
        ({ status }: { status: number }) => status,
      ),
      404,
    );
  },
);

t.test('a migration that waits for a table lock does not block later queries on that table', async (t) => {
  await postgres.ask(postgres.url, 'CREATE TABLE busy (id integer)');
  const [holder, asker] = [
    new pg.Client(postgres.url),
    new pg.Client({ connectionString: postgres.url, statement_timeout: 20_000 }),
  ];
  for (const client of [holder, asker]) {
    await client.connect();
    t.teardown(() => client.end());
  }
  await holder.query('BEGIN');
  await holder.query('INSERT INTO busy VALUES (1)');
  let made = false;
  const later = { what: 'later', oldest: 1, statements: [] };
  const step = migrate({ url: postgres.url, connections: 1, timeout_ms: 30_000 }, DATABASE_VERSION + 2, [
    ...MIGRATIONS,
    later,
    { ...later, statements: ['ALTER TABLE busy ADD COLUMN note text'] },
  ]).then(() => {
    made = true;
  });
  const waits = async (): Promise<boolean> =>
    (await asker.query("SELECT FROM pg_locks WHERE NOT granted AND relation = 'busy'::regclass")).rowCount === 1;
  for (let round = 0; round < 3; round++) {
    t.ok(await eventually(waits), 'the migration waits for the transaction that holds the table');
    await asker.query('SELECT FROM busy');
  }
  t.equal(made, false);
  await holder.query('COMMIT');
  await step;
  t.same((await asker.query('SELECT * FROM busy')).rows, [{ id: 1, note: null }]);
});

t.test('a migration waits no longer in total for the locks of several tables than for one', async (t) => {
  const clients = Array.from({ length: 10 }, () => new pg.Client(postgres.url));
  for (const client of clients) {
    await client.connect();
    t.teardown(() => client.end());
  }
  const [asker, looker, ...holders] = clients as [pg.Client, pg.Client, ...pg.Client[]];
  const names = ['free', ...holders.map((_, at) => `busy_${at}`)];
  await asker.query(names.map((name) => `CREATE TABLE ${name} (id integer)`).join('; '));
  for (const [at, holder] of holders.entries())
    await holder.query(`BEGIN; LOCK TABLE busy_${at} IN ROW EXCLUSIVE MODE`);
  const later = { what: 'later', oldest: 1, statements: [] };
  const steps = [
    ...MIGRATIONS,
    later,
    later,
    { ...later, statements: names.map((name) => `ALTER TABLE ${name} ADD COLUMN note text`) },
  ];
  const step = migrate({ url: postgres.url, connections: 1, timeout_ms: 30_000 }, DATABASE_VERSION + 3, steps);
  const waitsFor = async (name: string): Promise<boolean> =>
    (await looker.query('SELECT FROM pg_locks WHERE NOT granted AND relation = $1::regclass', [name])).rowCount === 1;
  t.ok(await eventually(() => waitsFor('busy_0')));
  const began = performance.now();
  let waited = Infinity;
  const asked = asker.query('SELECT FROM free').then(() => {
    waited = performance.now() - began;
  });
  // Each transaction releases its table before the migration's lock wait times out.
  for (const [at, holder] of holders.entries()) {
    t.ok(await eventually(() => waitsFor(`busy_${at}`)));
    await sleep(150);
    await holder.query('COMMIT');
  }
  await Promise.all([asked, step]);
  t.ok(waited < 900, `${waited.toFixed()} ms; the transactions hold their tables for ${holders.length} times 150 ms`);
});
