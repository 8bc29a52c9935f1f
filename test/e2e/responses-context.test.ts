// Tests `context_management` of the Responses API with the official client against a real server. The scripted model
// has one token per byte, so text lengths equal token counts.
import OpenAI from 'openai';
import t from 'tap';
import { mismatch } from '../support/open-api.js';
import { said, startScripted } from '../support/script-model.js';
import { Connection, resourceOf } from '../support/web-socket.js';
import { eventually } from './monolith.js';

type Input = OpenAI.Responses.ResponseInputItem[];
type Create = OpenAI.Responses.ResponseCreateParamsNonStreaming;

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({
  context: 16_384,
  env: { MONOLITH_MODELS: JSON.stringify({ 'clarke-1.0': { image_input: 'note' } }) },
});
t.teardown(() => server.stop());
const client = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
const model = 'hal-1.0';
const summary = said('A').content;

const compaction = [{ type: 'compaction', compact_threshold: 1_000 }];
const user = (content: string) => ({ role: 'user' as const, content });
const assistant = (content: string) => ({ role: 'assistant' as const, content });
const story: Input = [
  user(`A: once ${'upon '.repeat(150)}`),
  assistant(`a time ${'there '.repeat(150)}`),
  user('A: and then?'),
];
/** The message that replaces the conversation. */
const replaced = user(
  `Summary of the conversation so far: ${summary}\n\nThe user's last message, in full:\nA: and then?`,
);
const create = (body: Partial<Create>) =>
  client.responses.create({ model, reasoning: { effort: 'none' }, ...body } as Create);
const count = async (body: object) =>
  (await client.responses.inputTokens.count({ model, reasoning: { effort: 'none' }, ...body })).input_tokens;
const typesOf = ({ output }: OpenAI.Responses.Response) => output.map(({ type }) => type);

t.test('a conversation above the threshold is compacted into an item at the start of the output', async (t) => {
  const answer = await create({ input: story, context_management: compaction, store: false });
  t.same(typesOf(answer), ['compaction', 'message']);
  t.equal(answer.output_text, summary);
  t.equal(answer.status, 'completed');
  const [item] = answer.output;
  t.match(item, { id: /^cmp_[0-9a-f]{48}$/, type: 'compaction', encrypted_content: /^enc1\./ });
  t.equal(mismatch('openai', 'Response', answer), null);
  t.equal(mismatch('openresponses', 'ResponseResource', answer), null);
  const prompt = await count({ input: [replaced] });
  t.ok(
    (answer.usage?.input_tokens ?? 0) > prompt + (await count({ input: story.slice(0, 2) })),
    'the usage includes the tokens of the summary',
  );

  const more = user('A: more');
  const after = await count({ input: [replaced, assistant(summary), more] });
  const output = answer.output as Input;
  t.equal(await count({ input: [...story, ...output, more] }), after, 'items before the compaction are dropped');
  t.equal(await count({ input: [...output, more] }), after);
  const rules = { role: 'developer' as const, content: 'Be kind.' };
  t.equal(
    await count({ input: [rules, ...story, ...output, more] }),
    await count({ input: [rules, replaced, assistant(summary), more] }),
    'developer messages are kept',
  );
  const next = await create({ input: [...story, ...output, more], context_management: compaction, store: false });
  t.same(typesOf(next), ['message'], 'the compacted conversation is below the threshold');
  t.equal(next.usage?.input_tokens, after);
});

t.test('the threshold is a number of input tokens, and the context window is a threshold too', async (t) => {
  const tokens = await count({ input: story });
  const at = (compact_threshold: number | null) => [{ type: 'compaction', compact_threshold }];
  t.same(typesOf(await create({ input: story, context_management: at(tokens + 1) })), ['message']);
  t.same(typesOf(await create({ input: story, context_management: at(tokens) })), ['compaction', 'message']);
  t.same(typesOf(await create({ input: story, context_management: at(null) })), ['message']);
  const long: Input = Array.from({ length: 40 }, (_, index) =>
    (index % 2 === 0 ? user : assistant)('word '.repeat(100)),
  );
  const answer = await create({ input: [...long, user('A: hi')], context_management: at(null) });
  t.same(typesOf(answer), ['compaction', 'message']);
  const both = await create({ input: [...long, user('A: hi')], context_management: at(null), truncation: 'auto' });
  t.same(typesOf(both), ['compaction', 'message'], 'compaction takes precedence over truncation');
  t.same(typesOf(await create({ input: [...long, user('A: hi')], truncation: 'auto' })), ['message']);
});

