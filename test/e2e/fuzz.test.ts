// Sends mutated requests to every endpoint that takes a body. Each request must get a JSON response in its API's error
// format, with a documented status and code. After that, the server must still work and hold no resources for these
// requests.
import t from 'tap';
import { ERRORS, ERROR_TYPES, type ErrorCode } from '../../src/shared/error-codes.js';
import { randomFrom } from '../support/random.js';
import { startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';
import { garbled, spoilt } from './fuzz-mutations.js';

const SEED = Number(process.env['FUZZ_SEED'] ?? 7);
const ROUNDS = Number(process.env['FUZZ_ROUNDS'] ?? 50); // mutations per body
const AT_ONCE = 8;
t.setTimeout(300_000); // long enough for extra rounds on a busy machine

const server = await startScripted({ context: 512, args: ['--limits-rpm', 'off', '--limits-tpm', 'off'] });
t.teardown(() => server.stop());

const parameters = {
  type: 'object',
  properties: {
    location: { type: 'string', enum: ['Paris', 'Rome'] },
    n: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
  },
  required: ['location'],
  additionalProperties: false,
};
const image = `data:image/png;base64,${'A'.repeat(64)}`;

interface Endpoint {
  path: string;
  shape: 'chat' | 'messages' | 'ollama';
  bodies: Record<string, unknown>[];
}

/** A Messages request whose `context_management` edits and compacts the conversation. */
const edited = {
  model: 'clarke-1.0',
  max_tokens: 4,
  tools: [{ name: 'f', input_schema: parameters }],
  context_management: {
    edits: [
      {
        type: 'clear_tool_uses_20250919',
        trigger: { type: 'tool_uses', value: 1 },
        keep: { type: 'tool_uses', value: 1 },
        clear_at_least: { type: 'input_tokens', value: 10 },
        exclude_tools: ['g'],
        clear_tool_inputs: ['f'],
      },
      { type: 'compact_20260112', trigger: { type: 'input_tokens', value: 100 }, instructions: 'Short.' },
    ],
  },
  messages: [
    { role: 'user', content: 'A: weather?' },
    ...['a', 'b'].flatMap((id) => [
      { role: 'assistant', content: [{ type: 'tool_use', id, name: 'f', input: { location: 'Oslo' } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: `T: ${'x'.repeat(100)}` }] },
    ]),
  ],
};

const endpoints: Endpoint[] = [
  {
    path: '/v1/chat/completions',
    shape: 'chat',
    bodies: [
      {
        model: 'clarke-1.0',
        max_tokens: 4,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 40,
        min_p: 0.1,
        seed: 7,
        n: 2,
        stop: ['zzz', 'yyy'],
        stream: true,
        stream_options: { include_usage: true },
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        repetition_penalty: 1.1,
        logit_bias: { 70: 1 },
        logprobs: true,
        top_logprobs: 2,
        metadata: { a: 'b' },
        user: 'someone',
        reasoning_effort: 'low',
        chat_template_kwargs: { enable_thinking: true },
        service_tier: 'auto',
        modalities: ['text'],
        messages: [
          { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
          { role: 'user', content: 'A: hi', name: 'me' },
        ],
      },
      {
        model: 'clarke-1.0',
        max_completion_tokens: 4,
        parallel_tool_calls: false,
        tools: [
          { type: 'function', function: { name: 'get_weather', description: 'Weather', parameters, strict: true } },
          { type: 'function', function: { name: 'get_time' } },
        ],
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'get_weather' } }] },
        },
        messages: [
          { role: 'user', content: 'W: weather?' },
          {
            role: 'assistant',
            content: null,
            reasoning_content: 'hm',
            tool_calls: [
              { id: 'a', type: 'function', function: { name: 'get_weather', arguments: '{"location":"Paris"}' } },
            ],
          },
          { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: 'T: 14 C' }] },
        ],
      },
      {
        model: 'clarke-1.0',
        max_tokens: 4,
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema: parameters, strict: true } },
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'J: hi' }] },
          { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
          { role: 'user', content: 'J: again' },
        ],
      },
      {
        model: 'clarke-1.0',
        max_tokens: 4,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'A: see' },
              { type: 'image_url', image_url: { url: image, detail: 'low' } },
            ],
          },
        ],
      },
    ],
  },
  {
    path: '/v1/messages',
    shape: 'messages',
    bodies: [
      {
        model: 'clarke-1.0',
        max_tokens: 4_000,
        stream: true,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 5,
        stop_sequences: ['zzz'],
        metadata: { user_id: 'someone' },
        thinking: { type: 'enabled', budget_tokens: 1_024 },
        system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
        messages: [{ role: 'user', content: 'A: hi' }],
      },
      {
        model: 'clarke-1.0',
        max_tokens: 4,
        tools: [{ name: 'get_weather', description: 'Weather', input_schema: parameters }],
        tool_choice: { type: 'auto', disable_parallel_tool_use: true },
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'W: weather?' }] },
          {
            role: 'assistant',
            content: [
              { type: 'text', text: 'Let me look.' },
              { type: 'tool_use', id: 'toolu_a', name: 'get_weather', input: { location: 'Paris' } },
            ],
          },
          {
            role: 'user',
            content: [
              {
                type: 'tool_result',
                tool_use_id: 'toolu_a',
                content: [{ type: 'text', text: 'T: 14 C' }],
                is_error: false,
              },
            ],
          },
        ],
      },
      {
        model: 'clarke-1.0',
        max_tokens: 4,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
              { type: 'text', text: 'A: see' },
            ],
          },
        ],
      },
      {
        model: 'clarke-1.0',
        max_tokens: 4,
        output_config: { format: { type: 'json_schema', schema: parameters }, effort: 'low' },
        messages: [{ role: 'user', content: 'J: hi' }],
      },
      edited,
    ],
  },
  {
    path: '/api/chat',
    shape: 'ollama',
    bodies: [
      {
        model: 'clarke-1.0:latest',
        options: { num_predict: 8, temperature: 0.5, top_k: 5, stop: ['x'], num_ctx: 512 },
        keep_alive: '5m',
        think: 'low',
        tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters } }],
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'W: hi' },
          {
            role: 'assistant',
            content: '',
            thinking: 'hm',
            tool_calls: [{ id: 'c', function: { index: 0, name: 'f', arguments: { a: 1 } } }],
          },
          { role: 'tool', tool_name: 'f', content: 'T: 1' },
        ],
      },
      {
        model: 'clarke-1.0',
        stream: false,
        format: parameters,
        logprobs: true,
        top_logprobs: 2,
        options: { num_predict: 8 },
        messages: [{ role: 'user', content: 'A: hi', images: ['AAAA'] }],
      },
    ],
  },
  {
    path: '/api/generate',
    shape: 'ollama',
    bodies: [
      { model: 'clarke-1.0', prompt: 'A: hi', system: 's', think: false, format: 'json', options: { num_predict: 8 } },
      { model: 'clarke-1.0', prompt: 'abc', raw: true, suffix: 'x', stream: false, options: { num_predict: 8 } },
    ],
  },
  {
    path: '/v1/messages/count_tokens',
    shape: 'messages',
    bodies: [
      edited,
      {
        model: 'clarke-1.0',
        system: 'Be brief.',
        tools: [{ name: 'f', input_schema: parameters }],
        messages: [{ role: 'user', content: [{ type: 'text', text: 'A: hi' }] }],
      },
    ],
  },
  {
    path: '/v1/responses',
    shape: 'chat',
    bodies: [
      {
        model: 'clarke-1.0',
        max_output_tokens: 16,
        stream: true,
        store: true,
        instructions: 'Be brief.',
        temperature: 0.5,
        top_p: 0.9,
        metadata: { a: 'b' },
        truncation: 'auto',
        include: ['reasoning.encrypted_content'],
        reasoning: { effort: 'low', summary: 'auto' },
        text: { format: { type: 'text' }, verbosity: 'low' },
        input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'A: hi' }] }],
      },
      {
        model: 'clarke-1.0',
        max_output_tokens: 16,
        context_management: [{ type: 'compaction', compact_threshold: 1_000 }],
        input: [
          { role: 'user', content: `A: ${'x'.repeat(1_000)}` },
          { role: 'assistant', content: 'Hi.' },
          { role: 'user', content: 'A: more' },
        ],
      },
      {
        model: 'clarke-1.0',
        max_output_tokens: 16,
        store: false,
        parallel_tool_calls: true,
        tool_choice: 'auto',
        tools: [{ type: 'function', name: 'get_weather', description: 'Weather', parameters, strict: true }],
        input: [
          { role: 'user', content: 'W: weather?' },
          { type: 'function_call', call_id: 'a', name: 'get_weather', arguments: '{"location":"Paris"}' },
          { type: 'function_call_output', call_id: 'a', output: 'T: 14 C' },
        ],
      },
      {
        model: 'clarke-1.0',
        max_output_tokens: 16,
        text: { format: { type: 'json_schema', name: 'x', schema: parameters, strict: true } },
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_image', image_url: image },
              { type: 'input_text', text: 'J: see' },
            ],
          },
        ],
      },
    ],
  },
  {
    path: '/v1/responses/input_tokens',
    shape: 'chat',
    bodies: [{ model: 'clarke-1.0', instructions: 'Be brief.', input: [{ role: 'user', content: 'A: hi' }] }],
  },
  {
    path: '/v1/responses/compact',
    shape: 'chat',
    bodies: [
      {
        model: 'clarke-1.0',
        input: [
          { role: 'user', content: 'A: hi' },
          { role: 'assistant', content: 'Hello.' },
        ],
      },
    ],
  },
];

