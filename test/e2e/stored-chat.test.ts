// Tests stored chat completions with the oldest and the newest supported version of OpenAI's client.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import OpenAI7 from 'openai-7';
import t from 'tap';
import { said, startScripted } from '../support/script-model.js';
import { eventually, startMonolith } from './monolith.js';
import { dataFolder, keyOf } from './stored-server.js';

t.setTimeout(600_000); // the machine may be busy

const { path, remove } = dataFolder();
t.teardown(remove);
const server = await startScripted({ env: { MONOLITH_DATA_DIR: path } });
t.teardown(() => server.stop());
const clientOf = (apiKey: string): OpenAI => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
const client = clientOf(server.key);
const model = 'clarke-1.0';
const base = { model, reasoning_effort: 'none' as const, store: true as const };
const user = (content: string): OpenAI.ChatCompletionUserMessageParam => ({ role: 'user', content });

t.afterEach(async () => {
  for await (const { id } of client.chat.completions.list({ limit: 100 })) await client.chat.completions.delete(id);
});

for (const [name, versioned] of [
  ['openai 6', client],
  ['openai 7', new OpenAI7({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 }) as unknown as OpenAI],
] as const)
  t.test(`${name} stores, reads, updates and deletes a chat completion`, async (t) => {
    const completions = versioned.chat.completions;
    const messages = [
      { role: 'system' as const, content: 'Be brief.' },
      { role: 'user' as const, name: 'Ana', content: [{ type: 'text' as const, text: 'A: capital of France?' }] },
    ];
    const { data, response } = await completions.create({ ...base, messages, metadata: { k: 'v' } }).withResponse();
    t.equal(response.headers.get('x-ignored-parameters'), null);
    t.equal(data.choices[0]!.message.content, said('A').content);
    const stored = await completions.retrieve(data.id);
    t.same(stored, data, 'the completion is stored as it was sent');
    t.same((stored as { metadata?: unknown }).metadata, { k: 'v' });

    const listed = [];
    for await (const message of completions.messages.list(data.id, { limit: 1 })) listed.push(message);
    t.match(listed, [
      { id: `${data.id}-0`, role: 'system', content: 'Be brief.', content_parts: null },
      { id: `${data.id}-1`, role: 'user', name: 'Ana', content: null, content_parts: messages[1]!.content },
    ]);
    const updated = await completions.update(data.id, { metadata: { k: 'w' } });
    t.same(updated, { ...data, metadata: { k: 'w' } });
    t.same(await completions.delete(data.id), { id: data.id, object: 'chat.completion.deleted', deleted: true });
    await t.rejects(completions.retrieve(data.id), { status: 404, code: 'chat_completion_not_found' });
    await t.rejects(completions.delete(data.id), { status: 404, code: 'chat_completion_not_found' });
  });

t.test('a streamed completion is stored with the IDs, calls and log probabilities that were sent', async (t) => {
  const tools = ['get_weather', 'get_time'].map((name) => ({
    type: 'function' as const,
    function: { name, parameters: { type: 'object', properties: {} } },
  }));
  const stream = client.chat.completions.stream({
    ...base,
    messages: [user('K: weather?')],
    tools,
    reasoning_effort: 'high',
    logprobs: true,
    stream_options: { include_usage: true },
  } as never);
  const sent = await stream.finalChatCompletion();
  const stored = await client.chat.completions.retrieve(sent.id);
  const [choice] = stored.choices;
  const [expected] = sent.choices;
  t.equal(choice!.finish_reason, 'tool_calls');
  t.match(
    choice!.message.tool_calls,
    expected!.message.tool_calls!.map(({ id }) => ({ id })),
  );
  t.equal(choice!.message.content, expected!.message.content);
  t.ok((choice!.message as { reasoning?: string }).reasoning);
  t.equal(choice!.logprobs!.content!.length, expected!.logprobs!.content!.length);
  t.same(stored.usage, sent.usage);
});

t.test('only completions with store: true that finish are stored', async (t) => {
  const { store: _store, ...unstored } = base;
  await client.chat.completions.create({ ...unstored, messages: [user('A: x')] });
  await client.chat.completions.create({ ...base, store: false, messages: [user('A: x')] });
  await t.rejects(client.chat.completions.create({ ...base, messages: [user('many words '.repeat(20_000))] }));
  const response_format = {
    type: 'json_schema',
    json_schema: { name: 'x', schema: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] } },
  } as const;
  const endless = await client.chat.completions.create({ ...base, stream: true, messages: [user('L: x')] });
  for await (const _chunk of endless) break; // disconnects
  await new Promise((done) => setTimeout(done, 500));
  t.same((await client.chat.completions.list()).data, []);
  const cut = await client.chat.completions.create({
    ...base,
    max_tokens: 3,
    messages: [user('A: x')],
    response_format,
  });
  t.equal((await client.chat.completions.retrieve(cut.id)).choices[0]!.finish_reason, 'length', 'a cut one is stored');
});