t.test('streamed and replayed, the item has its own events', async (t) => {
  const stream = client.responses.stream({
    model,
    input: story,
    reasoning: { effort: 'none' },
    ...({ context_management: compaction } as object),
  });
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  const final = await stream.finalResponse();
  const [, , added, done, next] = events;
  t.match(added, { type: 'response.output_item.added', output_index: 0, item: final.output[0] });
  t.match(done, { type: 'response.output_item.done', output_index: 0, item: final.output[0] });
  t.match(next, { type: 'response.output_item.added', output_index: 1, item: { type: 'message' } });
  for (const event of events) {
    const { parsed: _, ...sent } = event as typeof event & { parsed?: unknown };
    t.equal(mismatch('openai', 'ResponseStreamEvent', sent), null, event.type);
  }
  t.same(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, index) => index),
  );
  t.same(typesOf(final), ['compaction', 'message']);
  const replayed: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of await client.responses.retrieve(final.id, { stream: true })) replayed.push(event);
  t.same(replayed.slice(2, 4), [added, done]);
  t.same((await client.responses.retrieve(final.id)).output[0], final.output[0]);
});

t.test('a stored chain starts from its latest compaction', async (t) => {
  const first = await create({ input: story.slice(0, 1) });
  const second = await create({
    previous_response_id: first.id,
    input: `A: ${'and so on '.repeat(100)}`,
    context_management: compaction,
  });
  t.same(typesOf(second), ['compaction', 'message']);
  const before = await count({ previous_response_id: second.id, input: 'A: third' });
  t.ok(before < 1_000 + 400);
  const third = await create({ previous_response_id: second.id, input: 'A: third' });
  t.equal(third.usage?.input_tokens, before);
  const items = await client.responses.inputItems.list(third.id, { order: 'asc' });
  t.same(
    items.data.map(({ type }) => type),
    ['message', 'message', 'message', 'compaction', 'message', 'message'],
    'the stored history is complete',
  );

  const compacted = await client.responses.compact({ model, previous_response_id: third.id });
  t.same(
    compacted.output.map((item) => ('content' in item ? (item.content as { text: string }[])[0]?.text : item.type)),
    ['A: third', 'compaction'],
    'POST /responses/compact starts from it too',
  );
  const fourth = await create({
    previous_response_id: third.id,
    input: `A: ${'fourth '.repeat(150)}`,
    context_management: compaction,
  });
  t.same(typesOf(fourth), ['compaction', 'message'], 'a compacted chain can be compacted again');
});

