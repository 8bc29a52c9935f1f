// Tests the request log in a real LMDB database, including entries for requests that were not admitted.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { configWith } from '../../src/config/load.js';
import { LmdbRequestLog } from '../../src/storage/lmdb/usage/request-log.js';
import { RequestRecorder } from '../../src/usage/requests/request-recorder.js';
import { RequestSweep } from '../../src/usage/requests/request-sweep.js';
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
  for (const table of ['requests', 'requests-by-organization', 'request-texts'] as const)
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

t.test('requests that were not admitted are logged, except internal and unknown routes', (t) => {
  const record = (more: object = {}) =>
    finished({
      requestId: 'req_1',
      clientRequestId: null,
      method: 'POST',
      path: '/v1/chat/completions',
      status: 429,
      failure: { status: 429, code: 'rpm_limit_exceeded' },
      organizationId: 'org_a',
      keyId: 'key_a',
      durationMs: 12.4,
      aborted: false,
      fields: { model: 'hal-1.0' },
      ...more,
    });
  const generating = new Map([
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/dashboard/api/organizations/:org/playground', '/v1/chat/completions'],
  ]);
  t.match(unadmittedEntry(record(), generating, NOW), {
    requestId: 'req_1',
    outcome: 'refused',
    status: 429,
    code: 'rpm_limit_exceeded',
    model: 'hal-1.0',
    receivedAt: NOW - 12,
    endedAt: NOW,
    parameters: null,
    text: null,
  });
  t.match(unadmittedEntry(record({ path: '/dashboard/api/organizations/:org/playground' }), generating), {
    endpoint: '/v1/chat/completions',
  });
  t.match(unadmittedEntry(record({ method: 'GET', path: '/v1/models', status: 200, failure: null }), generating), {
    endpoint: '/v1/models',
    outcome: 'completed',
    code: null,
  });
  for (const other of [
    { organizationId: null },
    { fields: { admitted: true } },
    { path: '/dashboard/api/me' },
    { path: 'unmatched' },
    { method: 'BACKGROUND' },
  ])
    t.equal(unadmittedEntry(record(other), generating), null, JSON.stringify(other));
  t.end();
});