function send(path: string, body: string | Uint8Array): Promise<Response> {
  return fetch(server.url + path, {
    method: 'POST',
    body,
    signal: AbortSignal.timeout(20_000),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
  });
}

/** Returns a description of what is wrong with an error body, or null if the body is correct. */
function errorProblem(status: number, text: string, shape: Endpoint['shape']): string | null {
  if (shape === 'ollama') {
    const { error, ...rest } = JSON.parse(text) as { error: unknown };
    return typeof error === 'string' && error !== '' && Object.keys(rest).length === 0 ? null : 'not the error format';
  }
  const body = JSON.parse(text) as {
    type?: unknown;
    request_id?: unknown;
    error: { message: unknown; type: unknown; param: unknown; code: unknown; details?: { error_code: unknown } };
  };
  const { message, type, param, code } = body.error;
  if (typeof message !== 'string' || message === '' || message.length > 2_000)
    return 'the message is empty or too long';
  if (typeof code !== 'string' || !Object.hasOwn(ERRORS, code)) return `unknown code ${String(code)}`;
  // Agents depend on this wording and status.
  const isImage = shape === 'messages' && status === 400 && message.startsWith('Could not process image.');
  if (!isImage && ERRORS[code as ErrorCode].status !== status) return `${code} with status ${status}`;
  if (type !== ERROR_TYPES[status as keyof typeof ERROR_TYPES]) return `type ${String(type)}`;
  if (param !== null && (typeof param !== 'string' || param === '' || param.length > 500))
    return `param ${String(param).slice(0, 80)}`;
  if (
    shape === 'messages' &&
    (body.type !== 'error' || typeof body.request_id !== 'string' || body.error.details?.error_code !== code)
  )
    return 'not the error format of Messages';
  return shape === 'chat' && 'request_id' in body ? 'not the error format of Chat Completions' : null;
}

