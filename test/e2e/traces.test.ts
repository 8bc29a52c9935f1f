// Tests a real server's OpenTelemetry traces as a collector receives them over OTLP/HTTP: every API format, trace
// context propagation, sampling, recorded attributes, and an unresponsive collector, which must not delay requests.
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import sharp from 'sharp';
import t from 'tap';
import { openTracing } from '../../src/telemetry/traces/tracing.js';
import { startOtlpReceiver, type OtlpReceiver, type SeenSpan } from '../support/otlp-receiver.js';
import { startScripted } from '../support/script-model.js';
import { Connection } from '../support/web-socket.js';
import { eventually, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const ERROR = 2,
  SERVER = 2,
  INTERNAL = 1;
const MARK = 'zebra-crossing';
const hex = (bytes: number): string => randomBytes(bytes).toString('hex');

/** Sends a request with a new trace id, and returns the id with the response. */
async function ask(
  server: Monolith,
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string; traceId: string }> {
  const traceId = hex(16);
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    body: JSON.stringify({ model: 'hal-1.0', ...body }),
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${server.key}`,
      traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
      ...headers,
    },
  });
  return { status: response.status, text: await response.text(), traceId };
}

/**
 * `loads`: whether to include `load model` spans. On a busy machine, a request for a loaded model may have such a span
 * too.
 */
async function spansOf(
  receiver: OtlpReceiver,
  traceId: string,
  count: number,
  loads = false,
): Promise<Map<string, SeenSpan>> {
  const of = (): SeenSpan[] =>
    receiver.spans.filter((span) => span.traceId === traceId && (loads || span.name !== 'load model'));
  if (!(await eventually(() => of().length >= count)))
    throw new Error(
      `${of().length} spans instead of ${count}: ${of()
        .map(({ name }) => name)
        .join()}`,
    );
  return new Map(of().map((span) => [span.name, span]));
}

const receiver = await startOtlpReceiver();
t.teardown(() => receiver.close());
const server = await startScripted({
  env: {
    MONOLITH_TELEMETRY_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
    MONOLITH_TELEMETRY_TRACES_HEADERS: 'x-collector-key=c0llector',
    OTEL_SERVICE_NAME: 'hal of ours',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  },
});
t.teardown(() => server.stop());

const user = { role: 'user', content: `A: ${MARK}` };
const formats: { what: string; path: string; body: object; operation?: string; id: RegExp }[] = [
  {
    what: 'chat',
    path: '/v1/chat/completions',
    body: { messages: [user], temperature: 0.5, seed: 7, max_tokens: 50 },
    id: /^chatcmpl-/,
  },
  { what: 'streamed chat', path: '/v1/chat/completions', body: { messages: [user], stream: true }, id: /^chatcmpl-/ },
  {
    what: 'completions',
    path: '/v1/completions',
    body: { prompt: MARK, max_tokens: 5, ignore_eos: true },
    operation: 'text_completion',
    id: /^cmpl-/,
  },
  { what: 'messages', path: '/v1/messages', body: { messages: [user], max_tokens: 50, stream: true }, id: /^msg_/ },
  { what: 'responses', path: '/v1/responses', body: { input: `A: ${MARK}` }, id: /^resp_/ },
];

for (const { what, path, body, operation = 'chat', id } of formats) {
  t.test(`a ${what} request is traced with its attributes and phases`, async (t) => {
    const asked = Date.now();
    const { status, text, traceId } = await ask(server, path, body, { tracestate: 'vendor=opaque' });
    const answered = Date.now();
    t.equal(status, 200, text);
    const spans = await spansOf(receiver, traceId, 5);
    t.same([...spans.keys()].sort(), [`${operation} hal-1.0`, 'decode', 'prefill', 'prepare', 'queue'].sort());
    const root = spans.get(`${operation} hal-1.0`)!;
    t.match(root, { kind: SERVER, parentId: '00f067aa0ba902b7', traceState: 'vendor=opaque', status: { code: 0 } });
    t.match(root.facts, {
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': 'monolith',
      'gen_ai.request.model': 'hal-1.0',
      'gen_ai.response.model': 'hal-1.0',
      'gen_ai.response.id': id,
      'gen_ai.response.finish_reasons': [operation === 'chat' ? 'stop' : 'length'],
      'gen_ai.output.type': 'text',
      'server.address': '127.0.0.1',
      'server.port': server.port,
      'http.request.method': 'POST',
      'http.route': path,
      'http.response.status_code': 200,
      'monolith.outcome': 'completed',
      'monolith.request.id': /^req_/,
    });
    t.ok(
      text.includes(String(root.facts['gen_ai.response.id'])),
      'the trace contains the response id that was sent to the client',
    );
    t.ok(Number(root.facts['gen_ai.usage.input_tokens']) > 5);
    t.ok(Number(root.facts['gen_ai.usage.output_tokens']) >= 5);
    if (what === 'chat')
      t.match(root.facts, {
        'gen_ai.request.temperature': 0.5,
        'gen_ai.request.seed': 7,
        'gen_ai.request.max_tokens': 50,
      });
    const [queue, prefill, decode] = ['queue', 'prefill', 'decode'].map((name) => spans.get(name)!) as [
      SeenSpan,
      SeenSpan,
      SeenSpan,
    ];
    for (const part of [spans.get('prepare')!, queue, prefill, decode])
      t.match(part, { parentId: root.spanId, kind: INTERNAL });
    // Absolute times are accurate only to a millisecond, but times within a trace are exact. The client may read the
    // response before the server ends the span.
    t.ok(
      asked - 2 <= root.start && root.end <= answered + 1_000,
      'the root span matches the wall-clock time of the request',
    );
    for (const [before, after] of [
      [queue, prefill],
      [prefill, decode],
    ] as const)
      t.ok(Math.abs(before.end - after.start) < 0.01, 'the spans follow each other without a gap');
    t.ok(root.start <= spans.get('prepare')!.start && spans.get('prepare')!.end <= queue.start + 0.01);
    t.ok(prefill.end > prefill.start && decode.end > decode.start && decode.end <= root.end + 1);
  });
}

t.test('traces identify the service and contain no prompt text or keys', async (t) => {
  const first = receiver.spans[0]!;
  t.match(first.resource, {
    'service.name': 'hal of ours',
    'deployment.environment.name': 'test',
    'service.version': /^\d/,
    'telemetry.sdk.language': 'nodejs',
  });
  t.match(receiver.requests[0], {
    path: '/v1/traces',
    headers: { 'x-collector-key': 'c0llector', 'content-type': 'application/x-protobuf' },
  });
  const sent = Buffer.concat(receiver.requests.map(({ body }) => body)).toString('latin1');
  for (const secret of [MARK, 'capital', server.key])
    t.notOk(sent.includes(secret), 'the exported data contains no prompt text and no key');
  const { traceId } = await ask(server, '/v1/chat/completions', { messages: [user] });
  t.ok(await eventually(() => server.log().includes(`"trace_id":"${traceId}"`)), 'the log line contains the trace id');
});

t.test('each prompt and each choice of a request has its own spans', async (t) => {
  const { traceId } = await ask(server, '/v1/completions', {
    prompt: [MARK, 'another'],
    max_tokens: 3,
    n: 2,
    ignore_eos: true,
  });
  await spansOf(receiver, traceId, 11);
  const spans = receiver.spans.filter((span) => span.traceId === traceId);
  const count = (name: string): number => spans.filter((span) => span.name === name).length;
  t.same(['queue', 'prefill', 'decode', 'prepare'].map(count), [2, 2, 4, 2]);
  t.match(spans.find(({ kind }) => kind === SERVER)!.facts, {
    'gen_ai.usage.output_tokens': 12,
    'gen_ai.request.choice.count': 2,
    'gen_ai.response.finish_reasons': ['length', 'length', 'length', 'length'],
  });
});

t.test(
  'a background response is traced as a child of its request, and each WebSocket message has its own span',
  async (t) => {
    const { text, traceId } = await ask(server, '/v1/responses', { input: 'A: hello', background: true, store: true });
    const spans = await spansOf(receiver, traceId, 6);
    const background = spans.get('chat hal-1.0')!;
    const request = spans.get('POST /v1/responses')!;
    t.match([request.parentId, background.parentId], ['00f067aa0ba902b7', request.spanId]);
    t.equal(background.facts['gen_ai.response.id'], (JSON.parse(text) as { id: string }).id);
    t.equal(spans.get('decode')!.parentId, background.spanId);

    const id = hex(16);
    const connection = await Connection.open(server, { headers: { traceparent: `00-${id}-00f067aa0ba902b7-01` } });
    t.teardown(() => connection.socket.terminate());
    await connection.turn({ input: 'A: hello' });
    await connection.turn({ input: 'A: again' });
    await spansOf(receiver, id, 10);
    t.equal(receiver.spans.filter(({ traceId, name }) => traceId === id && name === 'chat hal-1.0').length, 2);
  },
);

t.test('spans record how a request ended: refused, unauthenticated, completed or cancelled', async (t) => {
  const refused = await ask(server, '/v1/chat/completions', { model: 'nobody', messages: [user] });
  t.equal(refused.status, 404);
  t.match((await spansOf(receiver, refused.traceId, 1)).get('POST /v1/chat/completions'), {
    status: { code: 0 },
    facts: { 'error.type': 'model_not_found', 'http.response.status_code': 404, 'monolith.outcome': 'refused' },
  });
  const stranger = await ask(server, '/v1/messages', {}, { authorization: 'Bearer sk-nobody-0123456789' });
  t.match((await spansOf(receiver, stranger.traceId, 1)).get('POST /v1/messages'), {
    status: { code: 0 },
    facts: { 'http.response.status_code': 401 },
  });

  const bound = await ask(server, '/v1/chat/completions', {
    messages: [{ role: 'user', content: 'L: on' }],
    max_tokens: 4,
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 'x',
        strict: true,
        schema: { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false },
      },
    },
  });
  const whole = await spansOf(receiver, bound.traceId, 5);
  t.equal(whole.get('chat hal-1.0')!.facts['monolith.format'], 'json_schema');

  const traceId = hex(16);
  const controller = new AbortController();
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'hal-1.0', stream: true, messages: [{ role: 'user', content: 'L: on' }] }),
    signal: controller.signal,
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${server.key}`,
      traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
    },
  });
  const reader = response.body!.getReader();
  for (let seen = ''; !seen.includes('upon'); ) seen += Buffer.from((await reader.read()).value!).toString();
  controller.abort();
  await reader.read().catch(() => undefined);
  const left = await spansOf(receiver, traceId, 5);
  t.match(left.get('chat hal-1.0'), { status: { code: 0 }, facts: { 'monolith.outcome': 'cancelled' } });
  t.ok(left.get('decode')!.end <= left.get('chat hal-1.0')!.end + 1);
});

