// Tests how limits appear to clients in all three API formats: the rate-limit headers of accepted and refused requests,
// the wait in every 429 and 503, and which of several errors is reported. Covers sections 5, 6 and 8 of the contract
// for errors and limits.
import t, { type Test } from 'tap';
import { startScripted } from '../support/script-model.js';
import { ask, get, post, type Answer } from '../support/wire.js';
import { eventually } from './monolith.js';
import { dataFolder, keyOf } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const data = dataFolder();
const server = await startScripted({
  env: {
    MONOLITH_DATA_DIR: data.path,
    MONOLITH_HTTP_MAX_BODY_BYTES: '65536',
    MONOLITH_ENGINE_MAX_SEQUENCES: '1',
    MONOLITH_ENGINE_QUEUE_WAIT_MS: '200',
    MONOLITH_LIMITS_OVERRIDES: JSON.stringify({
      '*': { 'hal-1.0': { concurrency: 1 }, 'clarke-1.0': { rpm: 3 }, 'tycho-1.0': { tpm: 600 } },
    }),
  },
});
t.teardown(async () => {
  await server.stop();
  data.remove();
});

interface Format {
  path: string;
  prefix: 'x' | 'anthropic';
  body(model: string, text: string, more?: object): object;
}

const formats: readonly Format[] = [
  {
    path: '/v1/chat/completions',
    prefix: 'x',
    body: (model, text, more) => ({
      model,
      messages: [{ role: 'user', content: text }],
      max_completion_tokens: 20,
      ...more,
    }),
  },
  {
    path: '/v1/responses',
    prefix: 'x',
    body: (model, text, more) => ({ model, input: text, max_output_tokens: 20, store: false, ...more }),
  },
  {
    path: '/v1/messages',
    prefix: 'anthropic',
    body: (model, text, more) => ({ model, messages: [{ role: 'user', content: text }], max_tokens: 20, ...more }),
  },
];

/** Checks all eight headers, in the format's names and units. Returns the remaining amount of each limit. */
function limitsOf(t: Test, { prefix }: Format, headers: Headers): Record<string, number> {
  const of = (what: string, field: string): string | null =>
    headers.get(prefix === 'x' ? `x-ratelimit-${field}-${what}` : `anthropic-ratelimit-${what}-${field}`);
  const limits: Record<string, number> = {};
  for (const what of ['requests', 'tokens', 'concurrency']) {
    t.match(of(what, 'limit'), /^\d+$/, `limit of ${what}`);
    t.match(of(what, 'remaining'), /^\d+$/, `remaining ${what}`);
    limits[what] = Number(of(what, 'remaining'));
    if (what === 'concurrency') continue;
    const reset = of(what, 'reset') ?? '';
    if (prefix === 'x') t.match(reset, /^(\d+ms|\d+s|\d+m\d+s)$/);
    else t.ok(/Z$/.test(reset) && Date.parse(reset) > Date.now() - 5_000, reset);
  }
  const other = prefix === 'x' ? 'anthropic-ratelimit-' : 'x-ratelimit-';
  t.notOk(
    [...headers.keys()].some((name) => name.startsWith(other)),
    'there are no headers of the other format',
  );
  return limits;
}

function refused(t: Test, { headers, status, body }: Answer, code: string): void {
  t.match(body, { error: { code } });
  const seconds = Number(headers.get('retry-after'));
  const ms = Number(headers.get('retry-after-ms'));
  t.ok(status === 429 || status === 503);
  t.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `${seconds} s`);
  t.equal(Math.ceil(ms / 1000), seconds);
  t.equal(headers.get('x-should-retry'), code === 'request_exceeds_tpm_limit' ? 'false' : null);
}

t.test('complete and streamed responses have rate-limit headers', async (t) => {
  for (const format of formats) {
    for (const stream of [false, true]) {
      const response = await post(server, format.path, format.body('hal-1.0', 'A: x', { stream }));
      t.equal(response.status, 200);
      const limits = limitsOf(t, format, response.headers);
      t.equal(limits['concurrency'], 0, 'this request occupies the only slot');
      await response.text();
    }
  }
});

