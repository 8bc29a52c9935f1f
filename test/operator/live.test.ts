// Tests the operators' live view: the content of a sample, that all viewers share the same sample, and who receives it
// and for how long.
import t from 'tap';
import { readEvents } from '../../src/dashboard/web/src/live/event-reader.js';
import type { ServerEvent } from '../../src/dashboard/web/src/live/event-reader.js';
import type { LiveSample } from '../../src/shared/wire/live.js';
import { latencyBucket, LATENCY_BUCKETS, quantiles, SlidingCounts } from '../../src/telemetry/latency-counts.js';
import { LiveCounts } from '../../src/telemetry/live-counts.js';
import { finished } from '../../src/telemetry/outcome.js';
import { dashboardClient, type DashboardClient } from '../support/dashboard-client.js';
import { startScripted } from '../support/script-model.js';
import { ask } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

t.test('latency quantiles are accurate to a few percent and cover a sliding window', (t) => {
  const counts = new Uint32Array(LATENCY_BUCKETS);
  t.equal(quantiles(counts), null);
  for (let ms = 1; ms <= 1_000; ms++) counts[latencyBucket(ms)]!++;
  const found = quantiles(counts)!;
  t.equal(found.count, 1_000);
  for (const [value, wanted] of [
    [found.p50, 500],
    [found.p95, 950],
    [found.p99, 990],
  ] as const)
    t.ok(Math.abs(value / wanted - 1) < 0.06, `${value}`);
  for (const odd of [0, -1, NaN, 1e-9]) t.equal(latencyBucket(odd), 0);
  t.equal(latencyBucket(1e12), LATENCY_BUCKETS - 1);

  const sliding = new SlidingCounts(3);
  const one = (ms: number): Uint32Array => {
    const round = new Uint32Array(LATENCY_BUCKETS);
    round[latencyBucket(ms)] = 1;
    return round;
  };
  sliding.add(one(10));
  sliding.add(null);
  sliding.add(one(20));
  t.equal(quantiles(sliding.sum)?.count, 2);
  sliding.add(one(30));
  t.equal(quantiles(sliding.sum)?.count, 2, 'the first entry has left the window');
  for (let i = 0; i < 3; i++) sliding.add(null);
  t.equal(quantiles(sliding.sum), null);
  t.end();
});

t.test('take() returns the counts of an HTTP worker once', (t) => {
  const live = new LiveCounts();
  t.teardown(() => live.close());
  const record = {
    requestId: '',
    clientRequestId: null,
    method: 'POST',
    organizationId: null,
    keyId: null,
    durationMs: 1,
    aborted: false,
    fields: {},
  };
  for (const [path, status] of [
    ['/v1/responses', 200],
    ['/v1/messages', 429],
    ['/v1/messages', 503],
    ['/v1/messages', 500],
    ['/dashboard/api/me', 500],
    ['/healthz', 200],
  ] as const) {
    live.request(finished({ ...record, path, status, failure: status === 200 ? null : { status, code: 'x' } }));
  }
  const counter = live.latencies('m');
  counter.ttft(5);
  counter.itl(2, 7);
  const taken = live.take();
  t.match(taken, { requests: 4, rejected429: 1, rejected503: 1, errors: 1, latencies: [{ model: 'm' }] });
  t.equal(quantiles(taken.latencies[0]!.itl!)?.count, 7);
  t.match(live.take(), { requests: 0, errors: 0, latencies: [] });
  counter.ttft(1);
  t.equal(live.take().latencies[0]?.itl, null, 'the counter still works after take()');
  t.end();
});

async function watch(client: DashboardClient, signal?: AbortSignal): Promise<AsyncIterator<ServerEvent>> {
  const response = await client.fetch('/operator/live', signal === undefined ? {} : { signal });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return readEvents(response.body!, { idleMs: 10_000 })[Symbol.asyncIterator]();
}

async function next(events: AsyncIterator<ServerEvent>, event: string): Promise<string> {
  for (;;) {
    const { value, done } = (await events.next()) as IteratorResult<ServerEvent, undefined>;
    if (done === true) throw new Error('the stream ended');
    if (value.event === event) return value.data;
  }
}

