// Tests stored responses through the official client: they are retrieved, replayed as events, listed, continued,
// deleted and expired, and are never visible to another organization.
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import type { Organization } from '../../src/accounts/keys.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import type { Head } from '../../src/storage/lmdb/responses/response-tables.js';
import { message, record } from '../storage/records.js';
import { mismatch, openResponsesEvents } from '../support/open-api.js';
import { said, startScripted } from '../support/script-model.js';
import { ask, events, get } from '../support/wire.js';
import { dataFolder, inside, keyOf } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const data = dataFolder();
const server = await startScripted({ env: { MONOLITH_DATA_DIR: data.path } });
t.teardown(async () => {
  await server.stop();
  data.remove();
});
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const unknown = `resp_${'0'.repeat(48)}`;

const create = (body: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>) =>
  client.responses.create({ model: 'tycho-1.0', ...body } as OpenAI.Responses.ResponseCreateParamsNonStreaming);
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const weather = {
  type: 'function' as const,
  name: 'get_weather',
  parameters: { type: 'object', properties: { location: { type: 'string' } } },
  strict: false,
};
/** A response with one output item of each kind. */
const rich = () => create({ input: 'K: weather?', reasoning: { effort: 'medium' }, tools: [weather] });

t.test('a retrieved response equals the created one', async (t) => {
  const created = await rich();
  t.same(
    created.output.map(({ type }) => type),
    ['reasoning', 'message', 'function_call'],
  );
  t.same(plain(await client.responses.retrieve(created.id)), plain(created));
  t.equal(mismatch('openresponses', 'ResponseResource', (await get(server, `/v1/responses/${created.id}`)).body), null);
  for await (const event of await client.responses.create({ model: 'tycho-1.0', input: 'A: x', stream: true })) {
    if (event.type !== 'response.completed') continue;
    t.same(
      without(await client.responses.retrieve(event.response.id), 'output_text'),
      event.response,
      'a streamed response is stored by the time its last event arrives',
    );
  }
});

t.test('`include` returns encrypted reasoning, whichever of three spellings the query uses', async (t) => {
  const { id } = await rich();
  const reasoning = (body: unknown) => (body as { output: { encrypted_content?: string }[] }).output[0]!;
  const sealed = await client.responses.retrieve(id, { include: ['reasoning.encrypted_content'] });
  t.match(reasoning(sealed).encrypted_content, /^enc[12]\./);
  for (const query of [
    'include[]=reasoning.encrypted_content',
    'include=message.output_text.logprobs&include=reasoning.encrypted_content',
    'include=web_search_call.results,reasoning.encrypted_content',
  ]) {
    t.ok(reasoning((await get(server, `/v1/responses/${id}?${query}`)).body).encrypted_content, query);
  }
  t.equal(reasoning((await get(server, `/v1/responses/${id}`)).body).encrypted_content, undefined);
  const again = await create({
    input: [
      ...sealed.output,
      { type: 'function_call_output', call_id: callId(sealed), output: 'T: 14 C' },
    ] as OpenAI.Responses.ResponseInput,
    tools: [weather],
  });
  t.equal(again.output_text, said('T').content, 'the encrypted reasoning is accepted as input');
});

