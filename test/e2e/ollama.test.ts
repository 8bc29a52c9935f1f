// Tests Ollama's API through Ollama's npm client. Details that the client does not expose are tested over plain HTTP.
import { spawnSync } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { Ollama, type ChatResponse } from 'ollama';
import t from 'tap';
import { said, startScripted } from '../support/script-model.js';
import { ask, get, post } from '../support/wire.js';
import { eventually, main } from './monolith.js';
import { dataFolder } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const data = dataFolder();
const server = await startScripted({
  models: ['hal-1.0', 'org/clarke:q8'],
  args: ['--host', '0.0.0.0', '--ollama-open', '--ollama-organization', 'Default', '--http-keepalive-ms', '100'],
  env: { MONOLITH_DATA_DIR: data.path },
});
t.teardown(async () => {
  await server.stop();
  data.remove();
});

const client = (
  headers: Record<string, string> = { authorization: `Bearer ${server.key}` },
  host = server.url,
): Ollama => new Ollama({ host, headers });
const ollama = client();
const model = 'hal-1.0:latest';
const messages = (content: string) => [{ role: 'user', content }];

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather.',
    parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
  },
};
const person = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    age: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['name', 'age', 'tags'],
};

/** Returns the message and status of a failed call. */
async function failure(call: Promise<unknown>): Promise<{ message: string; status: unknown }> {
  try {
    await call;
    return { message: '', status: null };
  } catch (error) {
    return { message: (error as Error).message, status: (error as { status_code?: unknown }).status_code };
  }
}

