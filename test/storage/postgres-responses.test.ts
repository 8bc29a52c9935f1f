// Tests stored responses in PostgreSQL: runs the tests that every response store must pass, and adds cases with two
// concurrent processes and with expired leases.
import t from 'tap';
import { eventually } from '../e2e/monolith.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { openPostgres } from './postgres-records.js';
import { unfinishedResponses } from '../../src/protocol/responses/unfinished.js';
import { openPostgresResponses } from '../../src/storage/postgres/responses/open-response-store.js';
import { DAY, record, START } from './records.js';
import { allOf, responseStoreTests } from './response-store.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await startPostgres();
t.teardown(() => postgres.close());

await responseStoreTests(() => openPostgres(postgres), 500);

t.test('a process whose lease has expired can no longer write to its background response', async (t) => {
  const one = await openPostgres(postgres);
  const other = await openPostgres(postgres, one.url);
  t.teardown(async () => {
    await one.close();
    await other.close();
  });
  const queued = record({ background: true, status: 'queued', output: [] });
  await one.responses.save(queued);
  t.same(
    await allOf(other.responses.failUnfinished(unfinishedResponses)),
    [],
    'the response does not fail while the lease is valid',
  );
  await postgres.ask(one.url, 'UPDATE processes SET lease_until = 0 WHERE id = $1', [one.lease.id]);
  t.equal((await allOf(other.responses.failUnfinished(unfinishedResponses))).length, 1);
  await one.responses.appendEvents(queued.id, [{ sequence: 0, type: 'response.created', data: '{}' }]);
  await one.responses.save(record({ id: queued.id, background: true, input: [] }));
  t.same(await one.responses.events(queued.id, -1), []);
  t.equal((await one.responses.get('org_a', queued.id))?.status, 'failed');
});

t.test('a thread opened without sweeps erases nothing, and one with sweeps erases expired responses', async (t) => {
  const one = await openPostgres(postgres);
  t.teardown(() => one.close());
  await one.responses.save(record());
  const erased = async (sweeps: boolean, withinMs: number): Promise<boolean> => {
    const other = openPostgresResponses(
      one.database,
      one.lease,
      { retention_days: 30 },
      { now: () => START + 31 * DAY, sweeps },
    );
    const is = await eventually(async () => (await one.rows())['responses'] === 0, withinMs);
    await other.close();
    return is;
  };
  t.equal(await erased(false, 200), false);
  t.equal(await erased(true, 30_000), true);
});

t.test('closing a store does not wait for a long sweep, and the next store continues it', async (t) => {
  const one = await openPostgres(postgres);
  t.teardown(() => one.close());
  await Promise.all(Array.from({ length: 450 }, () => one.responses.save(record())));
  const sweeping = () =>
    openPostgresResponses(one.database, one.lease, { retention_days: 30 }, { now: () => START + 31 * DAY });
  await sweeping().close();
  t.ok(((await one.rows())['responses'] ?? 0) > 200, 'batches that the sweep had not started remain');
  const next = sweeping();
  t.ok(await eventually(async () => (await one.rows())['responses'] === 0));
  await next.close();
});