t.test('completions are listed with filters and in pages', async (t) => {
  const ids: string[] = [];
  for (let at = 0; at < 5; at++) {
    const { id } = await client.chat.completions.create({
      ...base,
      model: at === 4 ? 'hal-1.0' : model,
      messages: [user('A: x')],
      metadata: { parity: at % 2 === 0 ? 'even' : 'odd', 'a b&c': 'ü' },
    });
    ids.push(id);
  }
  const idsOf = async (query: OpenAI.ChatCompletionListParams): Promise<string[]> => {
    const all: string[] = [];
    for await (const { id } of client.chat.completions.list({ limit: 2, ...query })) all.push(id);
    return all;
  };
  t.same(await idsOf({}), ids);
  t.same(await idsOf({ order: 'desc' }), ids.toReversed());
  t.same(await idsOf({ model: 'hal-1.0' }), [ids[4]]);
  t.same(await idsOf({ metadata: { parity: 'odd', 'a b&c': 'ü' } }), [ids[1], ids[3]]);
  t.same(await idsOf({ metadata: { parity: 'none' } }), []);
  const page = await client.chat.completions.list({ after: ids[2]! });
  t.match({ ids: page.data.map(({ id }) => id), more: page.has_more }, { ids: ids.slice(3), more: false });
  await t.rejects(client.chat.completions.list({ after: 'x' }), {
    status: 404,
    code: 'chat_completion_not_found',
    param: 'after',
  });
  await t.rejects(client.chat.completions.list({ limit: 0 }), { status: 422, code: 'value_out_of_range' });
  await t.rejects(client.chat.completions.list({ order: 'up' as never }), {
    status: 422,
    code: 'invalid_value',
    param: 'order',
  });
  await t.rejects(client.chat.completions.messages.list(ids[0]!, { after: `${ids[0]}-1` }), {
    status: 404,
    code: 'item_not_found',
  });
  await t.rejects(client.chat.completions.update(ids[0]!, {} as never), {
    status: 400,
    code: 'missing_required_parameter',
    param: 'metadata',
  });
});

t.test("an organization cannot access another organization's completions", async (t) => {
  const { id } = await client.chat.completions.create({ ...base, messages: [user('A: x')] });
  const other = clientOf(await keyOf(path, 'second')).chat.completions;
  t.same((await other.list()).data, []);
  const calls: (() => Promise<unknown>)[] = [
    async () => other.retrieve(id),
    async () => other.messages.list(id),
    async () => other.delete(id),
    async () => other.update(id, { metadata: {} }),
  ];
  for (const call of calls) await t.rejects(call(), { status: 404, code: 'chat_completion_not_found' });
  t.ok(await client.chat.completions.retrieve(id));
});

t.test('the KV pages of a stored completion stay on disk until it is deleted', async (t) => {
  const { path: folder, remove: removeFolder } = dataFolder();
  t.teardown(removeFolder);
  const args = ['--threads', '1', '--kv-min-tokens', '64', '--kv-disk-bytes', '64MiB', '--kv-disk', 'stored'];
  const prompt = Array.from({ length: 60 }, (_, i) => `Fact ${i}: the number after ${i} is ${i + 1}.`).join(' ');
  let disk = await startMonolith({ args, env: { MONOLITH_DATA_DIR: folder } });
  const isReady = (): Promise<boolean> => eventually(() => disk.log().includes('KV pages on disk are available'));
  const pages = (): string[] => readdirSync(join(folder, 'kv-pages')).filter((name) => name.endsWith('.pages'));
  t.ok(await isReady());
  const completions = (): OpenAI.Chat.Completions =>
    new OpenAI({ baseURL: `${disk.url}/v1`, apiKey: disk.key, maxRetries: 0 }).chat.completions;
  const ask = (store: boolean): Promise<OpenAI.ChatCompletion> =>
    completions().create({ model: 'hal-1.0', max_tokens: 5, messages: [user(prompt)], store });
  const { id } = await ask(true);
  await disk.stop(); // writes the remaining pages
  t.not(pages().length, 0);
  disk = await startMonolith({ args, env: { MONOLITH_DATA_DIR: folder } });
  t.teardown(() => disk.stop());
  t.ok(await isReady());
  t.ok((await ask(false)).usage!.prompt_tokens_details!.cached_tokens! > 0);
  await completions().delete(id);
  t.ok(await eventually(() => pages().length === 0, 30_000));
});