t.test('a stored response can be replayed as events', async (t) => {
  const created = await rich();
  const replayed = [];
  for await (const event of await client.responses.retrieve(created.id, { stream: true })) replayed.push(event);
  t.same(
    replayed.map(({ sequence_number }) => sequence_number),
    replayed.map((_, index) => index),
  );
  const last = replayed.at(-1)!;
  t.equal(last.type, 'response.completed');
  t.same(last.type === 'response.completed' && last.response, without(created, 'output_text'));
  t.ok(
    replayed.some(({ type }) => type === 'response.reasoning_text.delta'),
    'the OpenAI client gets the OpenAI event names',
  );
  const final = await client.responses.stream({ response_id: created.id }).finalResponse();
  t.equal(final.output_text, said('K').content, 'the stream helper of the client accepts every event');
  const rest = [];
  for await (const event of await client.responses.retrieve(created.id, { stream: true, starting_after: 4 }))
    rest.push(event);
  t.same(rest, replayed.slice(5));

  const published = openResponsesEvents();
  for (const id of [created.id, (await create({ input: 'L: go on', max_output_tokens: 9 })).id]) {
    const response = await fetch(`${server.url}/v1/responses/${id}?stream=true`, {
      headers: { authorization: `Bearer ${server.key}` },
    });
    const all = await events(response);
    t.equal(all.at(-1)?.data, '[DONE]');
    for (const { event, data: text } of all.slice(0, -1)) {
      const value = JSON.parse(text) as { type: string };
      t.equal(value.type, event);
      t.equal(
        mismatch('openresponses', published.get(value.type) ?? `no schema for event ${value.type}`, value),
        null,
        value.type,
      );
    }
    t.equal(all.at(-2)?.event, id === created.id ? 'response.completed' : 'response.incomplete');
  }
});

