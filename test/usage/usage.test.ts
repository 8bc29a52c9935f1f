// Tests usage in a real LMDB database: records add up, are found by hour, day and group, and are removed after their
// retention period.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import type { Log } from '../../src/telemetry/types.js';
import { rejectionOf } from '../../src/usage/rejections.js';
import { LmdbUsageStore } from '../../src/storage/lmdb/usage/usage-store.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';
import { UsageSweep } from '../../src/usage/usage-sweep.js';
import { eventually } from '../e2e/monolith.js';
import { finished, NOW, query, usageStoreTests } from './usage-store.js';

const quiet: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

async function storeFor(t: Test): Promise<{ store: Store; usages: LmdbUsageStore }> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-usage-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return { store, usages: new LmdbUsageStore(store) };
}

usageStoreTests(async (t) => (await storeFor(t)).usages);

t.test(
  'recording usage writes a row per generation and updates the sums of the hour and the month, including failures and refusals',
  async (t) => {
    const { store, usages } = await storeFor(t);
    const usage = new UsageRecorder(usages, quiet, () => NOW);
    usage.finished(finished());
    usage.finished(finished()); // one request may have several generations
    usage.finished(
      finished({ status: 'failed', errorCode: 'model_error', outputTokens: 3, reasoningTokens: 0, images: 0 }),
    );
    usage.rejected({
      organizationId: 'org_a',
      keyId: 'key_a',
      model: 'hal-1.0',
      endpoint: '/v1/chat/completions',
      status: 429,
      code: 'rpm_limit_exceeded',
    });
    usage.rejected({
      organizationId: 'org_a',
      keyId: 'key_a',
      model: null,
      endpoint: '/v1/chat/completions',
      status: 404,
      code: 'model_not_found',
    });
    t.same([...store.table('usage-rows').keys()], [], 'usage is not written immediately');
    await usage.flush();
    t.equal([...store.table('usage-rows').keys()].length, 3);
    const [[, row] = []] = [...store.table<FinishedUsage>('usage-rows').range()].map(
      ({ key, value }) => [key, value] as const,
    );
    t.same(row, finished());
    t.same(await usages.monthTokens(['org_a', 'org_b'], '2026-11'), [110 + 110 + 103, 0]);
    const { rows, next } = await usages.rows(query(), 10, null);
    t.same(rows, [
      {
        bucket_start: '2026-11-21T10:00:00.000Z',
        model: null,
        api_key_id: null,
        endpoint: null,
        member_id: null,
        requests: 3,
        errors: 2,
        rate_limited: 1,
        input_tokens: 300,
        cached_tokens: 180,
        output_tokens: 23,
        reasoning_tokens: 8,
        images: 2,
        answered: 3,
        first_token_ms: 60,
        duration_ms: 150,
        decode_ms: 90,
        cost: null,
      },
    ]);
    t.equal(next, null);
    await usage.close();
  },
);

t.test('usage is written automatically, and the timer does not keep the process alive', async (t) => {
  const { usages } = await storeFor(t);
  const usage = new UsageRecorder(usages, quiet);
  usage.finished(finished());
  t.ok(await eventually(async () => (await usages.monthTokens(['org_a'], '2026-11'))[0] === 110));
  await usage.close();
});

t.test('on a full disk, a limited number of usage records is kept for later and nothing throws', async (t) => {
  const { store, usages } = await storeFor(t);
  let full = true;
  const errors: string[] = [];
  const failing: Store = {
    table: (name) => store.table(name),
    close: () => store.close(),
    refresh: () => store.refresh(),
    transaction: (work) => (full ? Promise.reject(new Error('no space')) : store.transaction(work)),
  };
  const usage = new UsageRecorder(new LmdbUsageStore(failing), {
    ...quiet,
    error: (_fields, message) => errors.push(message),
  });
  for (let i = 0; i < 60_000; i++) usage.finished(finished());
  await usage.flush();
  t.same(
    errors,
    ['usage: entries arrive faster than they can be recorded; dropping some', 'usage: recording failed; will retry'],
    'each problem is logged once',
  );
  full = false;
  await usage.flush();
  t.match((await usages.rows(query(), 10, null)).rows, [{ requests: 50_000 }]);
  await usage.close();
});

t.test('the usage sweep applies the retention settings', async (t) => {
  const { usages } = await storeFor(t);
  const DAY = 24 * 3_600_000;
  for (const days of [0, 89, 91, 800])
    await usages.record([{ usage: finished({ endedAt: NOW - days * DAY }), at: NOW - days * DAY }]);
  const sweep = new UsageSweep(usages, { row_days: 90, aggregate_days: 730 }, (error) => {
    throw error;
  });
  t.equal(await sweep.run(NOW), 2 + 1 + 1 + 1);
  await sweep.close();
});

t.test('only refused generation requests count as rejections', (t) => {
  const generating = new Map([
    ['/v1/messages', '/v1/messages'],
    ['/playground', '/v1/chat/completions'],
  ]);
  const record = (more: object): Parameters<typeof rejectionOf>[0] => ({
    requestId: 'req_1',
    clientRequestId: null,
    method: 'POST',
    path: '/v1/messages',
    status: 429,
    failure: { status: 429, code: 'rpm_limit_exceeded' },
    outcome: 'refused',
    organizationId: 'org_a',
    keyId: 'key_a',
    durationMs: 1,
    aborted: false,
    fields: { model: 'hal-1.0' },
    ...more,
  });
  t.same(rejectionOf(record({}), generating), {
    organizationId: 'org_a',
    keyId: 'key_a',
    model: 'hal-1.0',
    endpoint: '/v1/messages',
    status: 429,
    code: 'rpm_limit_exceeded',
  });
  t.match(rejectionOf(record({ method: 'WEBSOCKET', fields: {} }), generating), { model: null });
  t.match(
    rejectionOf(record({ path: '/playground' }), generating),
    { endpoint: '/v1/chat/completions' },
    'the playground counts as the endpoint that it calls',
  );
  for (const other of [
    { status: 200, failure: null },
    { path: '/v1/models' },
    { organizationId: null },
    { method: 'GET' },
    { status: 0, failure: null },
    { fields: { admitted: true } },
  ]) {
    t.equal(rejectionOf(record(other), generating), null);
  }
  t.end();
});
