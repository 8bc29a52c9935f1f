// Tests the conversations API with the oldest and the newest supported version of OpenAI's client: conversations, their
// items, and responses that continue and extend a conversation.
import OpenAI from 'openai';
import OpenAI7 from 'openai-7';
import t from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { said, startScripted } from '../support/script-model.js';
import { Connection, resourceOf } from '../support/web-socket.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted();
t.teardown(() => server.stop());
const options = { baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 };
const client = new OpenAI(options);
const model = 'clarke-1.0';
const user = (content: string): OpenAI.Responses.ResponseInputItem => ({ role: 'user', content });
const reasoning = { effort: 'none' as const };

type Item = OpenAI.Conversations.ConversationItem;
async function itemsOf(id: string, order: 'asc' | 'desc' = 'asc'): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of client.conversations.items.list(id, { order, limit: 2 })) all.push(item);
  return all;
}
const textOf = (item: Item): string =>
  item.type === 'message' ? item.content.map((part) => ('text' in part ? part.text : '')).join('') : item.type;
const texts = async (id: string): Promise<string[]> => (await itemsOf(id)).map(textOf);

for (const [version, one] of [
  ['6', client],
  ['7', new OpenAI7(options) as unknown as OpenAI],
] as const)
  t.test(`client version ${version}: conversations and items are created, read, changed and deleted`, async (t) => {
    const created = await one.conversations.create({ items: [user('one'), user('two')], metadata: { a: '1' } });
    t.ok(publishedAnswers.Conversation.safeParse(created).success);
    t.match(created, { object: 'conversation', metadata: { a: '1' } });
    t.same(await one.conversations.retrieve(created.id), created);
    const changed = await one.conversations.update(created.id, { metadata: { b: '2' } });
    t.same(changed.metadata, { b: '2' });
    const added = await one.conversations.items.create(created.id, { items: [user('three')] });
    t.same(added.data.map(textOf), ['three']);
    t.same(await texts(created.id), ['one', 'two', 'three']);
    t.same((await itemsOf(created.id, 'desc')).map(textOf), ['three', 'two', 'one']);
    const [, second] = await itemsOf(created.id);
    const item = await one.conversations.items.retrieve(second!.id!, { conversation_id: created.id });
    t.equal(textOf(item), 'two');
    t.equal((await one.conversations.items.delete(second!.id!, { conversation_id: created.id })).id, created.id);
    t.same(await texts(created.id), ['one', 'three']);
    const deleted = await one.conversations.delete(created.id);
    t.same(deleted, { id: created.id, object: 'conversation.deleted', deleted: true });
    await t.rejects(one.conversations.retrieve(created.id), { status: 404, code: 'conversation_not_found' });
  });

t.test('fields without effect are listed in a header', async (t) => {
  const { data, response } = await client.conversations
    .create({ items: [{ ...user('x'), mood: 'good' } as never], title: 'x' } as never)
    .withResponse();
  t.equal(response.headers.get('x-ignored-parameters'), 'items.mood, title');
  t.equal((await itemsOf(data.id)).length, 1);
});

t.test('a conversation can be created without a body', async (t) => {
  const { id, metadata } = await client.conversations.create();
  t.same(metadata, {});
  t.same(await itemsOf(id), []);
});

t.test('responses continue and extend a conversation, streamed, in the background or neither', async (t) => {
  const { id: conversation } = await client.conversations.create();
  const first = await client.responses.create({ model, reasoning, conversation, input: 'A: capital of France?' });
  t.same(first.conversation, { id: conversation });
  t.equal(first.previous_response_id, null);
  t.equal(first.output_text, said('A').content);
  t.same(await texts(conversation), ['A: capital of France?', said('A').content]);

  const stream = client.responses.stream({ model, reasoning, conversation: { id: conversation }, input: 'A: again?' });
  const second = await stream.finalResponse();
  t.ok(
    second.usage!.input_tokens > first.usage!.input_tokens + 10,
    'the second prompt contains the first question and its answer',
  );
  t.equal((await itemsOf(conversation)).length, 4);

  // Long enough that the response is stored with status queued, and its input freed from memory, before it ends.
  const queued = await client.responses.create({
    model,
    reasoning,
    conversation,
    input: 'L: more?',
    max_output_tokens: 300,
    background: true,
  });
  t.ok(await eventually(async () => (await client.responses.retrieve(queued.id)).status === 'incomplete', 60_000));
  t.ok(await eventually(async () => (await itemsOf(conversation)).length === 6, 10_000));
  const { input_tokens: counted } = await client.responses.inputTokens.count({
    model,
    conversation,
    input: 'A: more?',
  });
  const last = await client.responses.create({ model, reasoning, conversation, input: 'A: more?' });
  t.equal(last.usage!.input_tokens, counted, 'counting includes the conversation');
});

t.test('a compaction trigger replaces the conversation by a summary', async (t) => {
  const { id: conversation } = await client.conversations.create({ items: [user('A: hello'), user('A: again')] });
  await client.responses.create({
    model,
    reasoning,
    conversation,
    input: [{ type: 'compaction_trigger' } as never],
  });
  t.same(
    (await itemsOf(conversation)).map(({ type }) => type),
    ['message', 'message', 'compaction'],
  );
  const { output_text } = await client.responses.create({ model, reasoning, conversation, input: 'A: x' });
  t.equal(output_text, said('A').content);
});