t.test('input items of a chain are listed in pages', async (t) => {
  const first = await create({
    input: [
      { role: 'user', content: 'A: one' },
      { role: 'assistant', content: 'two' },
      { role: 'user', content: 'A: three' },
    ],
  });
  const second = await create({ previous_response_id: first.id, input: 'S: four', instructions: 'not an item' });
  const expected = ['A: one', 'two', 'A: three', said('A').content, 'S: four'];
  const list = async (query: OpenAI.Responses.InputItemListParams) => {
    const texts: string[] = [];
    for await (const item of client.responses.inputItems.list(second.id, query))
      texts.push(item.type === 'message' ? (item.content[0] as { text: string }).text : item.type);
    return texts;
  };
  for (const limit of [1, 2, 5, 100]) {
    t.same(await list({ limit, order: 'asc' }), expected, `pages of ${limit}`);
    t.same(await list({ limit }), expected.toReversed());
  }
  const { body } = await get(server, `/v1/responses/${second.id}/input_items?limit=2&order=asc`);
  const page = body as { data: { id: string }[]; first_id: string; last_id: string; has_more: boolean };
  t.match(page, { object: 'list', first_id: page.data[0]!.id, last_id: page.data[1]!.id, has_more: true });
  const last = await get(server, `/v1/responses/${second.id}/input_items?order=asc&after=${page.data[1]!.id}`);
  t.match(last.body, { has_more: false, data: [{}, {}, {}] });
  const beyond = await get(server, `/v1/responses/${second.id}/input_items?after=${page.data[0]!.id}`);
  t.same(beyond.body, { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
  const referenced = await create({ input: [{ type: 'item_reference', id: page.data[0]!.id }] });
  t.equal(referenced.output_text, said('A').content);
});

t.test('items that a client sends again are listed only once', async (t) => {
  const first = await create({
    input: [
      { role: 'user', content: 'A: one' },
      { role: 'user', content: 'A: two' },
    ],
  });
  const [item] = first.output as [OpenAI.Responses.ResponseOutputMessage];
  const second = await create({
    previous_response_id: first.id,
    input: [
      ...(first.output as OpenAI.Responses.ResponseInput),
      { role: 'user', content: 'S: three' },
      { type: 'item_reference', id: item.id },
    ],
  });
  const third = await create({
    previous_response_id: second.id,
    input: [
      { type: 'item_reference', id: item.id },
      { role: 'user', content: 'A: four', id: 'msg_mine', type: 'message' } as never,
      { role: 'user', content: 'A: four', id: 'msg_mine', type: 'message' } as never,
    ],
  });
  const expected = ['A: one', 'A: two', said('A').content, 'S: three', said('S').content, 'A: four'];
  for (const limit of [1, 2, 3, 100]) {
    for (const order of ['asc', 'desc'] as const) {
      const texts: string[] = [];
      for await (const listed of client.responses.inputItems.list(third.id, { limit, order })) {
        texts.push(((listed as OpenAI.Responses.ResponseOutputMessage).content[0] as { text: string }).text);
        if (texts.length > 2 * expected.length) break;
      }
      t.same(texts, order === 'asc' ? expected : expected.toReversed(), `${order}, pages of ${limit}`);
    }
  }
});

t.test('items of a chain can be referenced even after their response is deleted', async (t) => {
  const root = await rich();
  const [reasoning, message, call] = root.output as [
    OpenAI.Responses.ResponseReasoningItem,
    OpenAI.Responses.ResponseOutputMessage,
    OpenAI.Responses.ResponseFunctionToolCall,
  ];
  const child = await create({
    previous_response_id: root.id,
    input: [{ type: 'function_call_output', call_id: call.call_id, output: 'T: 14 C' }],
  });
  await client.responses.delete(root.id);
  const next = await create({
    previous_response_id: child.id,
    input: [
      { type: 'item_reference', id: message.id },
      { role: 'user', content: 'A: x' },
    ],
  });
  t.equal(next.output_text, said('A').content);
  // The reasoning in a running tool loop is part of the prompt, regardless of how it is passed, so the token count must
  // be the same.
  const loop = (item: object) =>
    client.responses.inputTokens.count({
      model: 'tycho-1.0',
      previous_response_id: child.id,
      input: [
        item,
        { ...call, call_id: 'call_2', id: 'fc_2' },
        { type: 'function_call_output', call_id: 'call_2', output: 'T: 14 C' },
      ] as OpenAI.Responses.ResponseInput,
    });
  const bare = await loop({ type: 'reasoning', id: 'rs_unknown', summary: [] });
  const byId = await loop({ type: 'reasoning', id: reasoning.id, summary: [] });
  const whole = await loop({ ...reasoning, id: 'rs_another' });
  t.equal(byId.input_tokens, whole.input_tokens);
  t.ok(whole.input_tokens > bare.input_tokens);
  t.equal((await loop({ type: 'item_reference', id: reasoning.id })).input_tokens, whole.input_tokens);
  await t.rejects(
    create({ input: [{ type: 'item_reference', id: call.id! }] }),
    { status: 404, code: 'item_not_found' },
    'an item can be referenced only in its own chain',
  );
});

t.test('metadata is returned as sent, with any key, and its limits count characters', async (t) => {
  const body = (metadata: string, endpoint: 'responses' | 'chat/completions') =>
    ask(
      server,
      `/v1/${endpoint}`,
      `{"model":"tycho-1.0",${endpoint === 'responses' ? '"input":"A: x"' : '"messages":[{"role":"user","content":"A: x"}]'},"metadata":${metadata}}`,
    );
  const wide = '😀';
  const kept = `{"__proto__":"x","constructor":"y","${wide.repeat(64)}":"${wide.repeat(512)}"}`;
  for (const endpoint of ['responses', 'chat/completions'] as const) {
    const { status, body: created } = await body(kept, endpoint);
    t.equal(status, 200);
    t.equal(JSON.stringify((created as { metadata: object }).metadata), kept, endpoint);
    if (endpoint === 'responses')
      t.equal(
        JSON.stringify(
          ((await get(server, `/v1/responses/${(created as { id: string }).id}`)).body as { metadata: object })
            .metadata,
        ),
        kept,
        'the stored response returns the same metadata',
      );
    const refused: [metadata: string, status: number, code: string, param: string][] = [
      [`{"a":"${wide.repeat(513)}"}`, 422, 'string_too_long', 'metadata.a'],
      [`{"a":"${'x'.repeat(513)}"}`, 422, 'string_too_long', 'metadata.a'],
      [`{"${wide.repeat(65)}":"x"}`, 422, 'string_too_long', 'metadata'],
      ['{"__proto__":1}', 400, 'invalid_type', 'metadata.__proto__'],
      ['{"a":null}', 400, 'missing_required_parameter', 'metadata.a'],
      ['[]', 400, 'invalid_type', 'metadata'],
      ['"x"', 400, 'invalid_type', 'metadata'],
    ];
    for (const [metadata, expected, code, param] of refused)
      t.match(
        await body(metadata, endpoint),
        { status: expected, body: { error: { code, param } } },
        `${endpoint} ${metadata.slice(0, 20)}`,
      );
  }
  const message = (user: string) =>
    ask(server, '/v1/messages', {
      model: 'tycho-1.0',
      max_tokens: 50,
      messages: [{ role: 'user', content: 'A: x' }],
      metadata: { user_id: user },
    });
  t.match(await message(wide.repeat(512)), { status: 200 });
  t.match(await message(wide.repeat(513)), {
    status: 422,
    body: { error: { message: /metadata\.user_id may have at most 512 characters/ } },
  });
});

t.test('an item id with a lone surrogate is refused', async (t) => {
  const half = '\\ud83d';
  const cases: [input: string, param: string][] = [
    [`{"type":"message","id":"a${half}","role":"user","content":"A: x"}`, 'input[0].id'],
    [`{"type":"item_reference","id":"a${half}"}`, 'input[0].id'],
    [`{"type":"function_call","call_id":"a${half}","name":"f","arguments":"{}"}`, 'input[0].call_id'],
  ];
  for (const [input, param] of cases)
    t.match(
      await ask(server, '/v1/responses', `{"model":"tycho-1.0","input":[${input}]}`),
      { status: 422, body: { error: { code: 'invalid_value', param } } },
      param,
    );
});

t.test('cancelling a completed response changes nothing', async (t) => {
  const { id } = await create({ input: 'A: x' });
  t.equal((await client.responses.cancel(id)).status, 'completed');
  const { body } = await get(server, `/v1/responses/${id}`);
  for (const sent of ['{}', '{"a":1}']) t.same((await ask(server, `/v1/responses/${id}/cancel`, sent)).body, body);
  t.match(await ask(server, `/v1/responses/${id}/cancel`, '{'), {
    status: 400,
    body: { error: { code: 'invalid_json' } },
  });
});

t.test('a running foreground response cannot be cancelled', async (t) => {
  const other = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: await keyOf(data.path, 'second'), maxRetries: 0 });
  const stream = await client.responses.create({ model: 'tycho-1.0', input: 'L: go on', stream: true });
  for await (const event of stream) {
    if (event.type !== 'response.created') continue;
    await t.rejects(client.responses.cancel(event.response.id), {
      status: 422,
      code: 'response_not_cancellable',
      param: 'response_id',
    });
    await t.rejects(other.responses.cancel(event.response.id), { status: 404, code: 'response_not_found' });
    await t.rejects(client.responses.retrieve(event.response.id), { status: 404, code: 'response_not_found' });
    break;
  }
});

