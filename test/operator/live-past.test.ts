// Tests the live view's history: aggregated samples, ring buffers with lower resolution for older samples, persistence
// across restarts, load per API key, and change markers.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { mergedKeys } from '../../src/dashboard/admin/key-counts.js';
import { ringFor, RINGS } from '../../src/dashboard/admin/live-history.js';
import { LiveRecorder } from '../../src/dashboard/admin/live-recorder.js';
import { addSum, sampleOf, sumOf } from '../../src/dashboard/admin/live-sums.js';
import { LmdbLiveHistory } from '../../src/storage/lmdb/dashboard/live-history.js';
import type { KeyCounts } from '../../src/shared/live-collected.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { LiveHistory, LiveKeys, LiveSample } from '../../src/shared/wire/live.js';
import { eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // the machine may be busy

const AT = Date.parse('2026-11-21T10:30:00Z');

const sample = (seconds: number, more: Partial<LiveSample> = {}, decode = 10): LiveSample => ({
  at: new Date(AT + seconds * 1000).toISOString(),
  requests: 2,
  rejected_429: 0,
  rejected_503: 0,
  errors: 0,
  cancelled: 0,
  in_flight: 1,
  rss_bytes: 100,
  loop_lag_ms: 1,
  http_threads: 1,
  viewers: 0,
  engines: [
    {
      model: 'hal-1.0',
      names: ['hal-1.0'],
      running: 1,
      waiting: 0,
      batch_rows: 4,
      pages_total: 10,
      pages_free: 8,
      pages_cached: 1,
      prefix_hit_rate: null,
      step_ms: 5,
      steps_per_s: 3,
      prefill_tokens_per_s: 7,
      decode_tokens_per_s: decode,
      ttft_ms: { p50: 10, p95: 20, p99: 30, count: 1 },
      itl_ms: null,
      tpot_ms: null,
      preemptions: 0,
    },
  ],
  ...more,
});
const key = (keyId: string, requests = 1, organizationId = 'org_a'): KeyCounts => ({
  organizationId,
  keyId,
  requests,
  refused: 0,
  inputTokens: 10 * requests,
  outputTokens: requests,
});

t.test('summing one sample changes nothing; several give means, maxima and count-weighted percentiles', (t) => {
  t.same(sampleOf(sumOf(sample(0)), sample(0).at), sample(0));
  const busy = sample(1, { requests: 4, rss_bytes: 300 }, 30);
  busy.engines[0]!.ttft_ms = { p50: 40, p95: 50, p99: 60, count: 2 };
  busy.engines[0]!.prefix_hit_rate = 0.5;
  const other = sample(2, { engines: [{ ...sample(0).engines[0]!, model: 'clarke-1.0', running: 6 }] });
  const mean = sampleOf([sumOf(busy), sumOf(other)].reduce(addSum, sumOf(sample(0))), sample(0).at);
  t.match(mean, { requests: Number((8 / 3).toFixed(3)), rss_bytes: 300, in_flight: 1 });
  t.match(mean.engines, [
    {
      model: 'hal-1.0',
      decode_tokens_per_s: 20,
      prefix_hit_rate: 0.5,
      ttft_ms: { p50: 30, p95: 40, p99: 50, count: 3 },
      itl_ms: null,
    },
    { model: 'clarke-1.0', running: 6, decode_tokens_per_s: 10 },
  ]);
  const older = sumOf(sample(0));
  older.engines[0]!.latencies.pop();
  const newer = sample(1);
  newer.engines[0]!.tpot_ms = { p50: 7, p95: 8, p99: 9, count: 2 };
  t.match(
    sampleOf(addSum(older, sumOf(newer)), newer.at).engines[0],
    { tpot_ms: { p50: 7, p95: 8, p99: 9, count: 2 }, ttft_ms: { count: 2 } },
    'a sum written before the time per output token was recorded can be added to',
  );
  t.end();
});

t.test('entries of the same key are merged, and the smallest beyond the limit are combined without a name', (t) => {
  const merged = mergedKeys([...Array.from({ length: 300 }, (_, at) => key(`key_${at}`, at + 1)), key('key_0', 1_000)]);
  t.equal(merged.length, 200);
  t.match(merged[0], { keyId: 'key_0', requests: 1_001 });
  t.equal(
    merged.reduce((sum, { requests }) => sum + requests, 0),
    1_000 + (300 * 301) / 2,
    'the totals are preserved',
  );
  t.ok(merged.some(({ keyId, organizationId }) => keyId === '' && organizationId === ''));
  t.end();
});

t.test(
  'a query uses the finest ring that reaches back far enough, old rows are deleted, and close() writes pending data',
  async (t) => {
    const path = mkdtempSync(join(tmpdir(), 'monolith-live-'));
    const store = await openStore(path);
    t.teardown(async () => {
      await store.close();
      rmSync(path, { recursive: true, force: true });
    });
    const history = new LmdbLiveHistory(store);
    const recorder = new LiveRecorder(history, (error) => {
      throw error;
    });
    for (let seconds = 0; seconds < 125; seconds++) recorder.add(sample(seconds), [key('key_a')]);
    await recorder.close();
    const from = AT / 1000;
    const [fine, minutes] = RINGS as [(typeof RINGS)[number], (typeof RINGS)[number]];
    const counts = async (ring: (typeof RINGS)[number]): Promise<number[]> =>
      (await history.sums(ring, { from, to: from + 1_000 })).map(({ sum }) => sum.samples);
    t.same(await counts(fine), [...new Array<number>(12).fill(10), 5]);
    t.same(await counts(minutes), [60, 60, 5]);
    t.same(
      (await history.keys(minutes, { from: from + 60, to: from + 120 })).map(({ at, keys }) => [at, keys]),
      [[from + 60, [key('key_a', 60)]]],
    );
    for (let n = 0; n < 3; n++) await history.add(from + fine.keptS + 200 + n * 10, sumOf(sample(0)), []);
    t.same(await counts(fine), [], 'the finest ring keeps two hours');
    t.same(await counts(minutes), [60, 60, 5]);

    const now = AT / 1000;
    const ring = (seconds: number, back = seconds): number =>
      ringFor({ from: now - back, to: now - back + seconds }, now).stepS;
    t.same(
      [300, 3_600, 21_600, 86_400, 604_800, 2_592_000].map((seconds) => ring(seconds)),
      [10, 10, 60, 300, 1_800, 7_200],
      'the resolution for each time range of the page',
    );
    t.equal(ring(600, 40_000), 60, 'a short range in the past uses the finest ring that still has it');
    t.end();
  },
);

t.test('samples, load per key and change markers survive a restart', async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  let owner = dashboard.client();
  const { organization } = await owner.signUp({ organization_name: 'Harbour' });
  const { key: made, secret } = await dashboard.server.accounts.createKey({ name: 'nightly' }, organization.id);
  const before = new Date(Date.now() - 60_000).toISOString();
  for (let at = 0; at < 3; at++) {
    const answer = await fetch(`${dashboard.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'hal-1.0', max_tokens: 8, messages: [{ role: 'user', content: 'Hi' }] }),
    });
    t.equal(answer.status, 200);
    await answer.text();
  }
  await owner.patch('/operator/tunables/hal-1.0', { max_sequences: 5 });
  await new Promise((done) => setTimeout(done, 2_200));
  await dashboard.restart();
  const { cookie } = owner;
  owner = Object.assign(dashboard.client(), { cookie }); // after the restart, the server has a different port
  const past = await owner.get<LiveHistory>(`/operator/live/history?from=${before}`);
  t.equal(past.step_s, 10);
  t.ok(past.samples.length >= 1 && past.samples.every(({ at }) => Date.parse(at) % 10_000 === 0));
  t.ok(
    past.samples.some(({ requests }) => requests > 0) &&
      past.samples.some(({ engines }) => engines.some(({ model }) => model === 'hal-1.0')),
  );
  t.match(past.marks, [{ action: 'engine.tunables_changed', target: 'hal-1.0', by: /@example\.com$/ }]);

  const sums = (series: LiveKeys['series'][number]): number[] =>
    [series.requests, series.input_tokens, series.output_tokens].map((values) => values.reduce((a, b) => a + b, 0));
  const all = await owner.get<LiveKeys>(`/operator/live/keys?from=${before}`);
  t.match(all.series, [{ id: organization.id, name: 'Harbour' }]);
  t.match(sums(all.series[0]!), [3, Number, Number]);
  t.ok(sums(all.series[0]!)[2]! > 0, 'generated tokens are counted');
  const ofOne = await owner.get<LiveKeys>(`/operator/live/keys?from=${before}&organization=${organization.id}`);
  t.match(ofOne.series, [{ id: made.id, name: 'nightly' }]);
  t.same(sums(ofOne.series[0]!), sums(all.series[0]!));
  t.same(
    (await owner.get<LiveKeys>(`/operator/live/keys?from=${before}&organization=org_${'x'.repeat(24)}`)).series,
    [],
  );
  t.ok(await eventually(async () => (await owner.get<LiveHistory>('/operator/live/history')).samples.length > 0));

  t.match(await refusal(owner.get('/operator/live/history?from=soon')), { status: 400, param: 'from' });
  t.match(await refusal(owner.get(`/operator/live/history?from=2020-01-01T00:00:00Z`)), {
    code: 'value_out_of_range',
    param: 'from',
  });
  const guest = dashboard.client();
  await guest.signUp();
  for (const path of ['history', 'keys']) t.match(await refusal(guest.get(`/operator/live/${path}`)), { status: 403 });
});
