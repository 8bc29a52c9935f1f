// Tests that a generation is cancelled when its client disconnects, whether it is queued, in prefill or in decode, and
// whether it is streamed or not. The engine is slowed down (portable kernels, small steps) so that each stage lasts
// long enough.
import t from 'tap';
import { eventually, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startMonolith({
  args: [
    '--isa',
    'plain',
    '--threads',
    '1',
    '--engine-max-batch-tokens',
    '2',
    '--engine-max-sequences',
    '1',
    '--arithmetic',
    'exact',
  ],
});
t.teardown(() => server.stop());

const model = 'model="hal-1.0"';
const running = `monolith_sequences_running{${model}}`;
const waiting = `monolith_requests_waiting{${model}}`;
const decodeTokens = `monolith_step_tokens_total{${model},phase="decode"}`;
const stage = (name: string) => `monolith_engine_cancelled_total{${model},stage="${name}"}`;

/** Sends a request that runs for a long time; abort() closes its connection. */
function send(words: number, stream: boolean, maxTokens = 1_000) {
  const controller = new AbortController();
  const response = fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    signal: controller.signal,
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'hal-1.0',
      stream,
      max_tokens: maxTokens,
      ignore_eos: true,
      messages: [{ role: 'user', content: 'word '.repeat(words) + Math.random() }],
    }),
  });
  response.catch(() => undefined);
  return { response, abort: () => controller.abort() };
}

async function value(name: string): Promise<number> {
  return (await server.metrics()).get(name) ?? 0;
}

/** Returns whether no sequence is running or waiting and no page is referenced. */
async function isIdle(): Promise<boolean> {
  const metrics = await server.metrics();
  const pages = (state: string) => metrics.get(`monolith_kv_pages{${model},state="${state}"}`) ?? NaN;
  return metrics.get(running) === 0 && metrics.get(waiting) === 0 && pages('free') + pages('cached') === pages('total');
}

for (const stream of [true, false]) {
  const how = stream ? 'streamed' : 'not streamed';

  t.test(`${how}: disconnecting during decode cancels the request`, async (t) => {
    const before = await value(stage('decode'));
    const decoded = await value(decodeTokens);
    const request = send(4, stream);
    if (stream) await (await request.response).body!.getReader().read();
    else t.ok(await eventually(async () => (await value(decodeTokens)) > decoded + 3), 'tokens are being decoded');
    request.abort();
    t.ok(await eventually(isIdle), 'all pages are free again');
    t.equal(await value(stage('decode')), before + 1);
  });

  t.test(`${how}: disconnecting during prefill cancels the request`, async (t) => {
    const before = await value(stage('prefill'));
    const request = send(700, stream);
    t.ok(await eventually(async () => (await value(running)) === 1), 'the request runs');
    request.abort();
    t.ok(await eventually(isIdle), 'all pages are free again');
    t.equal(await value(stage('prefill')), before + 1);
  });

  t.test(`${how}: disconnecting while queued removes the request from the queue`, async (t) => {
    const before = await value(stage('queue'));
    const first = send(4, true);
    await (await first.response).body!.getReader().read();
    const second = send(4, stream);
    t.ok(await eventually(async () => (await value(waiting)) === 1), 'the second request waits');
    second.abort();
    t.ok(await eventually(async () => (await value(waiting)) === 0), 'the second request leaves the queue');
    t.equal(await value(stage('queue')), before + 1);
    t.equal(await value(running), 1, 'the first request keeps running');
    first.abort();
    t.ok(await eventually(isIdle));
  });
}

t.test('cancelled requests free their concurrency slots', async (t) => {
  const response = await send(1, false, 1).response;
  t.equal(response.status, 200);
  const limit = Number(response.headers.get('x-ratelimit-limit-concurrency'));
  t.equal(Number(response.headers.get('x-ratelimit-remaining-concurrency')), limit - 1);
});
