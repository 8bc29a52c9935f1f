// Tests the request log in a real LMDB database, including entries for requests that were not admitted.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { configWith } from '../../src/config/load.js';
import { LmdbRequestLog } from '../../src/storage/lmdb/usage/request-log.js';
import { RequestRecorder } from '../../src/usage/requests/request-recorder.js';
import { RequestSweep } from '../../src/usage/requests/request-sweep.js';
import { UnknownClientPace } from '../../src/usage/requests/unknown-client-pace.js';
import { unadmittedEntry } from '../../src/usage/requests/unadmitted.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import { finished } from '../../src/telemetry/outcome.js';
import type { Log } from '../../src/telemetry/types.js';
import { entry, NOW, requestLogTests } from './request-log.js';

const quiet: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

async function storeFor(t: Test): Promise<{ store: Store; log: LmdbRequestLog }> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-requests-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return { store, log: new LmdbRequestLog(store) };
}

requestLogTests(async (t) => (await storeFor(t)).log);

t.test('removed entries leave no rows in any table, and the limits follow the settings', async (t) => {
  const { store, log } = await storeFor(t);
  const settings = configWith({ requests: { days: 2, max_rows: 1_000 } }).requests;
  const recorder = new RequestRecorder(log, settings, quiet);
  const text = { prompt: [{ role: 'user', text: 'x' }], answer: [], cut: false };
  for (let at = 0; at < 1_200; at++)
    recorder.add(entry(at, { text, endedAt: at < 100 ? NOW - 3 * 86_400_000 + at : NOW + at }));
  t.same(await log.size(), { rows: 0, bytes: 0 }, 'entries are not written immediately');
  await recorder.flush();
  t.equal((await log.size()).rows, 1_200);
  t.equal([...store.table('request-texts').keys()].length, 500, 'texts are dropped if too many entries are waiting');
  const sweep = new RequestSweep(log, settings, (error) => {
    throw error;
  });
  t.equal(await sweep.run(NOW), 200, 'entries are removed by age first, then by number');
  await sweep.close();
  await log.eraseTexts('org_a');
  t.same([...store.table('request-texts').keys()], [], 'the texts are deleted from their table');
  await log.eraseOrganization('org_a');
  for (const table of ['requests', 'requests-by-organization', 'requests-by-id', 'request-texts'] as const)
    t.same([...store.table(table).keys()], [], table);
  await recorder.close();

  const off = new RequestRecorder(log, { ...settings, days: 0 }, quiet);
  off.add(entry(1));
  await off.close();
  t.equal((await log.size()).rows, 0, 'days: 0 disables the request log');
});

t.test('listing a page examines a limited number of entries and returns where to continue', async (t) => {
  const { log } = await storeFor(t);
  for (let from = 0; from < 21_000; from += 1_000)
    await log.add(Array.from({ length: 1_000 }, (_, at) => entry(from + at, from + at === 0 ? { model: 'rare' } : {})));
  const asked = { organizationId: 'org_a', keyId: null, model: 'rare', outcome: null };
  const page = await log.list(asked, 10, null);
  t.same(page.rows, []);
  t.not(page.next, null);
  t.match((await log.list(asked, 10, page.next)).rows, [{ row: { requestId: 'req_0' } }]);
});

t.test('refused requests are logged with the error and the client', (t) => {
  const record = (more: object = {}) =>
    finished({
      requestId: 'req_1',
      clientRequestId: null,
      method: 'POST',
      path: '/v1/chat/completions',
      status: 429,
      failure: { status: 429, code: 'rpm_limit_exceeded', message: 'Too many.', param: 'x'.repeat(500) },
      client: { address: '192.0.2.1', userAgent: 'curl/8' },
      organizationId: 'org_a',
      keyId: 'key_a',
      durationMs: 12.4,
      aborted: false,
      fields: { model: 'hal-1.0' },
      ...more,
    });
  const listed = new Map([
    ['/v1/models', '/v1/models'],
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/dashboard/api/organizations/:org/playground', '/v1/chat/completions'],
  ]);
  t.match(unadmittedEntry(record(), listed, NOW), {
    requestId: 'req_1',
    outcome: 'refused',
    status: 429,
    code: 'rpm_limit_exceeded',
    model: 'hal-1.0',
    message: 'Too many.',
    param: /^x{199}…$/,
    client: { address: '192.0.2.1', userAgent: 'curl/8' },
    receivedAt: NOW - 12,
    endedAt: NOW,
    parameters: null,
    text: null,
  });
  t.match(unadmittedEntry(record({ path: '/dashboard/api/organizations/:org/playground' }), listed), {
    endpoint: '/v1/chat/completions',
  });
  t.match(unadmittedEntry(record({ method: 'GET', path: '/v1/models', status: 200, failure: null }), listed), {
    endpoint: '/v1/models',
    outcome: 'completed',
    code: null,
  });
  const unknown = { organizationId: null, keyId: null };
  t.match(unadmittedEntry(record({ path: 'unmatched', url: '/v1/chat/completion' }), listed), {
    organizationId: 'org_a',
    endpoint: '/v1/chat/completion',
  });
  t.match(unadmittedEntry(record(unknown), listed), { organizationId: '', keyId: '' });
  const keyHolder = { organizationId: 'org_a', keyId: 'key_old' };
  const revoked = { status: 401, code: 'api_key_revoked', message: 'Revoked.', param: null, keyHolder };
  t.match(unadmittedEntry(record({ ...unknown, failure: revoked }), listed), { ...keyHolder, code: 'api_key_revoked' });
  for (const other of [
    { ...unknown, failure: null, status: 200 },
    { fields: { admitted: true } },
    { path: '/dashboard/api/me' },
    { method: 'BACKGROUND' },
  ])
    t.equal(unadmittedEntry(record(other), listed), null, JSON.stringify(other));
  t.end();
});

t.test('requests without a known API key are logged at a limited rate', (t) => {
  let now = 0;
  const pace = new UnknownClientPace(
    (limit) => limit / 2,
    () => now,
  );
  const taken = (): number => Array.from({ length: 1_000 }, () => pace.take()).filter(Boolean).length;
  t.equal(taken(), 120);
  now += 10_000;
  t.equal(taken(), 5, 'one of two threads may log 30 a minute');
  now += 86_400_000;
  t.equal(taken(), 120, 'a pause adds no more than a burst');
  t.end();
});

t.test('opening a database of an earlier release indexes its requests by ID', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-requests-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const old = await openStore(path);
  await new LmdbRequestLog(old).add([entry(1), entry(2)]);
  await old.transaction(() => {
    for (const key of ['req_1', 'req_2']) void old.table('requests-by-id').remove(key);
    void old.table<number>('meta').put('schema', 8);
  });
  await old.close();
  const store = await openStore(path);
  t.teardown(() => store.close());
  const asked = { organizationId: null, keyId: null, model: null, outcome: null, requestId: 'req_2' };
  t.match((await new LmdbRequestLog(store).list(asked, 1, null)).rows, [{ row: { requestId: 'req_2' } }]);
});