t.test('spans record model loading, image processing, and a queue wait that ends in an error', async (t) => {
  const full = await startScripted({
    models: ['hal-1.0'],
    env: {
      MONOLITH_TELEMETRY_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
      MONOLITH_ENGINE_MAX_SEQUENCES: '1',
      MONOLITH_ENGINE_QUEUE_WAIT_MS: '50',
      MONOLITH_MODELS: JSON.stringify({ 'hal-1.0': { load: 'demand', image_input: 'note' } }),
    },
  });
  t.teardown(() => full.stop());
  const png = await sharp({ create: { width: 40, height: 30, channels: 3, background: 'red' } })
    .png()
    .toBuffer();
  const seen = await ask(full, '/v1/chat/completions', {
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } },
          { type: 'text', text: 'A: what is it?' },
        ],
      },
    ],
  });
  t.equal(seen.status, 200, seen.text);
  const first = await spansOf(receiver, seen.traceId, 7, true);
  t.ok(
    first.get('load model')!.end <= first.get('images')!.start + 0.01 &&
      first.get('images')!.end <= first.get('prepare')!.start + 0.01,
    'the model is loaded first, then the images are processed',
  );

  const controller = new AbortController();
  const running = await fetch(`${full.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'hal-1.0', stream: true, messages: [{ role: 'user', content: 'L: on' }] }),
    signal: controller.signal,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${full.key}` },
  });
  await running.body!.getReader().read();
  const late = await ask(full, '/v1/chat/completions', { messages: [user] });
  controller.abort();
  t.equal(late.status, 503);
  const spans = await spansOf(receiver, late.traceId, 3);
  t.match(spans.get('chat hal-1.0'), {
    status: { code: ERROR, message: 'capacity_exhausted' },
    facts: { 'error.type': 'capacity_exhausted', 'http.response.status_code': 503 },
  });
  const queue = spans.get('queue')!;
  t.match(queue, { status: { code: ERROR }, facts: { 'error.type': 'capacity_exhausted' } });
  t.ok(queue.end - queue.start >= 50, 'the queue span lasts as long as the request waited');
});

