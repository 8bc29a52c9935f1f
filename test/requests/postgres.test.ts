// Tests the request log in a real PostgreSQL: it must pass the tests for every RequestLog, and must have no duplicates
// if an entry is written twice.
import t, { type Test } from 'tap';
import { PostgresRequestLog } from '../../src/storage/postgres/usage/request-log.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';
import { entry, requestLogTests } from './request-log.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);
const open = async (t: Test): Promise<PostgresRequestLog> => new PostgresRequestLog(await databaseFor(t, postgres));

requestLogTests(open);

t.test('an entry whose write was not confirmed is written again but stored and counted only once', async (t) => {
  const log = await open(t);
  await log.add([entry(1), entry(2)]);
  const once = await log.size();
  await log.add([entry(1), entry(2), entry(3, { model: 'nul \0 and half \ud83d' })]);
  t.same(
    (await log.list({ organizationId: 'org_a', keyId: null, model: null, outcome: null }, 10, null)).rows.map(
      ({ row }) => row.requestId,
    ),
    ['req_3', 'req_2', 'req_1'],
  );
  t.same(await log.size(), { rows: 3, bytes: once.bytes * 1.5 });
});
