// Usage on a real database: what is told adds up, from several threads too, is found again by hour, day and
// group, and goes when its days are over.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openStore } from '../../src/storage/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import type { Log } from '../../src/telemetry/types.js';
import { rejectionOf } from '../../src/usage/rejections.js';
import { HOUR_MS } from '../../src/usage/sums.js';
import { usageRows, usageTotals, type UsageCursor, type UsageQuery } from '../../src/usage/usage-query.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';
import { UsageSweep } from '../../src/usage/usage-sweep.js';

const NOW = Date.parse('2026-11-21T10:30:00Z');
const HOUR = Math.floor(NOW / HOUR_MS);

const quiet: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

async function storeFor(t: Test): Promise<{ store: Store; path: string }> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-usage-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return { store, path };
}

const finished = (more: Partial<FinishedUsage> = {}): FinishedUsage => ({
  requestId: 'req_1', organizationId: 'org_a', keyId: 'key_a', model: 'hal-1.0', endpoint: '/v1/chat/completions', stream: false, status: 'completed',
  receivedAt: NOW - 50, startedAt: NOW - 40, firstTokenAt: NOW - 30, endedAt: NOW, inputTokens: 100, cachedTokens: 60, outputTokens: 10, reasoningTokens: 4,
  images: 1, finishReason: 'end_of_turn', errorCode: null, ...more,
});

const query = (more: Partial<UsageQuery> = {}): UsageQuery => ({ organizationId: 'org_a', fromHour: HOUR - 48, toHour: HOUR + 48, bucket: 'hour', groupBy: [], models: null, apiKeys: null, ...more });

t.test('rows, sums of the hour and of the month; failures and refusals', async (t) => {
  const { store } = await storeFor(t);
  const usage = new UsageRecorder(store, quiet, () => NOW);
  usage.finished(finished());
  usage.finished(finished());   // one request may be several generations
  usage.finished(finished({ status: 'failed', errorCode: 'model_error', outputTokens: 3, reasoningTokens: 0, images: 0 }));
  usage.rejected({ organizationId: 'org_a', keyId: 'key_a', model: 'hal-1.0', endpoint: '/v1/chat/completions', status: 429, code: 'rpm_limit_exceeded' });
  usage.rejected({ organizationId: 'org_a', keyId: 'key_a', model: null, endpoint: '/v1/chat/completions', status: 404, code: 'model_not_found' });
  t.same([...store.table('usage-rows').keys()], [], 'not at once');
  await usage.flush();
  t.equal([...store.table('usage-rows').keys()].length, 3);
  const [[, row] = []] = [...store.table<FinishedUsage>('usage-rows').range()].map(({ key, value }) => [key, value] as const);
  t.same(row, finished());
  t.equal(usage.monthTokens('org_a', '2026-11'), 110 + 110 + 103);
  t.equal(usage.monthTokens('org_b', '2026-11'), 0);
  const { rows, next } = await usageRows(store, query(), 10, null);
  t.same(rows, [{
    bucket_start: '2026-11-21T10:00:00.000Z', model: null, api_key_id: null, endpoint: null, requests: 3, errors: 2, rate_limited: 1,
    input_tokens: 300, cached_tokens: 180, output_tokens: 23, reasoning_tokens: 8, images: 2,
  }]);
  t.equal(next, null);
  await usage.close();
});

t.test('several recorders at once add up', async (t) => {
  const { store } = await storeFor(t);
  const recorders = [1, 2, 3].map(() => new UsageRecorder(store, quiet));
  for (let round = 0; round < 500; round++) for (const [at, one] of recorders.entries()) one.finished(finished({ requestId: `req_${at}_${round}` }));
  await Promise.all(recorders.map((one) => one.close()));
  const { rows } = await usageRows(store, query(), 10, null);
  t.match(rows, [{ requests: 1_500, input_tokens: 150_000 }]);
  t.equal([...store.table('usage-rows').keys()].length, 1_500);
  t.equal(store.table('usage-months').get(['org_a', '2026-11']), 165_000);
});

t.test('it is written by itself, and a timer keeps no process alive', async (t) => {
  const { store } = await storeFor(t);
  const usage = new UsageRecorder(store, quiet);
  usage.finished(finished());
  for (let i = 0; i < 100 && usage.monthTokens('org_a', '2026-11') === 0; i++) await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(usage.monthTokens('org_a', '2026-11'), 110);
  await usage.close();
});

t.test('a disk that is full: kept for later, bounded, never thrown', async (t) => {
  const { store } = await storeFor(t);
  let full = true;
  const errors: string[] = [];
  const failing: Store = {
    table: (name) => store.table(name), close: () => store.close(), refresh: () => store.refresh(),
    transaction: (work) => (full ? Promise.reject(new Error('no space')) : store.transaction(work)),
  };
  const usage = new UsageRecorder(failing, { ...quiet, error: (_fields, message) => errors.push(message) });
  for (let i = 0; i < 60_000; i++) usage.finished(finished());
  await usage.flush();
  t.same(errors, ['usage is told faster than it can be recorded: some is dropped', 'usage cannot be recorded now; it is tried again'], 'said once each');
  full = false;
  await usage.flush();
  t.match((await usageRows(store, query(), 10, null)).rows, [{ requests: 50_000 }]);
  await usage.close();
});