for (const threads of [1, 2]) {
  t.test(`the live stream sends shared samples with ${threads} HTTP worker${threads > 1 ? 's' : ''}`, async (t) => {
    const server = await startScripted({
      env: { MONOLITH_HTTP_THREADS: String(threads), MONOLITH_ENGINE_DRAIN_MS: '600000' },
    });
    t.teardown(async () => {
      await server.stop();
    });
    const client = dashboardClient(server.url);
    await client.signUp({ email: 'operator@example.com' });
    const leaving = new AbortController();
    const events = await watch(client, leaving.signal);
    const history = JSON.parse(await next(events, 'history')) as LiveSample[];
    t.ok(Array.isArray(history));

    // A second session of the same user, which is logged out while it is watching.
    const leaver = dashboardClient(server.url);
    await leaver.login('operator@example.com');
    const cut = next(await watch(leaver), 'nothing').catch((error: unknown) => (error as Error).message);
    await leaver.logout();

    for (let i = 0; i < 4; i++)
      t.equal(
        (
          await ask(server, '/v1/chat/completions', {
            model: 'clarke-1.0',
            messages: [{ role: 'user', content: `A: the same long beginning of a prompt ${i}` }],
          })
        ).status,
        200,
      );
    await ask(server, '/v1/chat/completions', { model: 'clarke-1.0' });
    const samples: LiveSample[] = [];
    const enough = (): boolean =>
      samples.reduce((sum, { requests }) => sum + requests, 0) >= 5 &&
      samples.at(-1)?.engines[0]?.ttft_ms?.count === 4 &&
      samples.at(-1)?.engines[0]?.step_ms === null;
    while (samples.length < 3 || (!enough() && samples.length < 12))
      samples.push(JSON.parse(await next(events, 'sample')) as LiveSample);
    const busy = samples.find(({ engines }) => (engines[0]?.steps_per_s ?? 0) > 0)!;
    const last = samples.at(-1)!;
    t.equal(
      samples.reduce((sum, { requests }) => sum + requests, 0),
      5,
    );
    t.match(last, { rejected_429: 0, errors: 0, http_threads: threads, in_flight: 0 });
    t.ok(last.viewers >= 1);
    t.ok(last.rss_bytes > 1e7);
    t.equal(last.engines.length, 1);
    t.match(last.engines[0], {
      model: 'hal-1.0',
      names: ['hal-1.0', 'clarke-1.0', 'tycho-1.0'],
      running: 0,
      waiting: 0,
      step_ms: null,
      prefix_hit_rate: null,
      ttft_ms: { count: 4 },
    });
    t.ok(last.engines[0]!.ttft_ms!.p50 > 0 && last.engines[0]!.itl_ms!.count > 4);
    t.equal(last.engines[0]!.tpot_ms!.count, last.engines[0]!.itl_ms!.count, 'every token counts toward its time');
    const { step_ms, batch_rows, prefill_tokens_per_s, decode_tokens_per_s } = busy.engines[0]!;
    t.ok(
      step_ms! > 0 && batch_rows >= 1 && prefill_tokens_per_s > 0 && decode_tokens_per_s > 0,
      JSON.stringify(busy.engines[0]),
    );
    const rates = samples.map(({ engines }) => engines[0]?.prefix_hit_rate ?? 0);
    t.ok(
      rates.some((rate) => rate > 0) && rates.every((rate) => rate < 1),
      `the shared prefix was computed once: ${rates.join(' ')}`,
    );
    const gaps = samples.slice(1).map(({ at }, i) => Date.parse(at) - Date.parse(samples[i]!.at));
    const mean = gaps.reduce((sum, ms) => sum + ms, 0) / gaps.length; // after a late sample, the next gap is shorter
    t.ok(mean > 700, `one per second: ${gaps.join(' ')}`);

    // A second viewer gets the history, then the same samples as the first.
    const other = await watch(client);
    const seen = JSON.parse(await next(other, 'history')) as LiveSample[];
    t.ok(seen.length >= samples.length);
    t.ok(
      samples.slice(-3).every(({ at }) => seen.some((one) => one.at === at)),
      'another sample may have been added in the meantime',
    );
    const theirs = await next(other, 'sample');
    let mine = await next(events, 'sample');
    while ((JSON.parse(mine) as LiveSample).at < (JSON.parse(theirs) as LiveSample).at)
      mine = await next(events, 'sample');
    if (threads === 1) t.equal(mine, theirs, 'both viewers get the identical text');
    t.equal((await client.fetch('/operator/live', { method: 'HEAD' })).status, 200);
    leaving.abort();
    let viewers = 3;
    for (let i = 0; i < 10 && viewers !== 1; i++) ({ viewers } = JSON.parse(await next(other, 'sample')) as LiveSample);
    t.equal(viewers, 1, 'disconnected viewers and HEAD requests are not counted as viewers');

    t.equal(await cut, 'the stream ended', 'the stream of a logged-out session ends');
    const stranger = dashboardClient(server.url);
    t.equal((await stranger.fetch('/operator/live')).status, 401);
    await stranger.signUp();
    t.equal((await stranger.fetch('/operator/live')).status, 403);

    // A server that is stopping does not wait for live viewers; otherwise, it would wait for the ten-minute drain
    // timeout.
    const ended = server.stop(); // only once, because a second signal would force an immediate exit
    await t.rejects(next(other, 'nothing'));
    t.equal(await ended, 0);
  });
}

t.test('no error is logged when the first sample is due before the server has started', async (t) => {
  // The sampler's first sample is taken in the next event-loop turn instead of a second later. Startup waits for the
  // disk more than once, so at that time the server does not exist yet.
  const hasty =
    'const real = setInterval; globalThis.setInterval = (work, ms, ...more) => { if (ms === 1000) setImmediate(work, ...more); return real(work, ms, ...more); };';
  const server = await startScripted({
    env: { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(hasty)}` },
  });
  await server.stop();
  t.notMatch(server.log(), /"level":"error"/);
});