t.test('requests over the request limit or the token limit get a 429', async (t) => {
  for (const format of formats)
    t.equal((await ask(server, format.path, format.body('clarke-1.0', 'A: x'))).status, 200);
  for (const format of formats) {
    const answer = await ask(server, format.path, format.body('clarke-1.0', 'A: x'));
    refused(t, answer, 'rpm_limit_exceeded');
    t.match(limitsOf(t, format, answer.headers), { requests: 0, concurrency: 99 });
  }
  t.equal((await ask(server, '/v1/responses', formats[1]!.body('tycho-1.0', `A: ${'x'.repeat(500)}`))).status, 200);
  for (const format of formats) {
    const answer = await ask(server, format.path, format.body('tycho-1.0', `A: ${'x'.repeat(500)}`));
    refused(t, answer, 'tpm_limit_exceeded');
    t.ok(Number(answer.headers.get('retry-after')) > 10, 'the wait is the time until the bucket has enough tokens');
    limitsOf(t, format, answer.headers);
    const hopeless = await ask(server, format.path, format.body('tycho-1.0', 'x'.repeat(700)));
    refused(t, hopeless, 'request_exceeds_tpm_limit');
    limitsOf(t, format, hopeless.headers);
  }
});

t.test('returns a 429 when the concurrency slot is taken and a 503 when the engine is busy', async (t) => {
  const leaving = new AbortController();
  const endless = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    body: JSON.stringify(formats[1]!.body('hal-1.0', 'L: x', { max_output_tokens: 15_000, stream: true })),
    signal: leaving.signal,
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
  });
  // The stream lasts for several seconds. Read it to its end, because the server drops clients that do not read.
  const reader = endless.body!.getReader();
  await reader.read();
  reader.releaseLock();
  const whole = endless.body!.pipeTo(new WritableStream()).then(
    () => true,
    () => false,
  );
  // This organization has small limits. If a refused request consumed anything, that amount would be missing from the
  // headers of the following responses.
  const other = await keyOf(data.path, 'second', { limits: { '*': { rpm: 6, tpm: 600 } } });
  for (const format of formats) {
    const full = await ask(server, format.path, format.body('hal-1.0', 'A: x'));
    refused(t, full, 'concurrency_limit_exceeded');
    t.equal(limitsOf(t, format, full.headers)['concurrency'], 0);
    // The other organization has a free concurrency slot, but the engine is busy.
    const busy = await ask(server, format.path, format.body('hal-1.0', 'A: x'), { authorization: `Bearer ${other}` });
    refused(t, busy, 'capacity_exhausted');
    t.match(
      limitsOf(t, format, busy.headers),
      { concurrency: 1, requests: 6, tokens: 600 },
      'the refused request did not count',
    );
  }
  leaving.abort();
  t.notOk(await whole, 'the stream was still running when it was aborted');
  t.ok(
    await eventually(
      async () => (await ask(server, '/v1/responses', formats[1]!.body('hal-1.0', 'A: x'))).status === 200,
    ),
    'the slot is free again',
  );
  t.equal(
    (await server.metrics()).get('monolith_engine_cancelled_total{model="hal-1.0",stage="decode"}'),
    1,
    'the stream was cancelled because its client disconnected',
  );
});

t.test('if there are several errors, the first one in the documented order is reported', async (t) => {
  const small = await keyOf(data.path, 'first', { models: ['hal-1.0'] });
  const reader = await keyOf(data.path, 'first', { scopes: ['models.read'] });
  const big = 'x'.repeat(70_000);
  while ((await ask(server, '/v1/responses', formats[1]!.body('clarke-1.0', 'A: x'))).status === 200);
  for (const { path, body } of formats) {
    // The model is at its request limit, so any other error must come from an earlier check.
    const order: [what: string, sent: object | string, headers: Record<string, string>, expected: string][] = [
      [
        'unknown path',
        body('clarke-1.0', big),
        { authorization: 'x', path: `${path}/nowhere/at/all` },
        '404 unknown_endpoint',
      ],
      ['no key', body('clarke-1.0', big), { authorization: '' }, '401 missing_api_key'],
      [
        'body too large',
        `${JSON.stringify(body('none', big))}}`,
        { authorization: `Bearer ${reader}` },
        '413 request_too_large',
      ],
      ['invalid JSON', '{"model": none', { authorization: `Bearer ${reader}` }, '400 invalid_json'],
      [
        'field type',
        body('none', 'x', { temperature: 'hot', top_p: 9 }),
        { authorization: `Bearer ${reader}` },
        '400 invalid_type',
      ],
      ['model', body('none', 'x', { temperature: 9 }), { authorization: `Bearer ${reader}` }, '404 model_not_found'],
      [
        'scope',
        body('clarke-1.0', 'x', { temperature: 9 }),
        { authorization: `Bearer ${reader}` },
        '403 endpoint_not_allowed',
      ],
      [
        "the key's models",
        body('clarke-1.0', 'x', { temperature: 9 }),
        { authorization: `Bearer ${small}` },
        '403 model_not_allowed',
      ],
      ['content', body('clarke-1.0', 'x'.repeat(20_000), { temperature: 9 }), {}, '422 value_out_of_range'],
      ['context', body('clarke-1.0', 'x'.repeat(20_000)), {}, '400 context_length_exceeded'],
      ['limits', body('clarke-1.0', 'x'), {}, '429 rpm_limit_exceeded'],
    ];
    for (const [what, sent, { path: elsewhere, ...headers }, expected] of order) {
      const { status, body: answer } = await ask(server, elsewhere ?? path, sent, headers);
      t.equal(`${status} ${(answer as { error: { code: string } }).error.code}`, expected, `${path}: ${what}`);
    }
  }
});

