// Runs the AlertStore tests on a real PostgreSQL, and tests how processes share the lease to send alerts.
import t, { type Test } from 'tap';
import type { Readings } from '../../src/alerts/readings.js';
import type { Database } from '../../src/storage/postgres/database.js';
import { PostgresAlertProcesses } from '../../src/storage/postgres/alerts/alert-processes.js';
import { PostgresAlertStore } from '../../src/storage/postgres/alerts/alert-store.js';
import { ProcessLease } from '../../src/storage/postgres/process-lease.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';
import { alertStoreTests, incidentAt } from './alert-stores.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);

const READINGS: Readings = { requests: 3, serverErrors: 1, latencies: [], diskFreeBytes: 7 };

interface Process {
  lease: ProcessLease;
  processes: PostgresAlertProcesses;
  store: PostgresAlertStore;
}

async function processIn(database: Database, name: string): Promise<Process> {
  const lease = await ProcessLease.open(database);
  const processes = new PostgresAlertProcesses(database, lease, name);
  return { lease, processes, store: new PostgresAlertStore(database, lease.id) };
}

alertStoreTests(async (t: Test) => {
  const database = await databaseFor(t, postgres);
  const { lease, processes, store } = await processIn(database, 'a');
  t.teardown(() => lease.close());
  await processes.report(READINGS, true);
  return store;
});

t.test('one process at a time has the lease to send alerts', async (t) => {
  const database = await databaseFor(t, postgres);
  const [a, b, c] = [await processIn(database, 'a'), await processIn(database, 'b'), await processIn(database, 'c')];
  const expire = (lease: ProcessLease): Promise<number> =>
    database.execute('UPDATE processes SET lease_until = 0 WHERE id = $1', [lease.id]);

  t.equal(await a.processes.report(READINGS, false), true, 'a process without destinations takes a free lease');
  t.equal(await b.processes.report(READINGS, true), true, 'and gives way to one with destinations');
  t.equal(await a.processes.report(READINGS, false), false);
  t.equal(await c.processes.report(READINGS, true), false, 'which keeps it');
  t.match(await a.processes.all(), [
    { name: 'a', alive: true, leads: false, readings: READINGS },
    { name: 'b', alive: true, leads: true },
    { name: 'c', alive: true, leads: false },
  ]);

  const incident = incidentAt(1);
  t.equal(await c.store.begin(incident), false, 'a process without the lease begins no incident');
  t.equal(await b.store.begin(incident), true);
  t.equal(await c.store.change(incident.id, (one) => ({ ...one, endedAt: 2 })), null, 'and changes none');

  await expire(b.lease);
  const taken = await Promise.all([a.processes.report(READINGS, false), c.processes.report(READINGS, true)]);
  t.same(taken, [false, true], 'when its holder sends no heartbeats, another process takes the lease');
  t.equal(await b.store.change(incident.id, (one) => ({ ...one, endedAt: 2 })), null);
  const [, lost] = await c.processes.all();
  t.match(lost, { name: 'b', alive: false, leads: false });
  t.ok((lost?.silentMs ?? 0) > 1e9);
  await c.processes.forget('a');
  await c.processes.forget('b');
  t.same(
    (await c.processes.all()).map(({ name }) => name),
    ['a', 'c'],
    'only a silent process can be forgotten',
  );

  await c.processes.leave();
  t.same(
    (await a.processes.all()).map(({ name }) => name),
    ['a'],
    'a process that shuts down normally is not down',
  );
  t.equal(await a.processes.report(READINGS, false), true, 'and frees the lease immediately');
  for (const { lease } of [a, b, c]) await lease.close();
});
