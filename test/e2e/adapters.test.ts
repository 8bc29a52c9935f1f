// Tests LoRA adapters with OpenAI's client and vLLM's routes, on real servers with one and two HTTP workers.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { writeAdapter, writePeftAdapter } from '../support/adapter-files.js';
import { dashboardClient, refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { embeddedModel, eventually, startMonolith, type Monolith } from './monolith.js';

t.setTimeout(600_000);

const folder = mkdtempSync(join(tmpdir(), 'monolith-adapters-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const allowed = join(folder, 'allowed');
mkdirSync(allowed);
writeAdapter(join(allowed, 'one.gguf'), { seed: 1 });
writeAdapter(join(allowed, 'two.gguf'), { seed: 2 });
writePeftAdapter(join(allowed, 'one-peft'), { seed: 1 });
writeAdapter(join(allowed, 'wrong.gguf'), { seed: 1, hidden: 96 });
writeAdapter(join(folder, 'outside.gguf'), { seed: 3 });
symlinkSync(join(folder, 'outside.gguf'), join(allowed, 'link.gguf'));
writePeftAdapter(join(allowed, 'linked-peft'), { seed: 1 });
rmSync(join(allowed, 'linked-peft', 'adapter_model.safetensors'));
symlinkSync(join(allowed, '..', 'outside.gguf'), join(allowed, 'linked-peft', 'adapter_model.safetensors'));

const clientOf = ({ url, key }: Monolith): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const GREEDY = { temperature: 0, ignore_eos: true };
const ask = async (client: OpenAI, model: string): Promise<{ text: string; model: string; print: string }> => {
  const request = { model, prompt: 'The quick brown fox', max_tokens: 12, ...GREEDY };
  const answer = await client.completions.create(request);
  return { text: answer.choices[0]?.text ?? '', model: answer.model, print: answer.system_fingerprint ?? '' };
};
const post = async (
  { url, key }: Pick<Monolith, 'url' | 'key'>,
  path: string,
  body: object,
  more: Record<string, string> = {},
): Promise<{ status: number; text: string; param: string | null; headers: Headers }> => {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...more },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const error = text.startsWith('{') ? (JSON.parse(text) as { error?: { param: string | null } }).error : undefined;
  return { status: response.status, text, param: error?.param ?? null, headers: response.headers };
};
const load = (server: Monolith, name: string, path: string, more: object = {}): ReturnType<typeof post> =>
  post(server, '/v1/load_lora_adapter', { lora_name: name, lora_path: path, ...more });
const unload = (server: Monolith, name: string): ReturnType<typeof post> =>
  post(server, '/v1/unload_lora_adapter', { lora_name: name });

/** Starts a server with arguments that it must reject. Resolves to the log. */
const refusedStart = async (t: Test, ...args: string[]): Promise<string> => {
  try {
    const server = await startMonolith({ args: ['--model', `base=${embeddedModel}`, ...args] });
    await server.stop();
    t.fail(`the server starts with ${args.join(' ')}`);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

t.test('two configured adapters and their model give three different outputs', async (t) => {
  const server = await startMonolith({
    args: [
      ...['--model', `base=${embeddedModel}`],
      ...['--adapter', `one=${join(allowed, 'one.gguf')}`, '--adapter', `base:two=${join(allowed, 'two.gguf')}`],
      ...['--adapter', `peft=${join(allowed, 'one-peft')}`, '--adapter', `off=${join(allowed, 'one.gguf')}:0`],
    ],
    env: {
      MONOLITH_MODELS: JSON.stringify({
        aliases: { 'gpt-4o': 'base', tuned: 'base:two' },
        base: { adapters: { half: { path: join(allowed, 'one.gguf'), scale: 0.5 } } },
        'base:two': { display_name: 'Second', lifecycle: 'deprecated', successor: 'base:one' },
      }),
    },
  });
  t.teardown(() => server.stop());
  const client = clientOf(server);
  const names = ['base', 'one', 'two', 'half'];
  const alone = new Map<string, Awaited<ReturnType<typeof ask>>>();
  for (const name of names) alone.set(name, await ask(client, name));
  t.equal(new Set([...alone.values()].map(({ text }) => text)).size, names.length, 'all answers differ');
  t.equal(new Set([...alone.values()].map(({ print }) => print)).size, names.length, 'all fingerprints differ');
  t.equal((await ask(client, 'peft')).text, alone.get('one')?.text, 'a PEFT folder computes what the GGUF file does');
  t.equal((await ask(client, 'off')).text, alone.get('base')?.text, 'an adapter with scale 0 has no effect');

  const mixed = Array.from({ length: 16 }, (_, at) => names[at % names.length] as string);
  const together = await Promise.all(mixed.map((name) => ask(client, name)));
  t.same(
    together.map(({ text }) => text),
    mixed.map((name) => alone.get(name)?.text),
    'concurrent requests with different adapters get the same answers',
  );
  for (const name of ['one', 'base:one', 'gpt-4o:one'])
    t.match(await ask(client, name), { text: alone.get('one')?.text, model: name }, name);
  t.equal((await ask(client, 'tuned')).text, alone.get('two')?.text, 'an alias may name an adapter');
  await t.rejects(ask(client, 'base:none'), { status: 404, code: 'model_not_found' });
  await t.rejects(ask(client, 'one:two'), { status: 404, code: 'model_not_found' }, 'an adapter has no adapters');

  const listed = (await client.models.list()).data as unknown as Record<string, unknown>[];
  t.match(
    listed.find(({ id }) => id === 'one'),
    { root: 'base:one', parent: 'base' },
  );
  t.match(
    listed.find(({ id }) => id === 'base'),
    { root: 'base', parent: null },
  );
  t.match(
    listed.find(({ id }) => id === 'two'),
    { display_name: 'Second', lifecycle: 'deprecated' },
  );
  t.match(await client.models.retrieve('base:one'), { id: 'base:one', root: 'base:one', parent: 'base' });
  const headers = { authorization: `Bearer ${server.key}` };
  const tags = (await (await fetch(`${server.url}/api/tags`, { headers })).json()) as { models: object[] };
  t.match(
    tags.models.find((one) => 'name' in one && one.name === 'base:one'),
    { details: { parent_model: 'base:latest' } },
  );
  t.match(await (await fetch(`${server.url}/lora-adapters`, { headers })).json(), [
    { id: 0, name: 'base:one', path: join(allowed, 'one.gguf'), scale: 1 },
    { id: 1, name: 'base:two' },
  ]);
});

t.test('every API format accepts an adapter, and the response repeats its name', async (t) => {
  const server = await startMonolith({
    args: ['--model', `base=${embeddedModel}`, '--adapter', `one=${join(allowed, 'one.gguf')}`],
  });
  t.teardown(() => server.stop());
  const messages = [{ role: 'user', content: 'Name three colours.' }];
  const asked = { temperature: 0, max_tokens: 8 };
  const rows: [path: string, body: object, at: (answer: Record<string, unknown>) => unknown][] = [
    ['/v1/chat/completions', { messages, ...asked }, ({ choices }) => choices],
    ['/v1/messages', { messages, ...asked }, ({ content }) => content],
    ['/v1/responses', { input: 'Name three colours.', temperature: 0, max_output_tokens: 16 }, ({ output }) => output],
    ['/api/chat', { messages, stream: false, options: { temperature: 0, num_predict: 8 } }, ({ message }) => message],
    [
      '/api/generate',
      { prompt: 'Hi', stream: false, options: { temperature: 0, num_predict: 8 } },
      ({ response }) => response,
    ],
  ];
  for (const [path, body, at] of rows) {
    const results = await Promise.all(
      ['base', 'one', 'base:one'].map(async (model) => {
        const { status, text } = await post(server, path, { model, ...body });
        t.equal(status, 200, `${path} ${text.slice(0, 200)}`);
        const answer = JSON.parse(text) as Record<string, unknown>;
        t.equal(answer['model'], model, path);
        return JSON.stringify(at(answer)).replace(/"id":"[^"]*"/g, '');
      }),
    );
    t.not(results[0], results[1], `${path} uses the adapter`);
    t.equal(results[1], results[2], path);
  }
  const counted = await Promise.all(
    ['base', 'one'].map(async (model) =>
      JSON.parse((await post(server, '/v1/messages/count_tokens', { model, messages })).text),
    ),
  );
  t.same(counted[0], counted[1], 'an adapter has the tokens of its model');
  t.match(JSON.parse((await post(server, '/apply-template', { model: 'one', messages })).text), { prompt: /colours/ });
  const { status, text, param } = await post(server, '/v1/completions', {
    ...{ model: 'base', prompt: 'x', lora: [{ id: 0, scale: 1 }] },
  });
  t.same([status, param], [422, 'lora']);
  t.match(text, /send its name as the model/);
  t.equal(
    (await post(server, '/v1/completions', { model: 'base', prompt: 'x', lora: [{ id: 0, scale: 0 }] })).status,
    200,
    'a list that switches all adapters off is accepted',
  );
});

t.test('an invalid adapter is a startup error that names the flag', async (t) => {
  const wrong = join(allowed, 'wrong.gguf');
  t.match(await refusedStart(t, '--adapter', 'x=/nowhere/x.gguf'), /--adapter x: \/nowhere\/x\.gguf does not exist/);
  t.match(await refusedStart(t, '--adapter', `x=${folder}`), /--adapter x: .* nor a folder with an adapter_config/);
  t.match(
    await refusedStart(t, '--adapter', `x=${wrong}`),
    /--adapter x: .*wrong\.gguf: .*adapts a matrix of 96 x 96/s,
  );
  t.match(await refusedStart(t, '--adapter', `other:x=${wrong}`), /--adapter other:x: "other" is not one of base/);
  t.match(
    await refusedStart(t, '--model', `second=${embeddedModel}`, '--adapter', `x=${wrong}`),
    /--adapter x: several models are served; write MODEL:x, where MODEL is one of base, second/,
  );
  t.match(await refusedStart(t, '--adapter', `a b=${wrong}`), /"a b" is not a valid adapter name/);
  t.match(await refusedStart(t, '--adapter', `x=${wrong}:1000`), /scale 1000 is not between/);
});

for (const threads of [1, 2]) {
  t.test(`adapters are loaded and unloaded while responses stream, with ${threads} HTTP workers`, async (t) => {
    const data = join(folder, `data-${threads}`);
    const settings = {
      args: ['--model', `base=${embeddedModel}`],
      env: {
        MONOLITH_DATA_DIR: data,
        MONOLITH_ADAPTERS_FOLDER: allowed,
        MONOLITH_HTTP_THREADS: String(threads),
        MONOLITH_MODELS: JSON.stringify({ base: { idle_minutes: 0.03 } }),
      },
    };
    let server = await startMonolith(settings);
    t.teardown(() => server.stop());
    let client = clientOf(server);
    const plain = (await ask(client, 'base')).text;
    const first = await load(server, 'one', 'one.gguf');
    t.match(first, { status: 200, text: "Success: LoRA adapter 'one' added successfully." });
    // When the call returns, every worker serves the adapter. Each new connection may reach another worker.
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(clientOf(server), 'one')));
    const tuned = answers[0]?.text ?? '';
    t.not(tuned, plain);
    t.same(new Set(answers.map(({ text }) => text)), new Set([tuned]));
    t.match(await load(server, 'one', 'two.gguf'), { status: 422, param: 'lora_name', text: /already been loaded/ });
    t.match(await load(server, 'base:half', join(allowed, 'one.gguf'), { scale: 0.5 }), { status: 200 });
    t.not((await ask(client, 'half')).text, tuned);

    const long = { prompt: 'The quick brown fox', max_tokens: 1_200, ...GREEDY };
    const whole = await client.completions.create({ model: 'one', ...long });
    const stream = await client.completions.create({ model: 'one', stream: true, ...long });
    let text = '';
    let unloaded: ReturnType<typeof unload> | null = null;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.text ?? '';
      if (unloaded !== null || text.length < 20) continue;
      unloaded = unload(server, 'one');
      t.match(await load(server, 'two', 'two.gguf'), { status: 200 });
    }
    t.match(await unloaded, { status: 200, text: "Success: LoRA adapter 'one' removed successfully." });
    t.equal(text, whole.choices[0]?.text, 'a running answer ends with the adapter that was unloaded');
    await Promise.all(
      Array.from({ length: 8 }, () =>
        t.rejects(ask(clientOf(server), 'one'), { status: 404, code: 'model_not_found' }),
      ),
    );
    t.equal((await ask(client, 'base')).text, plain);
    const second = (await ask(client, 'two')).text;
    t.match(await unload(server, 'one'), { status: 404, param: 'lora_name' });

    t.ok(await eventually(() => isUnloaded(server)), 'the model is unloaded when it has been idle');
    t.equal((await ask(client, 'two')).text, second, 'and its adapters are loaded again with it');
    await server.stop();
    server = await startMonolith(settings);
    client = clientOf(server);
    t.equal((await ask(client, 'two')).text, second, 'after a restart, the adapter is still served');
    t.match(await load(server, 'one', 'two.gguf'), { status: 200 });
    t.equal((await ask(client, 'one')).text, second, 'the name now means the other file');
    await server.stop();
    server = await startMonolith({ ...settings, env: { ...settings.env, MONOLITH_ADAPTERS_FOLDER: folder + '/none' } });
    await t.rejects(
      ask(clientOf(server), 'two'),
      { status: 404, code: 'model_not_found' },
      'not outside the folder of a changed setting',
    );
    t.match(server.log(), /adapter base:two is not served/);
  });
}

t.test('refuses paths outside adapters.folder and adapters that do not fit the model', async (t) => {
  const args = ['--model', `base=${embeddedModel}`, '--adapter', `mine=${join(allowed, 'one.gguf')}`];
  const server = await startMonolith({ args, env: { MONOLITH_ADAPTERS_FOLDER: allowed } });
  t.teardown(() => server.stop());
  for (const path of [
    ...['../outside.gguf', join(folder, 'outside.gguf'), '/etc/passwd', '/nowhere/x.gguf', 'link.gguf', 'linked-peft'],
    ...['.', '', allowed, `${allowed}/../outside.gguf`, 'one.gguf\0', '../allowed-too/x.gguf'],
  ])
    t.match(
      await load(server, 'x', path),
      path === '' ? { param: 'lora_path' } : { status: 422, param: 'lora_path', text: /inside adapters\.folder/ },
      JSON.stringify(path),
    );
  writeFileSync(join(allowed, 'text.gguf'), 'not a model');
  t.match(await load(server, 'x', 'none.gguf'), { status: 422, param: 'lora_path', text: /does not exist in/ });
  t.match(await load(server, 'x', 'text.gguf'), { status: 422, param: 'lora_path', text: /cannot be loaded/ });
  t.match(await load(server, 'x', 'wrong.gguf'), {
    status: 422,
    param: 'lora_path',
    text: /cannot be loaded.*adapts a matrix of 96/,
  });
  for (const name of ['a b', ':x', 'base:', 'other:x', 'x'.repeat(65)])
    t.match(await load(server, name, 'one.gguf'), { status: 422, param: 'lora_name' }, name);
  t.match(await load(server, 'x', 'one.gguf', { base_model_name: 'other' }), { status: 422, param: 'base_model_name' });
  t.match(await load(server, 'x:y', 'one.gguf', { base_model_name: 'base' }), { status: 422, text: /a colon/ });
  t.match(await load(server, 'x', 'one.gguf', { load_inplace: true }), { status: 422, param: 'load_inplace' });
  t.match(await load(server, 'mine', 'one.gguf'), { status: 422, param: 'lora_name' });
  t.match(await unload(server, 'mine'), { status: 422, param: 'lora_name', text: /is configured/ });
  const { status, headers } = await load(server, 'x', 'one.gguf', { lora_int_id: 7 });
  t.same([status, headers.get('x-ignored-parameters')], [200, 'lora_int_id']);
  t.equal((await unload(server, 'base:x')).status, 200);

  const closed = await startMonolith({ args: ['--model', `base=${embeddedModel}`] });
  t.teardown(() => closed.stop());
  t.match(await load(closed, 'x', 'one.gguf'), { status: 422, text: /the setting adapters\.folder is not set/ });
});

t.test('only operators may load adapters', async (t) => {
  const token = 'metrics-token-0123456789';
  const owned = await openOwned({ env: { MONOLITH_ADAPTERS_FOLDER: allowed, MONOLITH_METRICS_TOKEN: token } });
  t.teardown(() => owned.close());
  const member = owned.client();
  const { organization } = await member.signUp({ email: 'plain@example.com' });
  const { secret: key } = await member.post<{ secret: string }>(`/organizations/${organization.id}/api-keys`, {
    name: 'k',
  });
  const { url } = owned.server;
  const restricted: string[] = [];
  for (const limit of [{ scopes: ['responses.read'] }, { models: ['hal-1.0'] }]) {
    const path = `/organizations/${owned.organization.id}/api-keys`;
    restricted.push((await owned.owner.post<{ secret: string }>(path, { name: 'r', ...limit })).secret);
  }
  const body = { lora_name: 'hal-1.0:x', lora_path: 'one.gguf' };
  for (const path of ['/v1/load_lora_adapter', '/v1/unload_lora_adapter']) {
    t.equal((await post({ url, key: 'wrong' }, path, body)).status, 401);
    t.equal((await post({ url, key }, path, body)).status, 403);
    t.equal((await post({ url, key: token }, path, body)).status, 401, 'the scrape token is not an API key');
    t.equal((await post({ url, key: token }, path, body, { 'x-api-key': key })).status, 403, 'nor does it add rights');
    for (const secret of restricted)
      t.equal((await post({ url, key: secret }, path, body)).status, 403, 'not with a restricted key');
    t.not((await post(owned.server, path, body)).status, 403);
  }
  t.equal((await fetch(`${url}/lora-adapters`, { headers: { authorization: `Bearer ${key}` } })).status, 403);
});

t.test('limits can be set for a model, but not for its adapters', async (t) => {
  const args = ['--model', `base=${embeddedModel}`, '--adapter', `mine=${join(allowed, 'one.gguf')}`];
  const server = await startMonolith({ args, env: { MONOLITH_ACCOUNTS_SIGNUP: 'open' } });
  t.teardown(() => server.stop());
  const owner = dashboardClient(server.url);
  const { organization } = await owner.signUp({ email: 'owner@example.com' });
  const at = `/organizations/${organization.id}`;
  const limits = { 'base:mine': { rpm: 1 } };
  t.match(await refusal(owner.post(`${at}/api-keys`, { name: 'k', limits })), { status: 422, code: 'invalid_value' });
  t.match(await refusal(owner.patch(`/operator${at}`, { limits })), { status: 422, code: 'invalid_value' });
  await owner.post(`${at}/api-keys`, { name: 'k', models: ['base:mine'], limits: { base: { rpm: 1 } } });
  const { models } = await owner.get<{ models: { model: string }[] }>(`${at}/limits`);
  t.same(
    models.map(({ model }) => model),
    ['base'],
  );
});

t.test("the metric vllm:lora_requests_info has vLLM's labels", async (t) => {
  const args = ['--model', `base=${embeddedModel}`, '--adapter', `one=${join(allowed, 'one.gguf')}`];
  const server = await startMonolith({ args });
  t.teardown(() => server.stop());
  const request = { model: 'base:one', prompt: 'x', max_tokens: 1_800, ...GREEDY };
  const running = clientOf(server).completions.create(request);
  let value: number | undefined;
  t.ok(await eventually(async () => (value = (await server.metrics()).get(seriesOf('one'))) !== undefined));
  t.ok(Math.abs((value ?? 0) - Date.now() / 1000) < 60, 'its value is the time');
  await running;
  t.ok(await eventually(async () => (await server.metrics()).has(seriesOf(''))));
});

const seriesOf = (running: string): string =>
  `vllm:lora_requests_info{max_lora="64",waiting_lora_adapters="",running_lora_adapters="${running}"}`;

async function isUnloaded({ url, key }: Monolith): Promise<boolean> {
  const response = await fetch(`${url}/props?model=base`, { headers: { authorization: `Bearer ${key}` } });
  return ((await response.json()) as { is_sleeping: boolean }).is_sleeping;
}
