// Stored responses in PostgreSQL: what every store promises, by two processes at once, and what a crash leaves.
import t from 'tap';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { openPostgres } from './postgres-records.js';
import { unfinishedResponses } from '../../src/protocol/responses/unfinished.js';
import { record } from './records.js';
import { allOf, responseStoreTests } from './response-store.js';

t.setTimeout(300_000);     // for a busy machine

leaveOutIf(t, withoutPostgres);
const postgres = await startPostgres();
t.teardown(() => postgres.close());

await responseStoreTests(() => openPostgres(postgres));

t.test('a process that was taken for gone writes to its background response no more', async (t) => {
  const one = await openPostgres(postgres);
  const other = await openPostgres(postgres, one.url);
  t.teardown(async () => { await one.close(); await other.close(); });
  const queued = record({ background: true, status: 'queued', output: [] });
  await one.responses.save(queued);
  t.same(await allOf(other.responses.failUnfinished(unfinishedResponses)), [], 'as long as its lease holds');
  await postgres.ask(one.url, 'UPDATE processes SET lease_until = 0 WHERE id = $1', [one.lease.id]);
  t.equal((await allOf(other.responses.failUnfinished(unfinishedResponses))).length, 1);
  await one.responses.appendEvents(queued.id, [{ sequence: 0, type: 'response.created', data: '{}' }]);
  await one.responses.save(record({ id: queued.id, background: true, input: [] }));
  t.same(await one.responses.events(queued.id, -1), []);
  t.equal((await one.responses.get('org_a', queued.id))?.status, 'failed');
});
