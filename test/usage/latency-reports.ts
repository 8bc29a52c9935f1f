// Latency tests that every UsageStore must pass: percentiles are within the documented error, are combined across hours
// and writers, and are removed with their hour.
import t, { type Test } from 'tap';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';
import { SKETCH_ERROR } from '../../src/usage/latency-sketch.js';
import { HOUR_MS } from '../../src/usage/sums.js';
import type { UsageQuery, UsageStore } from '../../src/usage/usage-store.js';

const used = (more: Partial<FinishedUsage>): FinishedUsage => ({
  requestId: 'req_1',
  organizationId: 'org_1',
  keyId: 'key_a',
  model: 'hal-1.0',
  endpoint: '/v1/responses',
  stream: true,
  status: 'completed',
  receivedAt: 0,
  startedAt: 0,
  firstTokenAt: 100,
  endedAt: 1_000,
  inputTokens: 1,
  cachedTokens: 0,
  outputTokens: 1,
  reasoningTokens: 0,
  images: 0,
  finishReason: 'stop',
  errorCode: null,
  ...more,
});

/** `open` returns a new, empty store that is removed when the test ends. */
export function latencyTests(open: (t: Test) => Promise<UsageStore>): void {
  t.test('latencies are stored by hour, model and key', async (t) => {
    const usage = await open(t);
    const at = (hour: number): number => (1_000 + hour) * HOUR_MS;
    await Promise.all(
      Array.from({ length: 10 }, (_, turn) =>
        usage.record(
          Array.from({ length: 60 }, (_, hour) => ({
            usage: used({ keyId: turn < 9 ? 'key_a' : 'key_b', firstTokenAt: turn < 9 ? 100 : 5_000, endedAt: 9_000 }),
            at: at(hour),
          })),
        ),
      ),
    );
    await usage.record([
      { usage: used({ firstTokenAt: null }), at: at(0) },
      { usage: used({ organizationId: 'org_2', firstTokenAt: 1 }), at: at(0) },
    ]);
    const query: UsageQuery = {
      organizationId: 'org_1',
      bucket: 'hour',
      fromHour: 1_000,
      toHour: 1_060,
      groupBy: ['model'],
      models: null,
      apiKeys: null,
      prices: null,
    };
    const near = (found: number | undefined, wanted: number): void => {
      t.ok(Math.abs((found ?? NaN) / wanted - 1) <= SKETCH_ERROR, `${found} for ${wanted}`);
    };
    const [all, ...others] = await usage.latencies(query);
    t.match(
      all,
      { model: 'hal-1.0', apiKeyId: null, answered: 600 },
      'requests from all writers are included if they generated a token',
    );
    t.same(others, []);
    near(all?.firstTokenMs?.p50, 100);
    near(all?.firstTokenMs?.p99, 5_000);
    near(all?.durationMs?.p50, 9_000);
    t.match(
      (await usage.latencies({ ...query, groupBy: ['api_key'] })).map(({ apiKeyId, answered }) => [apiKeyId, answered]),
      [
        ['key_a', 540],
        ['key_b', 60],
      ],
    );
    t.match(await usage.latencies({ ...query, fromHour: 1_050, apiKeys: ['key_b'] }), [{ answered: 10 }]);
    t.same(await usage.latencies({ ...query, models: ['none'] }), []);
    await usage.erase({ rows: 0, sums: at(30) }, new AbortController().signal);
    t.match(await usage.latencies(query), [{ answered: 300 }], 'latencies of erased hours are gone');
    const many = Array.from({ length: 1_203 }, (_, key) => ({
      usage: used({ organizationId: 'org_3', keyId: `key_${key}` }),
      at: at(0),
    }));
    await usage.record(many);
    t.match(
      await usage.latencies({ ...query, organizationId: 'org_3' }),
      [{ answered: 1_203 }],
      'more rows than one read returns are included',
    );
  });
}