/** The lines of a stream, parsed. */
async function lines(
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Record<string, unknown>[]> {
  const response = await post(server, path, body, headers);
  const text = await response.text();
  if (response.headers.get('content-type') !== 'application/x-ndjson') throw new Error(`${response.status} ${text}`);
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

t.test('the client chats, streamed and not', async (t) => {
  const whole = await ollama.chat({ model, messages: messages('A: hello'), think: false });
  t.equal(whole.message.content, said('A').content);
  t.match(whole, { model, done: true, done_reason: 'stop', message: { role: 'assistant' } });
  t.notOk('thinking' in whole.message);
  t.ok(whole.prompt_eval_count > 5);
  t.equal(whole.eval_count, 6);
  t.ok(whole.total_duration > 1e5 && whole.total_duration < 60e9, `${whole.total_duration} ns`);
  t.ok(whole.total_duration >= whole.eval_duration + whole.prompt_eval_duration);
  t.ok(Number.isInteger(whole.load_duration));
  t.ok(Math.abs(Date.parse(String(whole.created_at)) - Date.now()) < 60_000);

  const parts: ChatResponse[] = [];
  for await (const part of await ollama.chat({ model, messages: messages('A: hello'), think: false, stream: true }))
    parts.push(part);
  t.equal(parts.map(({ message }) => message.content).join(''), said('A').content);
  t.same(
    parts.map(({ done }) => done),
    [...parts.slice(1).map(() => false), true],
  );
  t.match(parts.at(-1), { done_reason: 'stop', eval_count: 6, prompt_eval_count: whole.prompt_eval_count });
  t.notOk('eval_count' in (parts[0] as object));
});

t.test('streaming is the default', async (t) => {
  const all = await lines('/api/chat', { model, messages: messages('A: hello') });
  t.ok(all.length > 3);
  t.match(all.at(-1), { done: true });
  const generated = await lines('/api/generate', { model, prompt: 'A: hello', think: false });
  t.equal(generated.map(({ response }) => response).join(''), said('A').content);
});

t.test('thinking has a field of its own', async (t) => {
  const { message } = await ollama.chat({ model, messages: messages('H: six times seven'), think: true });
  t.equal(message.thinking, said('H').reasoning);
  t.equal(message.content, said('H').content);
  const generated = await ollama.generate({ model, prompt: 'H: six times seven', think: 'low' });
  t.equal(generated.thinking, said('H').reasoning);
  t.equal(generated.response, said('H').content);
  t.notOk((await ollama.generate({ model, prompt: 'H: x', think: false })).thinking);
});

t.test('the client uses a tool, whose result needs no ID', async (t) => {
  const ask = { model, tools: [weather], think: false };
  const history: Parameters<typeof ollama.chat>[0]['messages'] = messages('W: weather in Paris?');
  const { message, done_reason: reason } = await ollama.chat({ ...ask, messages: history });
  t.equal(reason, 'stop');
  const [call] = message.tool_calls ?? [];
  t.match(call, { function: { name: 'get_weather', arguments: { location: 'Paris' } } });
  history?.push(message, { role: 'tool', tool_name: 'get_weather', content: 'T: 14 C' });
  const { message: end } = await ollama.chat({ ...ask, messages: history });
  t.equal(end.content, said('T').content);

  const streamed: ChatResponse[] = [];
  for await (const part of await ollama.chat({ ...ask, messages: messages('P: two'), stream: true }))
    streamed.push(part);
  const calls = streamed.flatMap((part) => part.message.tool_calls ?? []);
  t.equal(calls.length, 2);
  t.same(
    calls.map((one) => (one.function as { index?: number }).index),
    [0, 1],
  );
  t.ok(calls.every((one) => typeof one.function.arguments === 'object'));
  // Results in the wrong order are matched by name; without a name, by order.
  for (const names of [{}, { tool_name: calls[1]?.function.name ?? '' }]) {
    const { message: after } = await ollama.chat({
      ...ask,
      messages: [
        ...messages('P: two'),
        { role: 'assistant', content: '', tool_calls: calls },
        { role: 'tool', content: 'T: one', ...names },
        { role: 'tool', content: 'T: two' },
      ],
    });
    t.equal(after.content, said('T').content);
  }
  for (const [wrong, why] of [
    [{ role: 'tool', tool_name: 'other', content: 'T: x' }, /messages\[2\]\.tool_name does not match/],
    [{ role: 'user', content: 'A: x' }, /messages\[1\]\.tool_calls\[0\] has no tool result/],
  ] as const) {
    const asked = [...messages('W: x'), { role: 'assistant', content: '', tool_calls: [call as never] }, wrong];
    await t.rejects(ollama.chat({ ...ask, messages: asked }), { message: why });
  }
});

t.test('format gives JSON, or JSON by a schema', async (t) => {
  const { message } = await ollama.chat({ model, messages: messages('J: a person'), format: person, think: false });
  t.match(JSON.parse(message.content), { name: 'Ada', age: 36, tags: ['math', 'engines'] });
  const { response } = await ollama.generate({ model, prompt: 'J: a person', format: 'json', think: false });
  t.equal(typeof JSON.parse(response), 'object');
  await t.rejects(ollama.generate({ model, prompt: 'A: x', format: 'xml' }), {
    message: 'format must be "json" or a JSON Schema.',
  });
});

t.test('options are honoured, refused by name, or named in a header', async (t) => {
  const body = (options: object, more: object = {}) => ({
    model,
    messages: messages('L: a story'),
    think: false,
    stream: false,
    options,
    ...more,
  });
  const cut = await ask(
    server,
    '/api/chat',
    body({ num_predict: 5, temperature: 0, top_k: 40, top_p: 0.9, min_p: 0.1 }),
  );
  t.match(cut.body, { done_reason: 'length', eval_count: 5 });
  t.equal(cut.headers.get('x-ignored-parameters'), null);
  const stopped = await ask(server, '/api/chat', { ...body({ stop: ['STOP'] }), messages: messages('S: x') });
  t.equal((stopped.body as ChatResponse).message.content, said('S').content.split('STOP')[0]);
  const named = await ask(
    server,
    '/api/chat',
    body(
      { num_predict: 2, num_ctx: 8192, num_gpu: 99, repeat_last_n: 64, mirostat: 0, seed: 3, repeat_penalty: 1.1 },
      { keep_alive: '5m', width: 3 },
    ),
  );
  t.equal(
    named.headers.get('x-ignored-parameters'),
    'options.num_ctx, options.num_gpu, options.repeat_last_n, width, keep_alive',
  );
  for (const [options, message] of [
    [{ temperature: 9 }, 'options.temperature must be at most 2.'],
    [{ mirostat: 1 }, /^options\.mirostat is not supported/],
    [{ typical_p: 0.5 }, /^options\.typical_p is not supported/],
    [{ num_predict: 'all' }, /^options\.num_predict must be/],
  ] as const) {
    const { status, body: refused } = await ask(server, '/api/chat', body(options));
    t.ok(status === 422 || status === 400, String(status));
    t.match(refused, { error: message });
  }
});

t.test('generate takes raw prompts, system prompts and suffixes, and refuses what it does not have', async (t) => {
  const quiet = { model, stream: false, options: { num_predict: 4 } };
  const raw = await ask(server, '/api/generate', { ...quiet, prompt: 'abc', raw: true });
  t.match(raw.body, { prompt_eval_count: 3, done: true });
  const system = await ask(server, '/api/generate', { ...quiet, prompt: 'A: x', system: 'Be brief.', think: false });
  const plain = await ask(server, '/api/generate', { ...quiet, prompt: 'A: x', think: false });
  const prompted = ({ body }: { body: unknown }): number => (body as ChatResponse).prompt_eval_count;
  t.ok(prompted(system) > prompted(plain));
  for (const [more, message] of [
    [{ template: '{{ .Prompt }}' }, /^template is not supported/],
    [{ context: [1, 2] }, /^context is not supported/],
    [{ raw: true, system: 'x' }, /^system cannot be combined with raw: true/],
    [{ raw: true, think: true }, /^think cannot be combined with raw: true/],
    [{ images: ['AAAA'] }, /image/],
    [{ top_logprobs: 2 }, /^top_logprobs requires logprobs/],
  ] as const) {
    const { status, body } = await ask(server, '/api/generate', { ...quiet, prompt: 'A: x', ...more });
    t.equal(status, 422, JSON.stringify(body));
    t.match(body, { error: message });
  }
});

t.test('log probabilities are reported per token', async (t) => {
  const { logprobs } = await ollama.chat({
    model,
    messages: messages('A: x'),
    think: false,
    logprobs: true,
    top_logprobs: 2,
  });
  t.match(logprobs?.[0], { token: 'Paris', logprob: Number });
  t.equal(logprobs?.[0]?.top_logprobs?.length, 2);
});

t.test('a request without a prompt loads the model', async (t) => {
  t.match(await ollama.generate({ model, prompt: '' }), { done: true, done_reason: 'load', response: '' });
  t.match(await ollama.chat({ model, messages: [] }), { done: true, done_reason: 'load' });
  await t.rejects(ollama.generate({ model, prompt: '', keep_alive: 0 }), { message: /does not unload a model/ });
});

t.test('the client lists and shows models', async (t) => {
  const { models } = await ollama.list();
  t.same(
    models.map(({ name }) => name),
    ['hal-1.0:latest', 'org/clarke:q8'],
  );
  t.match(models[0], { model, details: { format: 'gguf' }, digest: /^[0-9a-f]{64}$/, modified_at: String });
  t.ok((models[0]?.size ?? 0) > 1e6);
  const shown = await ollama.show({ model });
  t.strictSame(shown.capabilities, ['completion', 'tools', 'thinking']);
  t.ok(shown.template.includes('tools'));
  t.match(shown.details, { parameter_size: /^\d+\.\d[KMB]$/, quantization_level: /./ });
  t.ok(Object.entries(shown.model_info).some(([name, value]) => name.endsWith('.context_length') && value === 16_384));
  t.match(await ask(server, '/api/show', { name: 'hal-1.0' }), { status: 200 });
  t.equal((await ollama.ps()).models[0]?.name, model);
  t.match((await ollama.version()).version, /^\d+\.\d+\.\d+/);
});

t.test("errors have Ollama's shape", async (t) => {
  t.match(await failure(ollama.chat({ model: 'none', messages: messages('x') })), {
    message: /model named "none"/,
    status: 404,
  });
  t.match(await failure(client({ authorization: 'Bearer wrong' }).list()), { status: 401 });
  for (const [path, body, status] of [
    ['/api/chat', '{', 400],
    ['/api/chat', { messages: [] }, 400],
    ['/api/chat', { model, messages: [{ role: 'robot', content: '' }] }, 422],
    ['/api/chat', { model, messages: [{ role: 'user', content: '', tool_calls: [{ function: { name: 'x' } }] }] }, 422],
    ['/api/embed', { model, input: 'x' }, 422],
    ['/api/embeddings', { model, prompt: 'x' }, 422],
    ['/api/create', {}, 404],
    ['/api/pull', { model: 'llama3' }, 404],
  ] as const) {
    const answer = await ask(server, path, body);
    t.equal(answer.status, status, `${path} ${answer.text}`);
    t.strictSame(Object.keys(answer.body as object), ['error']);
    t.type((answer.body as { error: unknown }).error, 'string');
  }
  t.match((await ask(server, '/api/embed', { model, input: 'x' })).body, { error: /does not produce embeddings/ });
  // curl's default type
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  t.equal((await ask(server, '/api/show', { model }, form)).status, 200);
  // The script's JSON breaks the schema, so the stream ends with an error instead of a last line.
  const broken = await lines('/api/chat', {
    model,
    messages: messages('L: x'),
    format: 'json',
    think: false,
    options: { num_predict: 9 },
  });
  t.ok(broken.length > 0);
});

t.test('a client that aborts a stream ends the generation', async (t) => {
  const stream = await ollama.chat({ model, messages: messages('L: a story'), think: false, stream: true });
  await t.rejects(
    (async () => {
      let count = 0;
      for await (const _ of stream) if (++count === 3) stream.abort();
    })(),
    { name: 'AbortError' },
  );
  t.ok(
    await eventually(async () => {
      const counts = [...(await server.metrics())];
      return counts.some(([name, value]) => name.includes('cancelled') && name.includes('/api/chat') && value === 1);
    }),
    'the generation was cancelled',
  );
});

/** Sends a request without a key. */
async function keyless(
  headers: Record<string, string> = {},
  url = server.url,
  path = '/api/tags',
): Promise<[number, string]> {
  const response = await fetch(`${url}${path}`, { headers });
  return [response.status, await response.text()];
}

t.test('without a key, only programs on this machine are served', async (t) => {
  const open = client({});
  t.equal((await open.list()).models.length, 2);
  const { message } = await open.chat({ model, messages: messages('A: x'), think: false });
  t.equal(message.content, said('A').content);
  for (const headers of [
    { origin: 'http://localhost:3000' },
    { origin: 'app://program' },
    { origin: 'vscode-webview://x' },
  ])
    t.equal((await keyless(headers))[0], 200, JSON.stringify(headers));
  for (const [headers, why] of [
    [{ 'x-forwarded-for': '127.0.0.1' }, /forwarded by a proxy/],
    [{ forwarded: 'for=127.0.0.1' }, /forwarded by a proxy/],
    [{ via: '1.1 proxy' }, /forwarded by a proxy/],
    [{ origin: 'https://example.com' }, /Origin/],
    [{ origin: 'http://localhost.example.com' }, /Origin/],
    [{ origin: 'null' }, /Origin/],
    [{ authorization: 'Bearer wrong' }, /key/],
  ] as const) {
    const [status, text] = await keyless(headers as Record<string, string>);
    t.equal(status, 401, JSON.stringify(headers));
    t.match((JSON.parse(text) as { error: string }).error, why);
  }
  const rebound = spawnSync('curl', ['-s', '-H', 'Host: rebound.example.com', `${server.url}/api/tags`], {
    encoding: 'utf8',
  });
  t.match(rebound.stdout, /Host header/);
  const fetched = spawnSync('curl', ['-s', '-H', 'Sec-Fetch-Site: cross-site', `${server.url}/api/tags`], {
    encoding: 'utf8',
  });
  t.match(fetched.stdout, /Sec-Fetch-Site/);
  t.equal((await keyless({}, server.url, '/v1/models'))[0], 401, 'other routes still need a key');
  const own = Object.values(networkInterfaces())
    .flat()
    .find((one) => one !== undefined && !one.internal && one.family === 'IPv4');
  if (own === undefined) t.comment('this machine has no other address');
  else t.match(await keyless({}, `http://${own.address}:${server.port}`), [401, /does not come from this machine/]);
  const pull = await fetch(`${server.url}/api/pull`, { method: 'POST', body: '{"model":"owner/repo"}' });
  t.equal(pull.status, 403);
  t.match(await pull.json(), { error: /Only operators/ });
  t.match(server.log(), /Ollama's API is open/);
});

/** Runs a command while the server is running, as an operator would. */
function run(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    encoding: 'utf8',
    timeout: 30_000,
    env: { ...process.env, MONOLITH_DATA_DIR: data.path },
  });
  if (status !== 0) throw new Error(stderr);
  return stdout.trim();
}

t.test("a key's models and permissions hold", async (t) => {
  const key = run('keys', 'create', '--models', 'org/clarke:q8').split('\n')[0] as string;
  const limited = client({ authorization: `Bearer ${key}` });
  t.same(
    (await limited.list()).models.map(({ name }) => name),
    ['org/clarke:q8'],
  );
  t.same(
    (await limited.ps()).models.map(({ name }) => name),
    ['org/clarke:q8'],
  );
  t.match(await failure(limited.chat({ model, messages: messages('A: x') })), { status: 403 });
  t.match(await failure(limited.generate({ model, prompt: '' })), { status: 403 });
  t.match(await failure(limited.show({ model })), { status: 403 });
  t.match(await limited.chat({ model: 'org/clarke:q8', messages: messages('A: x') }), { done: true });
});

t.test('the server does not start if it is not clear whom open requests count for', async (t) => {
  for (const [args, why] of [
    [['--ollama-open'], /ollama\.open requires ollama\.organization/],
    [['--ollama-open', '--ollama-organization', 'Nobody'], /ollama\.organization: there is no organization "Nobody"/],
  ] as const) {
    const folder = dataFolder();
    const { status, stderr, stdout } = spawnSync(process.execPath, [main, 'serve', '--port', '0', ...args], {
      encoding: 'utf8',
      timeout: 60_000,
      env: { ...process.env, MONOLITH_DATA_DIR: folder.path },
    });
    folder.remove();
    t.not(status, 0);
    t.match(stderr + stdout, why);
  }
});

t.test('requests count under their path, and those without a key for the organization', async (t) => {
  const metrics = await server.metrics();
  t.ok(
    [...metrics.keys()].some((name) => name.includes('/api/chat')),
    'metrics',
  );
  const { headers } = await get(server, '/api/tags');
  t.match(headers.get('content-type'), /^application\/json/);
  const limits = (await ask(server, '/api/chat', { model, messages: messages('A: x'), stream: false })).headers;
  t.ok([...limits.keys()].every((name) => !name.startsWith('anthropic-')));
});
