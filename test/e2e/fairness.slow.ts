// One organization floods the engine with hundreds of endless requests while another organization sends small requests,
// over HTTP with the keys of two organizations. The test compares the second organization's time to first token with
// its time to first token on an idle server in the same run. test/native/engine/schedule/scheduler_test.cc checks the
// exact number of steps; this test allows for noise on the machine. Part of npm run test:slow.
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import type { Monolith } from './monolith.js';
import { eventually } from './monolith.js';
import { dataFolder, keyOf } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const FLOOD = 200;
const PLACES = 8;
const ROUNDS = 15;
const NOISE_MS = 60; // tolerance for tests that run in parallel and for the flood's clients in this process

const data = dataFolder();
const server = await startScripted({
  context: 4_096,
  env: {
    MONOLITH_DATA_DIR: data.path,
    MONOLITH_ENGINE_MAX_SEQUENCES: String(PLACES),
    MONOLITH_LIMITS_CONCURRENCY: 'off',
    MONOLITH_LIMITS_TPM: 'off',
    MONOLITH_ENGINE_THREADS: '1',
    MONOLITH_ENGINE_QUEUE_WAIT_MS: '600000',
  },
});
t.teardown(async () => {
  await server.stop();
  data.remove();
});

const body = (text: string, most: number): string =>
  JSON.stringify({
    model: 'hal-1.0',
    stream: true,
    max_completion_tokens: most,
    messages: [{ role: 'user', content: text }],
  });

function ask({ url }: Monolith, key: string, text: string, most: number, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: body(text, most),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Returns the milliseconds to the first text. Reads the response to its end. */
async function timeToFirstToken(key: string, text: string): Promise<number> {
  const begun = performance.now();
  const response = await ask(server, key, text, 20);
  let first = 0;
  let said = '';
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    said += piece;
    if (first === 0 && /"content":"[^"]/.test(said)) first = performance.now() - begun;
  }
  if (response.status !== 200 || first === 0) throw new Error(`${response.status} ${said.slice(0, 300)}`);
  return first;
}

async function median(key: string): Promise<number> {
  const times: number[] = [];
  // Each prompt is different, so that only its start is in the prefix cache.
  for (let round = 0; round < ROUNDS; round++)
    times.push(await timeToFirstToken(key, `A: ${round} ${Math.random()} ${'x'.repeat(100)}`));
  return times.sort((a, b) => a - b)[ROUNDS >> 1] as number;
}

t.test('a flood from one organization does not delay the first token of another', async (t) => {
  const small = await keyOf(data.path, 'second');
  const idle = await median(small);

  const leaving = new AbortController();
  const reading: Promise<void>[] = [];
  for (let i = 0; i < FLOOD; i++) {
    reading.push(
      ask(server, server.key, `L: ${i}`, 3_000, leaving.signal)
        .then(async (response) => {
          for await (const piece of response.body!) if (leaving.signal.aborted) throw new Error(String(piece));
        })
        .catch(() => undefined),
    );
  }
  const gauge = async (name: string): Promise<number> => (await server.metrics()).get(`${name}{model="hal-1.0"}`) ?? 0;
  t.ok(
    await eventually(
      async () =>
        (await gauge('monolith_sequences_running')) === PLACES &&
        (await gauge('monolith_requests_waiting')) > FLOOD / 2,
    ),
    'the flood occupies every sequence slot, and most of it waits',
  );
  const flooded = await median(small);
  t.ok((await gauge('monolith_requests_waiting')) > FLOOD / 4, 'the flood lasted until the end of the measurement');
  t.comment(`time to first token: idle ${idle.toFixed(1)} ms, during the flood ${flooded.toFixed(1)} ms`);
  t.ok(flooded <= 2 * idle + NOISE_MS, `${flooded.toFixed(1)} ms during the flood, idle ${idle.toFixed(1)} ms`);
  leaving.abort();
  await Promise.all(reading);
});