t.test('requests that generate nothing are limited per key if configured', async (t) => {
  const bounded = await startScripted({ env: { MONOLITH_LIMITS_READ_RPM: '6', MONOLITH_LOG_LEVEL: 'error' } });
  t.teardown(() => bounded.stop());
  const count = { model: 'hal-1.0', messages: [{ role: 'user', content: 'A: x' }] };
  t.equal((await get(bounded, '/v1/models')).status, 200);
  t.equal((await get(bounded, '/v1/models/hal-1.0')).status, 200);
  t.equal((await ask(bounded, '/v1/messages/count_tokens', count)).status, 200);
  t.equal((await ask(bounded, '/v1/responses/input_tokens', { model: 'hal-1.0', input: 'A: x' })).status, 200);
  t.equal((await get(bounded, '/v1/responses/resp_none')).status, 404);
  t.equal((await get(bounded, '/v1/responses/resp_none', {}, 'DELETE')).status, 404);
  for (const refusal of [
    await get(bounded, '/v1/models'),
    await ask(bounded, '/v1/messages/count_tokens', count),
    await ask(bounded, '/v1/responses/resp_none/cancel', {}),
  ]) {
    refused(t, refusal, 'rpm_limit_exceeded');
    t.ok(Number(refusal.headers.get('retry-after')) >= 8, 'this is the wait at six requests per minute');
  }
  t.equal(
    (await ask(bounded, '/v1/chat/completions', { ...count, max_completion_tokens: 20 })).status,
    200,
    'generation requests have separate limits',
  );
  t.equal((await fetch(`${bounded.url}/healthz`)).status, 200);
});

t.test("the engine's queue is also limited in prompt tokens", async (t) => {
  const small = await startScripted({
    args: ['--engine-max-sequences', '1'],
    env: {
      MONOLITH_ENGINE_QUEUE_MAX_TOKENS: '300',
      MONOLITH_LIMITS_OVERRIDES: JSON.stringify({ '*': { '*': { rpm: 60, tpm: 60_000 } } }),
      MONOLITH_LOG_LEVEL: 'error',
    },
  });
  t.teardown(() => small.stop());
  const leaving = new AbortController();
  const send = (format: Format, text: string, more: object = {}) =>
    fetch(`${small.url}${format.path}`, {
      method: 'POST',
      body: JSON.stringify(format.body('hal-1.0', text, more)),
      headers: { authorization: `Bearer ${small.key}`, 'content-type': 'application/json' },
      signal: leaving.signal,
    });
  await (await send(formats[0]!, 'L: x', { stream: true, max_completion_tokens: 9_000 })).body!.getReader().read();
  send(formats[0]!, `A: ${'x'.repeat(200)}`).catch(() => undefined);
  t.ok(
    await eventually(async () =>
      [...(await small.metrics())].some(([name, value]) => name.startsWith('monolith_requests_waiting') && value === 1),
    ),
  );
  const requests: number[] = [];
  for (const format of formats) {
    const busy = await ask(small, format.path, format.body('hal-1.0', `A: ${'x'.repeat(200)}`));
    refused(t, busy, 'capacity_exhausted');
    const limits = limitsOf(t, format, busy.headers);
    t.equal(limits['concurrency'], 97, 'the refused request holds no slot');
    requests.push(limits['requests']!);
  }
  t.ok(
    requests.every((remaining) => remaining >= 58),
    `${requests.join()} of 60 requests remain, so refused requests did not count`,
  );
  leaving.abort();
});
