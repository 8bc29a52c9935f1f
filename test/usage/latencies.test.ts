// Percentiles of times: within the error that is said of them, adding up over hours and writers, gone with their hour.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Sketching, SKETCH_ERROR } from '../../src/usage/latency-sketch.js';
import { LmdbUsageStore } from '../../src/usage/lmdb-usage-store.js';
import { HOUR_MS } from '../../src/usage/sums.js';
import type { UsageQuery } from '../../src/usage/usage-store.js';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';
import { openStore } from '../../src/storage/lmdb-store.js';
import type { UsageLatency } from '../../src/wire/dashboard.js';
import { eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000);

/** By the nearest rank, of the times themselves. */
const exact = (times: readonly number[], share: number): number => [...times].sort((a, b) => a - b)[Math.ceil(share * times.length) - 1] as number;

t.test('within the error, whatever the times are like', (t) => {
  let seed = 7;
  const random = (): number => { seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31; return (seed + 1) / 2 ** 31; };
  const kinds: Record<string, () => number> = {
    even: () => 1 + 5_000 * random(), long: () => Math.min(3_599_999, 20 / random() ** 2), two: () => (random() < 0.85 ? 40 + 5 * random() : 30_000 + 900 * random()),
    edges: () => 1.1 ** Math.floor(150 * random()), same: () => 777,
  };
  for (const [kind, make] of Object.entries(kinds)) {
    for (const count of [1, 2, 99, 5_000]) {
      const times = Array.from({ length: count }, make);
      const one = new Sketching();
      const halves = [new Sketching(), new Sketching()] as const;
      times.forEach((ms, at) => { one.add(ms); halves[at % 2]?.add(ms); });
      const found = one.quantiles();
      t.same(new Sketching().merge(halves[0].stored()).merge(halves[1].stored()).quantiles(), found, 'parts add up exactly');
      for (const [name, share] of [['p50', 0.5], ['p90', 0.9], ['p99', 0.99]] as const) {
        const off = Math.abs((found?.[name] ?? NaN) / exact(times, share) - 1);
        if (!(off <= SKETCH_ERROR)) t.fail(`${kind}, ${count}: ${name} is off by ${off}`);
      }
      t.equal(one.count, count);
      t.ok(one.stored().length <= 2 * 160, `${kind}: bounded`);
    }
  }
  t.equal(new Sketching().quantiles(), null);
  for (const odd of [0, 0.2, -3, NaN, Infinity, 1e12]) t.ok(Number.isFinite(new Sketching().add(odd).quantiles()?.p50), String(odd));
  t.end();
});

const used = (more: Partial<FinishedUsage>): FinishedUsage => ({
  requestId: 'req_1', organizationId: 'org_1', keyId: 'key_a', model: 'hal-1.0', endpoint: '/v1/responses', stream: true, status: 'completed', receivedAt: 0, startedAt: 0, firstTokenAt: 100,
  endedAt: 1_000, inputTokens: 1, cachedTokens: 0, outputTokens: 1, reasoningTokens: 0, images: 0, finishReason: 'stop', errorCode: null, ...more,
});

t.test('kept by hour, model and key', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-latencies-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const usage = new LmdbUsageStore(store);
  const at = (hour: number): number => (1_000 + hour) * HOUR_MS;
  await Promise.all(Array.from({ length: 10 }, (_, turn) => usage.record(Array.from({ length: 60 }, (_, hour) => ({ usage: used({ keyId: turn < 9 ? 'key_a' : 'key_b', firstTokenAt: turn < 9 ? 100 : 5_000, endedAt: 9_000 }), at: at(hour) })))));
  await usage.record([{ usage: used({ firstTokenAt: null }), at: at(0) }, { usage: used({ organizationId: 'org_2', firstTokenAt: 1 }), at: at(0) }]);
  const query: UsageQuery = { organizationId: 'org_1', bucket: 'hour', fromHour: 1_000, toHour: 1_060, groupBy: ['model'], models: null, apiKeys: null, prices: null };
  const near = (found: number | undefined, wanted: number): void => { t.ok(Math.abs((found ?? NaN) / wanted - 1) <= SKETCH_ERROR, `${found} for ${wanted}`); };
  const [all, ...others] = await usage.latencies(query);
  t.match(all, { model: 'hal-1.0', apiKeyId: null, answered: 600 }, 'every writer\'s, of those that said anything');
  t.same(others, []);
  near(all?.firstTokenMs?.p50, 100);
  near(all?.firstTokenMs?.p99, 5_000);
  near(all?.durationMs?.p50, 9_000);
  t.match((await usage.latencies({ ...query, groupBy: ['api_key'] })).map(({ apiKeyId, answered }) => [apiKeyId, answered]), [['key_a', 540], ['key_b', 60]]);
  t.match(await usage.latencies({ ...query, fromHour: 1_050, apiKeys: ['key_b'] }), [{ answered: 10 }]);
  t.same(await usage.latencies({ ...query, models: ['none'] }), []);
  await usage.erase({ rows: 0, sums: at(30) }, new AbortController().signal);
  t.match(await usage.latencies(query), [{ answered: 300 }], 'gone with their hours');
  const many = Array.from({ length: 1_203 }, (_, key) => ({ usage: used({ organizationId: 'org_3', keyId: `key_${key}` }), at: at(0) }));
  await usage.record(many);
  t.match(await usage.latencies({ ...query, organizationId: 'org_3' }), [{ answered: 1_203 }], 'more than are read at once');
});

t.test('asked for by members', async (t) => {
  const { owner, organization, server, client, close } = await openOwned();
  t.teardown(close);
  const path = `/organizations/${organization.id}/usage/latency`;
  await owner.post(`/organizations/${organization.id}/playground`, { model: 'hal-1.0', messages: [{ role: 'user', content: 'A' }] }).catch(() => undefined);
  t.ok(await eventually(async () => (await owner.get<UsageLatency>(`${path}?group_by=model`)).data.length === 1));
  t.match(await owner.get(`${path}?group_by=model,api_key`), { relative_error: 0.049, data: [{ model: 'hal-1.0', api_key_id: 'playground', answered: 1, first_token_ms: { p50: Number, p90: Number, p99: Number }, duration_ms: { p99: Number } }] });
  t.match(await refusal(owner.get(`${path}?group_by=endpoint`)), { status: 400, code: 'invalid_query_parameter', param: 'group_by' });
  const stranger = client();
  await stranger.signUp({ email: 'eve@example.com' });
  t.match(await refusal(stranger.get(path)), { status: 404 });
  t.ok(server.url);
});
