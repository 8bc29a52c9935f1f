// Tests that latency percentiles are within the documented error, are combined across hours and writers, and are
// removed with their hour.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Sketching, SKETCH_ERROR } from '../../src/usage/latency-sketch.js';
import { LmdbUsageStore } from '../../src/storage/lmdb/usage/usage-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { UsageLatency } from '../../src/shared/wire/usage.js';
import { eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { latencyTests } from './latency-reports.js';

t.setTimeout(300_000);

/** Returns the exact percentile by the nearest-rank method. */
const exact = (times: readonly number[], share: number): number =>
  [...times].sort((a, b) => a - b)[Math.ceil(share * times.length) - 1] as number;

t.test('percentiles are within the documented error for any distribution', (t) => {
  let seed = 7;
  const random = (): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return (seed + 1) / 2 ** 31;
  };
  const kinds: Record<string, () => number> = {
    even: () => 1 + 5_000 * random(),
    long: () => Math.min(3_599_999, 20 / random() ** 2),
    two: () => (random() < 0.85 ? 40 + 5 * random() : 30_000 + 900 * random()),
    edges: () => 1.1 ** Math.floor(150 * random()),
    same: () => 777,
  };
  for (const [kind, make] of Object.entries(kinds)) {
    for (const count of [1, 2, 99, 5_000]) {
      const times = Array.from({ length: count }, make);
      const one = new Sketching();
      const halves = [new Sketching(), new Sketching()] as const;
      times.forEach((ms, at) => {
        one.add(ms);
        halves[at % 2]?.add(ms);
      });
      const found = one.quantiles();
      t.same(
        new Sketching().merge(halves[0].stored()).merge(halves[1].stored()).quantiles(),
        found,
        'merged sketches equal the sketch of all values',
      );
      for (const [name, share] of [
        ['p50', 0.5],
        ['p90', 0.9],
        ['p99', 0.99],
      ] as const) {
        const off = Math.abs((found?.[name] ?? NaN) / exact(times, share) - 1);
        if (!(off <= SKETCH_ERROR)) t.fail(`${kind}, ${count}: ${name} has a relative error of ${off}`);
      }
      t.equal(one.count, count);
      t.ok(one.stored().length <= 2 * 160, `${kind}: the stored size is bounded`);
    }
  }
  t.equal(new Sketching().quantiles(), null);
  for (const odd of [0, 0.2, -3, NaN, Infinity, 1e12])
    t.ok(Number.isFinite(new Sketching().add(odd).quantiles()?.p50), String(odd));
  t.end();
});

latencyTests(async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-latencies-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return new LmdbUsageStore(store);
});

t.test('members of an organization can read its latencies, and others get 404', async (t) => {
  const { owner, organization, server, client, close } = await openOwned();
  t.teardown(close);
  const path = `/organizations/${organization.id}/usage/latency`;
  await owner
    .post(`/organizations/${organization.id}/playground`, {
      model: 'hal-1.0',
      messages: [{ role: 'user', content: 'A' }],
    })
    .catch(() => undefined);
  t.ok(await eventually(async () => (await owner.get<UsageLatency>(`${path}?group_by=model`)).data.length === 1));
  t.match(await owner.get(`${path}?group_by=model,api_key`), {
    relative_error: 0.049,
    data: [
      {
        model: 'hal-1.0',
        api_key_id: 'playground',
        answered: 1,
        first_token_ms: { p50: Number, p90: Number, p99: Number },
        duration_ms: { p99: Number },
      },
    ],
  });
  t.match(await refusal(owner.get(`${path}?group_by=endpoint`)), {
    status: 400,
    code: 'invalid_query_parameter',
    param: 'group_by',
  });
  const stranger = client();
  await stranger.signUp({ email: 'eve@example.com' });
  t.match(await refusal(stranger.get(path)), { status: 404 });
  t.ok(server.url);
});