t.test('input images are returned when included, from the stored bytes', async (t) => {
  // No model on this server has a vision encoder, so the test itself stores the response that a vision model would have
  // produced.
  const bytes = new Uint8Array([137, 80, 78, 71]);
  const image_url = `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`;
  const saved = record({
    createdAt: Math.floor(Date.now() / 1000),
    input: [
      message(
        'user',
        [
          { type: 'input_image', image_url, detail: 'low' },
          { type: 'input_image', image_url: 'https://images.example.com/a.png' },
          { type: 'input_image', image_url: 'data:image/png,%89PNG' },
        ],
        [bytes, bytes, bytes],
      ),
    ],
  });
  await inside(data.path, async (store) => {
    const [organization] = [...store.table<Organization>('organizations').range()].filter(
      ({ value }) => value.tenant === 1,
    );
    const responses = openResponseStore(store, { retention_days: 30 });
    await responses.save({ ...saved, organizationId: organization!.value.id });
    await responses.close();
  });
  const next = await create({ previous_response_id: saved.id, model: undefined as never, input: 'A: x' }).catch(
    (error: unknown) => error,
  );
  t.match(next, { code: 'model_not_vision' }, 'the stored images are part of the chain');
  const parts = async (query: string) =>
    ((await get(server, `/v1/responses/${saved.id}/input_items?${query}`)).body as { data: { content: object[] }[] })
      .data[0]!.content;
  t.same(await parts(''), [
    { type: 'input_image', image_url: null, detail: 'low' },
    { type: 'input_image', image_url: null, detail: 'auto' },
    { type: 'input_image', image_url: null, detail: 'auto' },
  ]);
  t.same(await parts('include[]=message.input_image.image_url'), [
    { type: 'input_image', image_url, detail: 'low' },
    { type: 'input_image', image_url: 'https://images.example.com/a.png', detail: 'auto' },
    { type: 'input_image', image_url, detail: 'auto' }, // re-encoded as base64, whatever the original encoding was
  ]);
});