t.test('by day and hour, grouped and filtered, page by page', async (t) => {
  const { store } = await storeFor(t);
  const usage = new UsageRecorder(store, quiet);
  const models = ['hal-1.0', 'clarke-1.0'];
  const keys = ['key_a', 'key_b', 'key_c'];
  for (let hour = 0; hour < 30; hour++) for (const model of models) for (const keyId of keys) usage.finished(finished({ model, keyId, endedAt: NOW + (hour - 20) * HOUR_MS }));
  usage.finished(finished({ organizationId: 'org_aa', endedAt: NOW }));
  usage.finished(finished({ organizationId: 'org_B', endedAt: NOW }));
  await usage.close();

  const all = await usageRows(store, query(), 1_000, null);
  t.equal(all.rows.length, 30);
  t.ok(all.rows.every(({ requests }) => requests === 6));
  const days = await usageRows(store, query({ bucket: 'day', fromHour: Math.floor((HOUR - 48) / 24) * 24 }), 1_000, null);
  t.same(days.rows.map(({ bucket_start, requests }) => [bucket_start, requests]), [['2026-11-20T00:00:00.000Z', 60], ['2026-11-21T00:00:00.000Z', 120]]);
  const span = await usageRows(store, query({ fromHour: HOUR - 1, toHour: HOUR + 1 }), 1_000, null);
  t.same(span.rows.map(({ bucket_start }) => bucket_start), ['2026-11-21T09:00:00.000Z', '2026-11-21T10:00:00.000Z'], 'from is in, to is not');
  const one = await usageRows(store, query({ models: ['hal-1.0'], apiKeys: ['key_a', 'key_c', 'key_z'], groupBy: ['api_key'] }), 1_000, null);
  t.equal(one.rows.length, 60);
  t.match(one.rows[0], { model: null, api_key_id: 'key_a', endpoint: null, requests: 1 });

  const whole = await usageRows(store, query({ groupBy: ['model', 'api_key', 'endpoint'] }), 1_000, null);
  t.equal(whole.rows.length, 180);
  const paged: unknown[] = [];
  let pages = 0;
  for (let after: UsageCursor | null = null; ; pages++) {
    const page: Awaited<ReturnType<typeof usageRows>> = await usageRows(store, query({ groupBy: ['model', 'api_key', 'endpoint'] }), 7, after);
    paged.push(...page.rows);
    if (page.next === null) break;
    after = page.next;
  }
  t.equal(pages, 25);
  t.same(paged, whole.rows, 'pages joined are the whole');

  const totals = await usageTotals(store, { fromHour: HOUR - 48, toHour: HOUR + 48 });
  t.match(totals.map(({ organization_id, model, requests }) => [organization_id, model, requests]).sort(), [
    ['org_B', 'hal-1.0', 1], ['org_a', 'clarke-1.0', 90], ['org_a', 'hal-1.0', 90], ['org_aa', 'hal-1.0', 1],
  ]);
  t.equal((await usageTotals(store, { fromHour: HOUR - 48, toHour: HOUR + 48 }, ['org_aa'])).length, 1);
});

t.test('a slice of the table is not a page: thousands of entries in one bucket', async (t) => {
  const { store } = await storeFor(t);
  const usage = new UsageRecorder(store, quiet);
  for (let i = 0; i < 3_500; i++) usage.rejected({ organizationId: 'org_a', keyId: `key_${i}`, model: 'hal-1.0', endpoint: '/v1/messages', status: 400, code: 'invalid_json' });
  await usage.close();
  const hour = Math.floor(Date.now() / HOUR_MS);
  const { rows } = await usageRows(store, query({ fromHour: hour - 1, toHour: hour + 2, bucket: 'day' }), 10, null);
  t.equal(rows.reduce((sum, { errors }) => sum + errors, 0), 3_500);
});

t.test('what is past its days goes', async (t) => {
  const { store } = await storeFor(t);
  const usage = new UsageRecorder(store, quiet);
  const DAY = 24 * HOUR_MS;
  for (const [organizationId, days] of [['org_a', 0], ['org_a', 20], ['org_b', 95], ['org_b', 800], ['org_c', 800]] as const) {
    for (let i = 0; i < 600; i++) usage.finished(finished({ organizationId, endedAt: NOW - days * DAY }));
  }
  await usage.close();
  const sweep = new UsageSweep(store, { row_days: 90, aggregate_days: 730 }, (error) => { throw error; });
  t.equal(await sweep.run(NOW), 1_800 + 2 + 2);
  await sweep.close();
  t.equal([...store.table('usage-rows').keys()].length, 1_200);
  t.same([...store.table('usage-hours').keys()].map((key) => (key as string[])[0]), ['org_a', 'org_a', 'org_b']);
  t.same([...store.table('usage-months').keys()], [['org_a', '2026-11'], ['org_b', '2026-08']]);
});

t.test('which answers are refusals', (t) => {
  const generating = new Map([['/v1/messages', '/v1/messages'], ['/playground', '/v1/chat/completions']]);
  const record = (more: object): Parameters<typeof rejectionOf>[0] => ({
    requestId: 'req_1', clientRequestId: null, method: 'POST', path: '/v1/messages', status: 429, failure: { status: 429, code: 'rpm_limit_exceeded' }, outcome: 'refused', organizationId: 'org_a', keyId: 'key_a',
    durationMs: 1, aborted: false, fields: { model: 'hal-1.0' }, ...more,
  });
  t.same(rejectionOf(record({}), generating), { organizationId: 'org_a', keyId: 'key_a', model: 'hal-1.0', endpoint: '/v1/messages', status: 429, code: 'rpm_limit_exceeded' });
  t.match(rejectionOf(record({ method: 'WEBSOCKET', fields: {} }), generating), { model: null });
  t.match(rejectionOf(record({ path: '/playground' }), generating), { endpoint: '/v1/chat/completions' }, 'as what it is another way to');
  for (const other of [{ status: 200, failure: null }, { path: '/v1/models' }, { organizationId: null }, { method: 'GET' }, { status: 0, failure: null }, { fields: { admitted: true } }]) {
    t.equal(rejectionOf(record(other), generating), null);
  }
  t.end();
});