/**
 * Returns a description of what is wrong with a stream, or null if the data of every event is JSON and the stream ends
 * as its format requires.
 */
function streamProblem(text: string, path: string): string | null {
  const events = text.split('\n\n').filter((event) => event !== '' && !event.startsWith(':'));
  const data = events.map((event) => /(?:^|\n)data: (.*)$/.exec(event)?.[1]);
  const isMessages = path === '/v1/messages';
  if (!isMessages && data.pop() !== '[DONE]') return 'the stream does not end with [DONE]';
  for (const one of data) JSON.parse(one ?? '');
  return isMessages && !/"type":"(message_stop|error)"/.test(data.at(-1) ?? '')
    ? 'the stream does not end with message_stop or an error'
    : null;
}

/**
 * Returns a description of what is wrong with a JSON Lines stream, or null if every line is valid JSON and the last
 * line is the terminal record or an error.
 */
function linesProblem(text: string): string | null {
  const lines = text.split('\n');
  if (lines.pop() !== '') return 'the last line has no end';
  const last = lines.map((line) => JSON.parse(line) as { done?: boolean; error?: string }).at(-1);
  return last?.done === true || last?.error !== undefined ? null : 'the stream does not end with done or an error';
}

/** Returns a description of what is wrong with the response to a body, or null if the response is correct. */
async function problemOf({ path, shape }: Endpoint, body: string | Uint8Array): Promise<string | null> {
  const response = await send(path, body);
  const text = await response.text();
  const { status } = response;
  const type = response.headers.get('content-type') ?? '';
  try {
    if (status === 200 && type.startsWith('text/event-stream')) return streamProblem(text, path);
    if (status === 200 && type === 'application/x-ndjson') return linesProblem(text);
    if (!type.startsWith('application/json')) return `content type ${type}`;
    if (status === 200) return typeof JSON.parse(text) === 'object' ? null : 'the body is not an object';
    if (![400, 404, 413, 422].includes(status)) return `status ${status}: ${text.slice(0, 300)}`;
    return errorProblem(status, text, shape);
  } catch (error) {
    return `${String(error)}: ${text.slice(0, 300)}`;
  }
}