t.test('a deleted response is not found', async (t) => {
  const root = await create({ input: 'A: x' });
  const child = await create({ previous_response_id: root.id, input: 'S: y' });
  t.match(await get(server, `/v1/responses/${root.id}`, {}, 'DELETE'), {
    status: 200,
    body: { id: root.id, object: 'response', deleted: true },
  });
  await gone(t, client, root.id);
  t.equal(
    (await create({ previous_response_id: child.id, input: 'A: z' })).status,
    'completed',
    'a deleted response remains as context of its descendants',
  );
  await client.responses.delete(child.id);
  await gone(t, client, child.id);
});

t.test('unstored and unknown responses are not found', async (t) => {
  await gone(t, client, (await create({ input: 'A: x', store: false })).id);
  await gone(t, client, unknown);
  await gone(t, client, 'nothing');
});

t.test('another organization cannot find, reference or delete a response', async (t) => {
  const mine = await rich();
  const other = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: await keyOf(data.path, 'second'), maxRetries: 0 });
  await gone(t, other, mine.id);
  const [reasoningId, messageId] = ['reasoning', 'message'].map(
    (type) => mine.output.find((item) => item.type === type)!.id!,
  ) as [string, string];
  await t.rejects(other.responses.create({ model: 'tycho-1.0', input: [{ type: 'item_reference', id: messageId }] }), {
    status: 404,
    code: 'item_not_found',
  });
  const { response } = await other.responses
    .create({
      model: 'tycho-1.0',
      input: [
        { type: 'item_reference', id: reasoningId },
        { role: 'user', content: 'A: x' },
      ],
    })
    .withResponse();
  t.equal(
    response.headers.get('x-ignored-content'),
    'input[0]',
    'its reasoning is left out like any unknown reasoning',
  );
  t.ok(await client.responses.retrieve(mine.id), 'the other organization deleted nothing');
  const theirs = await other.responses.create({ model: 'tycho-1.0', input: 'A: x' });
  await gone(t, client, theirs.id);
  t.ok(await other.responses.retrieve(theirs.id));
});

t.test('each endpoint of stored responses requires its key scope', async (t) => {
  const { id } = await create({ input: 'A: x' });
  const denied = { status: 403, code: 'endpoint_not_allowed' };
  const only = async (scope: 'inference' | 'responses.read' | 'responses.delete') =>
    new OpenAI({
      baseURL: `${server.url}/v1`,
      apiKey: await keyOf(data.path, 'first', { scopes: [scope] }),
      maxRetries: 0,
    }).responses;
  const [inference, read, remove] = [
    await only('inference'),
    await only('responses.read'),
    await only('responses.delete'),
  ];
  const forbidden = [
    () => inference.retrieve(id),
    () => inference.inputItems.list(id),
    () => inference.delete(id),
    () => remove.retrieve(id),
    () => read.delete(id),
    () => read.cancel(id),
  ];
  for (const call of forbidden)
    await t.rejects(async () => {
      await call();
    }, denied);
  t.equal((await read.retrieve(id)).id, id);
  t.equal((await read.inputItems.list(id)).data.length, 1);
  t.equal((await inference.cancel(id)).id, id);
  await remove.delete(id);
});