t.test('an invalid or repeated traceparent header is ignored, and a later version is accepted', async (t) => {
  const trace = '0af7651916cd43dd8448eb211c80319c',
    span = 'b7ad6b7169203331';
  const bad = [
    `ff-${trace}-${span}-01`,
    `00-${trace}-${span}-01-more`,
    `00-${'0'.repeat(32)}-${span}-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${trace}-${span}`,
    'nonsense',
  ];
  for (const traceparent of bad) {
    const before = receiver.spans.length;
    await ask(
      server,
      '/v1/chat/completions',
      { messages: [user], max_tokens: 1 },
      { traceparent, tracestate: 'vendor=opaque' },
    );
    t.ok(await eventually(() => receiver.spans.length >= before + 5));
    const root = receiver.spans.slice(before).find(({ kind }) => kind === SERVER)!;
    t.match(root, { parentId: '', traceState: '' }, traceparent);
    t.not(root.traceId, trace);
  }
  // Two traceparent headers are invalid, even if each is valid by itself.
  const before = receiver.spans.length;
  await new Promise<void>((resolve, reject) => {
    const twice = request(
      `${server.url}/v1/completions`,
      {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${server.key}`,
          traceparent: [`00-${trace}-${span}-01`, `00-${trace}-${span}-01`],
        },
      },
      (response) => response.resume().on('end', resolve),
    ).on('error', reject);
    twice.end(JSON.stringify({ model: 'hal-1.0', prompt: 'x', max_tokens: 1 }));
  });
  t.ok(await eventually(() => receiver.spans.length >= before + 5));
  t.not(receiver.spans.slice(before).find(({ kind }) => kind === SERVER)!.traceId, trace);

  // A later version of the header may add fields after the known fields.
  const later = hex(16);
  await ask(
    server,
    '/v1/chat/completions',
    { messages: [user], max_tokens: 1 },
    { traceparent: `01-${later}-${span}-01-more` },
  );
  t.equal((await spansOf(receiver, later, 5)).get('chat hal-1.0')!.parentId, span);
});

t.test('sample_ratio, by_parent and OTEL_SDK_DISABLED select the recorded traces', async (t) => {
  const own = await startOtlpReceiver();
  t.teardown(() => own.close());
  const recorded = async (env: Record<string, string>, flags: string[]): Promise<boolean[]> => {
    const one = await startScripted({
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: own.url, OTEL_EXPORTER_OTLP_HEADERS: 'x-standard=yes', ...env },
    });
    try {
      const ids: string[] = [];
      for (const flag of flags) {
        const id = hex(16);
        ids.push(id);
        await ask(
          one,
          '/v1/completions',
          { prompt: 'x', max_tokens: 1 },
          { traceparent: `00-${id}-00f067aa0ba902b7-${flag}` },
        );
      }
      await one.stop(); // by then, the recorded spans have been sent
      return ids.map((id) => own.spans.some(({ traceId }) => traceId === id));
    } finally {
      await one.stop();
    }
  };
  t.same(
    await recorded({ MONOLITH_TELEMETRY_TRACES_SAMPLE_RATIO: '0' }, ['01', '00']),
    [true, false],
    'the sampled flag of the client decides',
  );
  t.match(
    own.requests[0],
    { path: '/v1/traces', headers: { 'x-standard': 'yes' } },
    'the standard OTEL environment variables set endpoint and headers',
  );
  t.same(
    await recorded({ MONOLITH_TELEMETRY_TRACES_SAMPLE_RATIO: '0', MONOLITH_TELEMETRY_TRACES_BY_PARENT: 'false' }, [
      '01',
      '00',
    ]),
    [false, false],
  );
  t.same(
    await recorded({ MONOLITH_TELEMETRY_TRACES_BY_PARENT: 'false' }, ['01', '00']),
    [true, true],
    'only the sample ratio decides',
  );
  t.same(await recorded({ OTEL_SDK_DISABLED: 'true' }, ['01']), [false]);
});

t.test('an unresponsive or unreachable collector delays neither requests nor shutdown', async (t) => {
  const slow = await startOtlpReceiver();
  slow.behavior = 'hangs';
  t.teardown(() => slow.close());
  const one = await startScripted({
    env: { MONOLITH_TELEMETRY_TRACES_ENDPOINT: `${slow.url}/v1/traces`, MONOLITH_HTTP_THREADS: '2' },
  });
  const times: number[] = [];
  for (let i = 0; i < 60; i++) {
    const from = performance.now();
    t.equal((await ask(one, '/v1/completions', { prompt: 'x', max_tokens: 1 })).status, 200);
    times.push(performance.now() - from);
  }
  t.ok(slow.requests.length > 0, 'the server sent spans to the collector');
  t.ok(
    Math.max(...times.slice(5)) < 1_000,
    `no request waits for the collector: the slowest took ${Math.max(...times.slice(5))}`,
  );
  t.ok(await eventually(() => one.log().includes('does not accept spans')), 'the log reports the failing collector');
  t.equal(one.log().split('does not accept spans').length - 1 <= 2, true, 'each HTTP worker logs the failure once');
  t.ok((await one.metrics()).get('monolith_trace_spans_total{outcome="failed"}')! > 0);
  const from = performance.now();
  t.equal(await one.stop(), 0);
  t.ok(
    performance.now() - from < 8_000,
    `shutdown does not wait for the unresponsive collector: ${performance.now() - from}`,
  );

  const gone = await startScripted({ env: { MONOLITH_TELEMETRY_TRACES_ENDPOINT: 'http://127.0.0.1:1/v1/traces' } });
  t.equal((await ask(gone, '/v1/completions', { prompt: 'x', max_tokens: 1 })).status, 200);
  const stopped = performance.now();
  t.equal(await gone.stop(), 0);
  t.ok(
    performance.now() - stopped < 8_000,
    `shutdown does not wait for the unreachable collector: ${performance.now() - stopped}`,
  );
});

t.test('at most 4,096 spans are queued for an unresponsive collector, and closing waits at most 4.5 s', async (t) => {
  const slow = await startOtlpReceiver();
  slow.behavior = 'hangs';
  t.teardown(() => slow.close());
  const quiet = (): void => undefined;
  const tracing = openTracing(
    { endpoint: `${slow.url}/v1/traces`, headers: {}, view_url: null, sample_ratio: 1, by_parent: true },
    { debug: quiet, info: quiet, warn: quiet, error: quiet },
    undefined,
  )!;
  const ended = {
    requestId: 'req_x',
    method: 'POST',
    status: 200,
    failure: null,
    outcome: 'completed',
    organizationId: 'org_x',
    keyId: 'key_x',
    fields: {},
  } as const;
  for (let i = 0; i < 5_000; i++)
    tracing
      .begin({ method: 'POST', path: '/v1/completions', receivedAt: performance.now(), header: () => '' })!
      .end(ended);
  t.same(tracing.counts, { sent: 0, failed: 0, dropped: 5_000 - 4_096 });
  const from = performance.now();
  await tracing.close();
  t.ok(performance.now() - from < 4_500, `${performance.now() - from}`);
});