t.test('the model sees what remains after an item has been deleted', async (t) => {
  const { id: conversation } = await client.conversations.create({ items: [user('first'), user('second')] });
  const count = async (): Promise<number> =>
    (await client.responses.inputTokens.count({ model, conversation, input: 'x' })).input_tokens;
  const before = await count();
  const [first] = await itemsOf(conversation);
  await client.conversations.items.delete(first!.id!, { conversation_id: conversation });
  t.ok((await count()) < before);
});

t.test('a tool call and its result are added to a conversation', async (t) => {
  const { id: conversation } = await client.conversations.create();
  const tools: OpenAI.Responses.FunctionTool[] = [
    { type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} }, strict: false },
  ];
  const { output } = await client.responses.create({ model, reasoning, conversation, tools, input: 'W: weather?' });
  const call = output.find((item) => item.type === 'function_call')!;
  await t.rejects(client.responses.create({ model, reasoning, conversation, input: 'A: x' }), {
    status: 422,
    code: 'missing_tool_output',
    param: 'conversation',
  });
  await client.conversations.items.create(conversation, {
    items: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }],
  });
  const { output_text } = await client.responses.create({ model, reasoning, conversation, input: 'A: x' });
  t.equal(output_text, said('A').content);
});

t.test('over a WebSocket, responses continue and extend a conversation', async (t) => {
  const { id: conversation } = await client.conversations.create({ items: [user('A: hello')] });
  const connection = await Connection.open({ port: Number(new URL(server.url).port), key: server.key });
  t.teardown(() => connection.socket.close());
  const response = resourceOf(await connection.turn({ model, reasoning, conversation, input: 'A: x' }));
  t.match(response, { status: 'completed', conversation: { id: conversation } });
  t.same(await texts(conversation), ['A: hello', 'A: x', said('A').content]);
  t.match(await connection.turn({ model, reasoning, previous_response_id: response.id, input: 'A: x' }), [
    { type: 'error', status: 422, error: { code: 'response_not_usable' } },
  ]);
});

t.test('a failed or cancelled response adds nothing, and a deleted response stays in the conversation', async (t) => {
  const { id: conversation } = await client.conversations.create();
  await t.rejects(client.responses.create({ model, conversation, input: 'many words '.repeat(20_000) }), {
    code: 'context_length_exceeded',
  });
  const endless = await client.responses.create({ model, conversation, input: 'L: x', background: true });
  await client.responses.cancel(endless.id);
  t.same(await itemsOf(conversation), []);
  const { id } = await client.responses.create({ model, reasoning, conversation, input: 'A: x' });
  await client.responses.delete(id);
  t.equal((await itemsOf(conversation)).length, 2);
});

t.test('names what is wrong with a request', async (t) => {
  const { id: conversation } = await client.conversations.create();
  const { id: response } = await client.responses.create({ model, reasoning, conversation, input: 'A: x' });
  const { id: other } = await client.responses.create({ model, reasoning, input: 'A: x' });
  const create = (change: object): Promise<unknown> =>
    client.responses.create({ model, reasoning, input: 'A: x', ...change } as never);
  await t.rejects(create({ conversation: 'conv_1' }), { status: 404, code: 'conversation_not_found' });
  await t.rejects(create({ conversation: 1 }), { status: 400, code: 'invalid_type', param: 'conversation' });
  await t.rejects(create({ conversation: {} }), { status: 400, code: 'missing_required_parameter' });
  await t.rejects(create({ conversation, store: false }), {
    status: 422,
    code: 'conflicting_parameters',
    param: 'conversation',
  });
  await t.rejects(create({ conversation, previous_response_id: other }), {
    status: 422,
    code: 'conflicting_parameters',
  });
  await t.rejects(create({ previous_response_id: response }), {
    status: 422,
    code: 'response_not_usable',
    param: 'previous_response_id',
  });
  await t.rejects(create({ conversation, model: undefined }), {
    status: 400,
    code: 'missing_required_parameter',
    param: 'model',
  });
  const add = (items: unknown[]): Promise<unknown> =>
    client.conversations.items.create(conversation, { items } as never);
  await t.rejects(add([]), { status: 400, code: 'missing_required_parameter', param: 'items' });
  await t.rejects(add(Array.from({ length: 21 }, () => user('x'))), {
    status: 422,
    code: 'array_too_long',
    param: 'items',
  });
  await t.rejects(add([{ type: 'wish' }]), { status: 400, code: 'unknown_variant', param: 'items[0].type' });
  await t.rejects(add([user('x'), { type: 'item_reference', id: 'msg_1' }]), {
    status: 422,
    code: 'unsupported_content',
    param: 'items[1]',
  });
  await t.rejects(add([{ type: 'function_call_output', output: 'x' }]), {
    status: 400,
    code: 'missing_required_parameter',
    param: 'items[0].call_id',
  });
  await t.rejects(add([{ type: 'compaction', encrypted_content: 'x' }]), {
    status: 400,
    code: 'invalid_encrypted_content',
    param: 'items[0]',
  });
  await t.rejects(client.conversations.items.retrieve('msg_1', { conversation_id: conversation }), {
    status: 404,
    code: 'item_not_found',
  });
  await t.rejects(client.conversations.update(conversation, {} as never), {
    status: 400,
    code: 'missing_required_parameter',
    param: 'metadata',
  });
  t.same((await client.conversations.update(conversation, { metadata: null })).metadata, {});
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, 'v']));
  await t.rejects(client.conversations.create({ metadata: many }), {
    status: 422,
    code: 'too_many_entries',
    param: 'metadata',
  });
  t.equal((await itemsOf(conversation)).length, 2, 'refused items are not added');
});