t.test('invalid query parameters are refused', async (t) => {
  const { id } = await create({ input: 'A: x' });
  const cases: [path: string, status: number, code: string, param: string][] = [
    [`/${id}?stream=maybe`, 400, 'invalid_query_parameter', 'stream'],
    [`/${id}?stream=true&starting_after=x`, 400, 'invalid_query_parameter', 'starting_after'],
    [`/${id}?stream=true&starting_after=-1`, 400, 'invalid_query_parameter', 'starting_after'],
    [`/${unknown}?stream=maybe`, 400, 'invalid_query_parameter', 'stream'],
    [`/${id}?include[]=everything`, 422, 'invalid_value', 'include[0]'],
    [`/${unknown}?include[]=everything`, 404, 'response_not_found', 'response_id'],
    [`/${id}/input_items?limit=0`, 422, 'value_out_of_range', 'limit'],
    [`/${id}/input_items?limit=101`, 422, 'value_out_of_range', 'limit'],
    [`/${id}/input_items?limit=few`, 400, 'invalid_query_parameter', 'limit'],
    [`/${id}/input_items?order=up`, 422, 'invalid_value', 'order'],
    [`/${id}/input_items?after=msg_unknown`, 404, 'item_not_found', 'after'],
    [`/${unknown}/input_items?limit=0`, 404, 'response_not_found', 'response_id'],
  ];
  for (const [path, status, code, param] of cases)
    t.match(await get(server, `/v1/responses${path}`), { status, body: { error: { code, param } } }, path);
  t.match(await get(server, `/v1/responses/${id}?made_up=1&include=`), { status: 200 });
  for (const query of ['', '?stream=true']) {
    t.match(await get(server, `/v1/responses/${id}${query}`, {}, 'HEAD'), { status: 200, text: '' });
    t.match(await get(server, `/v1/responses/${id}`), { status: 200 }, 'the connection still works after HEAD');
  }
});

t.test('a response expires after thirty days, and newer responses keep it as context', async (t) => {
  const root = await create({ input: 'A: x' });
  const child = await create({ previous_response_id: root.id, input: 'S: y' });
  await age(root.id, 30 * 86_400 - 60);
  t.ok(await client.responses.retrieve(root.id));
  await age(root.id, 61);
  await gone(t, client, root.id);
  const next = await create({ previous_response_id: child.id, input: 'A: z' });
  t.equal(
    (await client.responses.inputItems.list(next.id, { limit: 100 })).data.length,
    5,
    'the newer response still has its context',
  );
});

async function gone(t: Test, by: OpenAI, id: string): Promise<void> {
  const missing = { status: 404, code: 'response_not_found', param: 'response_id' };
  await t.rejects(by.responses.retrieve(id), missing);
  await t.rejects(by.responses.retrieve(id, { stream: true }), missing);
  await t.rejects(Promise.resolve(by.responses.inputItems.list(id)), missing);
  await t.rejects(by.responses.cancel(id), missing);
  await t.rejects(by.responses.delete(id), missing);
  await t.rejects(by.responses.create({ model: 'tycho-1.0', previous_response_id: id, input: 'A: x' }), {
    status: 404,
    code: 'previous_response_not_found',
    param: 'previous_response_id',
  });
}

/** Moves a creation time into the past in the server's database. */
function age(id: string, seconds: number): Promise<void> {
  return inside(data.path, async (store) => {
    const heads = store.table<Head>('responses');
    const head = heads.get(id)!;
    await heads.put(id, { ...head, createdAt: head.createdAt - seconds });
  });
}

function callId({ output }: OpenAI.Responses.Response): string {
  const call = output.find((item) => item.type === 'function_call');
  if (call === undefined) throw new Error('the response has no function call');
  return call.call_id;
}

/** Removes a field that the client adds. */
function without(response: OpenAI.Responses.Response, added: 'output_text'): object {
  const { [added]: _, ...rest } = response;
  return rest;
}