t.test('compaction in a tool loop, over a WebSocket and in the background', async (t) => {
  const tools = [{ type: 'function' as const, name: 'get_weather', parameters: {}, strict: false }];
  const loop: Input = [
    user('A: weather?'),
    { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_1', output: `C: ${'sun '.repeat(400)}` },
  ];
  const called = await create({ input: loop, tools, context_management: compaction });
  t.same(typesOf(called), ['compaction', 'message']);
  const answered = await create({ input: [...loop, ...(called.output as Input), user('A: more')], tools });
  t.equal(answered.status, 'completed');

  const connection = await Connection.open(server);
  const first = resourceOf(
    await connection.turn({
      store: false,
      input: story,
      reasoning: { effort: 'none' },
      context_management: compaction,
    }),
  ) as unknown as OpenAI.Responses.Response;
  t.same(typesOf(first), ['compaction', 'message']);
  const next = resourceOf(
    await connection.turn({
      store: false,
      previous_response_id: first.id,
      input: 'A: more',
      reasoning: { effort: 'none' },
    }),
  ) as unknown as OpenAI.Responses.Response;
  t.equal(next.usage?.input_tokens, await count({ input: [replaced, assistant(summary), user('A: more')] }));
  await connection.close();

  const { id } = await create({ input: story, context_management: compaction, background: true });
  t.ok(await eventually(async () => (await client.responses.retrieve(id)).status === 'completed'));
  t.same(typesOf(await client.responses.retrieve(id)), ['compaction', 'message']);
});

t.test('a compaction_trigger compacts the conversation instead of continuing it', async (t) => {
  const trigger = { type: 'compaction_trigger' } as unknown as Input[number];
  const short: Input = [user('A: hi'), assistant('hello')];
  const answer = await create({ input: [...short, trigger], store: false, max_output_tokens: 1 });
  t.same(typesOf(answer), ['compaction'], 'a conversation of any length, whatever the limit of the answer');
  t.equal(answer.status, 'completed');
  t.equal(mismatch('openai', 'Response', answer), null);
  const [item] = answer.output as Input;
  const told = user(`Summary of the conversation so far: ${summary}`);
  t.equal(answer.usage?.output_tokens, (await create({ input: 'A: hi' })).usage?.output_tokens, 'the summary counts');
  t.ok((answer.usage?.input_tokens ?? 0) > (await count({ input: [told] })), 'and its prompt is input');
  const kept = await count({ input: [...short, user('A: more')] });
  t.ok(
    (await count({ input: [...short, item as Input[number], user('A: more')] })) > kept,
    'messages that the client sends before the item stay in the prompt',
  );

  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  const first = await create({ input: story });
  const stream = await client.responses.create({
    model,
    previous_response_id: first.id,
    input: [trigger],
    reasoning: { effort: 'none' },
    tools: [{ type: 'function', name: 'get_weather', parameters: {}, strict: false }],
    tool_choice: 'required',
    stream: true,
  });
  for await (const event of stream) events.push(event);
  t.same(
    events.map(({ type }) => type.replace('response.', '')),
    ['created', 'in_progress', 'output_item.added', 'output_item.done', 'completed'],
  );
  for (const event of events) t.equal(mismatch('openai', 'ResponseStreamEvent', event), null, event.type);
  const { id } = resourceOf(events as never) as { id: string };
  t.same(typesOf(await client.responses.retrieve(id)), ['compaction']);
  t.equal(
    await count({ previous_response_id: id, input: 'A: more' }),
    await count({ input: [told, user('A: more')] }),
    'in a chain, the summary replaces all items before it',
  );
  const { data } = await client.responses.inputItems.list(id, { order: 'asc' });
  t.same(
    data.map(({ type }) => type),
    ['message', 'message', 'message', 'message'],
    'the trigger is not stored',
  );

  const { id: detached } = await create({ previous_response_id: first.id, input: [trigger], background: true });
  t.ok(await eventually(async () => (await client.responses.retrieve(detached)).status === 'completed'));
  t.same(typesOf(await client.responses.retrieve(detached)), ['compaction']);
  const connection = await Connection.open(server);
  const turn = { store: false, reasoning: { effort: 'none' } };
  const said1 = resourceOf(await connection.turn({ ...turn, input: story })) as { id: string };
  const done = resourceOf(await connection.turn({ ...turn, previous_response_id: said1.id, input: [trigger] }));
  const next = resourceOf(
    await connection.turn({ ...turn, previous_response_id: (done as { id: string }).id, input: 'A: more' }),
  ) as unknown as OpenAI.Responses.Response;
  t.equal(next.usage?.input_tokens, await count({ input: [told, user('A: more')] }));
  await connection.close();
});

t.test('while the summary is written, the stream is kept alive', async (t) => {
  const slow = await startScripted({
    env: { MONOLITH_HTTP_KEEPALIVE_MS: '100', MONOLITH_ENGINE_MAX_BATCH_TOKENS: '1' },
  });
  t.teardown(() => slow.stop());
  const response = await fetch(`${slow.url}/v1/responses`, {
    method: 'POST',
    body: JSON.stringify({ model, input: story, context_management: compaction, stream: true }),
    headers: { authorization: `Bearer ${slow.key}`, 'content-type': 'application/json' },
  });
  const text = await response.text();
  t.match(text, /^:/, 'the first line is a comment');
  t.match(text, 'response.completed');
});

t.test('images of a compacted request are stored with it', async (t) => {
  const image_url =
    'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const answer = await create({
    model: 'clarke-1.0',
    input: [{ role: 'user', content: [{ type: 'input_image', image_url, detail: 'auto' }] }, ...story],
    context_management: compaction,
  });
  t.same(typesOf(answer), ['compaction', 'message']);
  const [first] = (
    await client.responses.inputItems.list(answer.id, { order: 'asc', include: ['message.input_image.image_url'] })
  ).data;
  t.match(first, { content: [{ type: 'input_image', image_url }] });
});

t.test('invalid values are refused with the name of the field', async (t) => {
  const cases: [sent: unknown, status: number, code: string, param: string][] = [
    ['auto', 400, 'invalid_type', 'context_management'],
    [[{}], 400, 'missing_required_parameter', 'context_management[0].type'],
    [[{ type: 'summary' }], 400, 'unknown_variant', 'context_management[0].type'],
    [
      [{ type: 'compaction', compact_threshold: 999 }],
      422,
      'value_out_of_range',
      'context_management[0].compact_threshold',
    ],
    [
      [{ type: 'compaction', compact_threshold: '1000' }],
      400,
      'invalid_type',
      'context_management[0].compact_threshold',
    ],
    [[...compaction, ...compaction], 422, 'array_too_long', 'context_management'],
  ];
  for (const [context_management, status, code, param] of cases) {
    const error = await create({ input: 'A: hi', ...({ context_management } as object) }).catch(
      (thrown: unknown) => thrown,
    );
    t.match(error, { status, code, param }, JSON.stringify(context_management));
  }
  for (const context_management of [null, []])
    t.equal((await create({ input: 'A: hi', context_management })).status, 'completed');
});