/** Sends all bodies to an endpoint, a few at a time. Returns the problems, each with the body that caused it. */
async function problems(endpoint: Endpoint, bodies: readonly (string | Uint8Array)[]): Promise<string[]> {
  const found: string[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let at = next++; at < bodies.length; at = next++) {
        const body = bodies[at]!;
        const problem = await problemOf(endpoint, body).catch((error: unknown) => `no response: ${String(error)}`);
        if (problem !== null) found.push(`${problem} <= ${body.toString().slice(0, 600)}`);
      }
    }),
  );
  return found;
}

const served: Endpoint[] = [];
for (const endpoint of endpoints) {
  if ((await send(endpoint.path, '{}')).status !== 404) served.push(endpoint);
  else t.comment(`${endpoint.path} is not served`);
}

for (const endpoint of served) {
  t.test(`${endpoint.path}: mutated bodies get well-formed responses`, async (t) => {
    t.same(
      await problems(
        endpoint,
        endpoint.bodies.map((body) => JSON.stringify(body)),
      ),
      [],
      'unmodified bodies',
    );
    const random = randomFrom(SEED);
    const spoiltBodies = endpoint.bodies.flatMap((body) =>
      Array.from({ length: ROUNDS }, () => JSON.stringify(spoilt(random, body))),
    );
    t.same(await problems(endpoint, spoiltBodies), [], `seed ${SEED}: mutated values`);
    const bytes = endpoint.bodies.flatMap((body) =>
      Array.from({ length: Math.ceil(ROUNDS / 4) }, () => garbled(random, body)),
    );
    t.same(await problems(endpoint, bytes), [], `seed ${SEED}: corrupted bytes`);
  });
}

t.test('a body one byte over the limit gets a 413, with and without Content-Length', async (t) => {
  const limit = 33_554_432;
  for (const endpoint of served.slice(0, 2)) {
    // The first two endpoints have different error formats.
    const response = await send(endpoint.path, Buffer.alloc(limit + 1, 0x20));
    t.equal(response.status, 413, endpoint.path);
    t.equal(errorProblem(413, await response.text(), endpoint.shape), null);
  }
  let sent = 0;
  const pieces = new ReadableStream({
    pull(controller) {
      if (sent > limit) return controller.close();
      controller.enqueue(Buffer.alloc(1 << 20, 0x20));
      sent += 1 << 20;
    },
  });
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    body: pieces,
    duplex: 'half',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
  } as RequestInit);
  t.equal(response.status, 413);
});

t.test('a body of nearly the maximum size in which every entry is invalid gets an error response', async (t) => {
  const full = (before: string, unit: string, after: string): string =>
    before + `${unit},`.repeat(33_000_000 / (unit.length + 1)) + unit + after;
  for (const body of [
    full('{"model":"clarke-1.0","messages":[', '{"role":"user","content":[{}]}', ']}'),
    full(
      '{"model":"clarke-1.0","messages":[{"role":"user","content":"x"}],"tools":[',
      '{"type":"function","function":{"name":1}}',
      ']}',
    ),
  ])
    t.equal(await problemOf(served[0]!, body), null, body.slice(0, 160));
});

t.test('the server still works, and rejected requests hold no resources', async (t) => {
  t.equal((await fetch(`${server.url}/healthz`)).status, 200);
  t.equal((await fetch(`${server.url}/readyz`)).status, 200);
  t.ok(
    await eventually(async () =>
      [...(await server.metrics())]
        .filter(([name]) => /^monolith_(sequences_running|requests_waiting)/.test(name))
        .every(([, value]) => value === 0),
    ),
    'the engine is idle',
  );
  for (const endpoint of served) {
    const response = await send(endpoint.path, JSON.stringify(endpoint.bodies[0]));
    const text = await response.text();
    t.equal(response.status, 200, `${endpoint.path}: ${text.slice(0, 200)}`);
    const left =
      response.headers.get('x-ratelimit-remaining-concurrency') ??
      response.headers.get('anthropic-ratelimit-concurrency-remaining');
    // The first chat body has n: 2.
    if (left !== null) t.ok(Number(left) >= 97, `${left} concurrency slots are free`);
  }
  t.notMatch(server.log(), /unexpected failure/);
});
