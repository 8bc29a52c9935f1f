// Tests batches in a real PostgreSQL database.
import t from 'tap';
import { newBatchId } from '../../src/shared/ids.js';
import { ERASED_AT_ONCE } from '../../src/storage/batch-store.js';
import { openPool } from '../../src/storage/postgres/database.js';
import { PostgresBatchStore } from '../../src/storage/postgres/batches/batch-store.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { batchStoreTests, START_MS } from './batch-store.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await startPostgres();
t.teardown(() => postgres.close());
const settings = { url: await postgres.create(), connections: 6, timeout_ms: 60_000 };
await migrate(settings);
const database = openPool(settings);
t.teardown(() => database.close());
const clock = { now: START_MS };
const batches = new PostgresBatchStore(database, { retention_days: 30 }, { now: () => clock.now });

// Records how many lines each statement erases, also if they are erased together with their batch.
await database.execute('CREATE TABLE erased_lines (lines integer NOT NULL, bytes bigint NOT NULL)');
await database.execute(`CREATE FUNCTION record_erased() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO erased_lines SELECT count(*), coalesce(sum(octet_length(body) + octet_length(result)), 0) FROM gone;
  RETURN NULL; END $$`);
await database.execute(`CREATE TRIGGER record_erased AFTER DELETE ON batch_lines REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erased()`);

batchStoreTests({
  batches,
  clock,
  rows: async () => {
    const [row] = await database.query<{ n: number }>(
      'SELECT (SELECT count(*) FROM batches) + (SELECT count(*) FROM batch_lines) AS n',
    );
    return row?.n ?? 0;
  },
});

t.test('no statement of the tests above erases many lines', async (t) => {
  const [most] = await database.query<{ lines: number; all: number }>(
    'SELECT max(lines) AS lines, sum(lines)::integer AS all FROM erased_lines',
  );
  t.ok(most!.all > 3 * ERASED_AT_ONCE, `${most!.all} lines in total`);
  t.ok(most!.lines <= ERASED_AT_ONCE, `${most!.lines} lines in one statement`);
});

async function create(organizationId: string): Promise<string> {
  const id = newBatchId('openai');
  await batches.create(
    {
      id,
      organizationId,
      keyId: 'key_a',
      kind: 'openai',
      endpoint: '/v1/chat/completions',
      createdAt: clock.now,
      expiresAt: clock.now + 1_000,
      inputFileId: null,
      metadata: null,
      headers: {},
      outputExpiresS: null,
    },
    10,
  );
  return id;
}

t.test('large lines are erased in several statements', async (t) => {
  await database.execute('DELETE FROM erased_lines');
  const id = await create('org_a');
  const body = JSON.stringify('x'.repeat(3 * 1024 ** 2));
  for (let line = 1; line <= 12; line++) await batches.addLines(id, [{ line, customId: String(line), body }]);
  await batches.fail(id, []);
  const [most] = await database.query<{ bytes: number; all: number }>(
    'SELECT max(bytes) AS bytes, sum(lines)::integer AS all FROM erased_lines',
  );
  t.equal(most!.all, 12);
  t.ok(most!.bytes < 12 * 1024 ** 2, `${most!.bytes} bytes in one statement`);
});

t.test('a sweep finishes an erasure that was interrupted', async (t) => {
  const id = await create('org_c');
  await batches.addLines(id, [{ line: 1, customId: 'x', body: '{}' }]);
  await database.execute('UPDATE batches SET ended_at = 0 WHERE id = $1', [id]);
  t.equal(await batches.get('org_c', id), null);
  t.same((await batches.list('org_c', 'openai', { limit: 5 })).batches, []);
  await batches.sweep();
  t.same(await database.query('SELECT id FROM batches WHERE id = $1', [id]), []);
});

t.test('a sweep erases the lines of a batch that failed just before a crash', async (t) => {
  const id = await create('org_d');
  await batches.fail(id, []);
  await database.execute("INSERT INTO batch_lines (batch_id, line, custom_id, body) VALUES ($1, 1, 'x', '{}')", [id]);
  await batches.sweep();
  t.same(await database.query('SELECT line FROM batch_lines WHERE batch_id = $1', [id]), []);
  t.match(await batches.get('org_d', id), { phase: 'ended', ending: 'failed' });
  await batches.eraseOrganization('org_d');
});
