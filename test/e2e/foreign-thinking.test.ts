// Tests conversations that started on another service, on a real server with a scripted model: every later turn works
// without the other service's reasoning, and the response lists the parts that were left out.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { Connection, type WireEvent } from '../support/web-socket.js';
import { eventually, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const BETA = 'thinking-binding-controls-2026-08-01';
const data = mkdtempSync(join(tmpdir(), 'monolith-foreign-'));
t.teardown(() => rmSync(data, { recursive: true, force: true }));
const start = (key: string, ...args: string[]): Promise<Monolith> =>
  startScripted({
    models: ['hal-1.0', 'clarke-1.0'],
    args: ['--secrets-signing-keys', key.length === 2 ? key.repeat(32) : key, ...args],
    env: { MONOLITH_DATA_DIR: data },
  });

type Body = Record<string, unknown>;
interface Answer {
  status: number;
  ignored: string | null;
  body: Body & {
    usage?: { input_tokens: number; cache_read_input_tokens?: number };
    error?: { code: string; message: string };
  };
}

async function post(server: Monolith, path: string, body: object, headers: object = {}): Promise<Answer> {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return {
    status: response.status,
    ignored: response.headers.get('x-ignored-content'),
    body: (await response.json()) as Answer['body'],
  };
}

async function events(server: Monolith, path: string, body: object, headers: object = {}): Promise<[Response, Body[]]> {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'));
  return [response, lines.map((line) => JSON.parse(line.slice('data: '.length)) as Body)];
}

const tools = [{ name: 'get_weather', input_schema: { type: 'object', properties: { location: { type: 'string' } } } }];
const messages = (...blocks: object[]): object => ({
  model: 'hal-1.0',
  max_tokens: 1_100,
  thinking: { type: 'enabled', budget_tokens: 1_024 },
  tools,
  messages: [
    { role: 'user', content: 'W: weather in Paris?' },
    {
      role: 'assistant',
      content: [...blocks, { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { location: 'Paris' } }],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'T: 14 C' }] },
  ],
});
const foreign = { type: 'thinking', thinking: 'I look it up.', signature: 'EqoBMadeUpByHand' };
const item = { type: 'reasoning', id: 'rs_0a1b', summary: [], encrypted_content: 'gAAAAABoMadeUpByHand' };
const input = (...items: object[]): object[] => [
  { role: 'user', content: 'A: capital?' },
  ...items,
  { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Paris.' }] },
  { role: 'user', content: 'A: and now?' },
];
/** Returns the total number of prompt tokens in a Messages response, including cached tokens. */
const promptOf = ({ body: { usage } }: Answer): number =>
  (usage?.input_tokens ?? NaN) + (usage?.cache_read_input_tokens ?? 0);
const logOf = (server: Monolith): string[] =>
  server
    .log()
    .split('\n')
    .filter((line) => line.includes('"ignored_content"'))
    .map((line) => (JSON.parse(line) as { ignored_content: string }).ignored_content);

t.test('with the default setting, foreign reasoning is left out of the prompt and listed', async (t) => {
  const server = await start('11');
  t.teardown(() => server.stop());

  await t.test('messages: whole, streamed and counted', async (t) => {
    const without = await post(server, '/v1/messages', messages());
    const whole = await post(server, '/v1/messages', messages(foreign), { 'anthropic-beta': `x, ${BETA}` });
    const dropped = { type: 'thinking_dropped', path: 'messages.1.content.0', reason: 'organization_binding_mismatch' };
    t.match(whole, { status: 200, ignored: 'messages[1].content[0]', body: { input_transformations: [dropped] } });
    t.equal(promptOf(whole), promptOf(without));
    t.equal(without.ignored, null);
    t.notOk('input_transformations' in without.body, 'without the beta, nothing is listed in the body');
    const [streamed, sent] = await events(server, '/v1/messages', messages(foreign), { 'anthropic-beta': BETA });
    t.equal(streamed.headers.get('x-ignored-content'), 'messages[1].content[0]');
    t.match(sent[0], { type: 'message_start', message: { input_transformations: [dropped] } });
    const none = await post(server, '/v1/messages', messages(), { 'anthropic-beta': BETA });
    t.same(none.body['input_transformations'], []);
    const counted = await post(server, '/v1/messages/count_tokens', messages(foreign));
    const expected = await post(server, '/v1/messages/count_tokens', messages());
    t.match(counted, { status: 200, ignored: 'messages[1].content[0]', body: expected.body });
  });

  await t.test('responses: whole, streamed, counted, compacted and in the background', async (t) => {
    const body = { model: 'hal-1.0', max_output_tokens: 40, reasoning: { effort: 'none' } };
    const without = await post(server, '/v1/responses', { ...body, input: input() });
    const whole = await post(server, '/v1/responses', { ...body, input: input(item), store: false });
    t.match(whole, {
      status: 200,
      ignored: 'input[1]',
      body: { usage: { input_tokens: without.body.usage?.input_tokens } },
    });
    const [streamed, sent] = await events(server, '/v1/responses', { ...body, input: input(item) });
    t.equal(streamed.headers.get('x-ignored-content'), 'input[1]');
    t.notOk('x_ignored_content' in (sent[0] as Body), 'HTTP has the header');
    const counted = await post(server, '/v1/responses/input_tokens', { ...body, input: input(item) });
    t.match(counted, { status: 200, ignored: 'input[1]', body: { input_tokens: without.body.usage?.input_tokens } });
    t.match(await post(server, '/v1/responses/compact', { model: 'hal-1.0', input: input(item) }), {
      status: 200,
      ignored: 'input[1]',
    });
    t.match(await post(server, '/v1/responses', { ...body, input: input(item), background: true }), {
      status: 200,
      ignored: 'input[1]',
    });
  });

  await t.test('chat completions and /tokenize', async (t) => {
    const body = (...details: object[]): object => ({
      model: 'hal-1.0',
      messages: [
        { role: 'user', content: 'A: capital?' },
        { role: 'assistant', content: 'Paris.', reasoning_details: details },
        { role: 'user', content: 'A: and now?' },
      ],
    });
    const sealed = { type: 'reasoning.encrypted', data: 'gAAAA', format: 'openai-responses-v1' };
    const place = 'messages[1].reasoning_details[0]';
    t.match(await post(server, '/v1/chat/completions', body(sealed)), { status: 200, ignored: place });
    const [streamed] = await events(server, '/v1/chat/completions', body(sealed));
    t.equal(streamed.headers.get('x-ignored-content'), place);
    const counted = await post(server, '/tokenize', body(sealed));
    t.match(counted, {
      status: 200,
      ignored: place,
      body: { count: (await post(server, '/tokenize', body())).body['count'] },
    });
  });

  await t.test('WebSocket: response.created lists the paths', async (t) => {
    const connection = await Connection.open(server);
    t.teardown(() => connection.socket.terminate());
    const created = async (body: object): Promise<WireEvent> => (await connection.turn(body))[0] as WireEvent;
    const first = await created({ input: input(item), store: false });
    t.match(first, { type: 'response.created', x_ignored_content: ['input[1]'] });
    const { id } = first['response'] as { id: string };
    const second = await created({ input: 'A: go on', previous_response_id: id, store: false });
    t.same(second['x_ignored_content'], ['previous_response_id:rs_0a1b'], 'a continued turn lists the stored item');
    t.notOk('x_ignored_content' in (await created({ input: 'A: new' })));
    const many = Array.from({ length: 17 }, (_, index) => ({ ...item, id: `rs_${index}` }));
    const all = (await created({ input: input(...many) }))['x_ignored_content'] as string[];
    t.same([all.length, all[15], all[16]], [17, 'input[16]', 'and more']);
    t.ok(await eventually(() => logOf(server).at(-1)?.endsWith('input[17]') === true), 'the log has every path');
  });

  await t.test('a stored chain keeps the item as received, and never uses it', async (t) => {
    const body = { model: 'hal-1.0', max_output_tokens: 40, reasoning: { effort: 'none' } };
    const shown = { ...item, summary: [{ type: 'summary_text', text: 'Never use this.' }] };
    const first = await post(server, '/v1/responses', { ...body, input: input(shown) });
    const id = first.body['id'] as string;
    const bare = await post(server, '/v1/responses', { ...body, input: input() });
    const next = (previous: unknown): object => ({ ...body, previous_response_id: previous, input: 'A: go on' });
    const second = await post(server, '/v1/responses', next(id));
    t.match(second, { status: 200, ignored: 'previous_response_id:rs_0a1b' });
    t.equal(
      second.body.usage?.input_tokens,
      (await post(server, '/v1/responses', next(bare.body['id']))).body.usage?.input_tokens,
    );
    const listed = await fetch(`${server.url}/v1/responses/${id}/input_items?order=asc`, {
      headers: { authorization: `Bearer ${server.key}` },
    });
    t.match(((await listed.json()) as { data: Body[] }).data[1], shown);
    const referred = await post(server, '/v1/responses', {
      ...body,
      input: input({ type: 'item_reference', id: 'rs_unknown' }),
    });
    t.match(referred, { status: 200, ignored: 'input[1]' });
    t.match(
      await post(server, '/v1/responses', { ...body, input: input({ type: 'item_reference', id: 'msg_unknown' }) }),
      {
        status: 404,
        body: { error: { code: 'item_not_found' } },
      },
    );
    t.match(await post(server, '/v1/responses', { ...body, previous_response_id: 'resp_unknown', input: 'x' }), {
      status: 404,
      body: { error: { code: 'previous_response_not_found' } },
    });
    t.match(
      await post(server, '/v1/responses', {
        ...body,
        input: [{ ...item, type: 'compaction', id: 'cmp_1' }, ...input()],
      }),
      { status: 400, body: { error: { code: 'invalid_encrypted_content', message: /Send the messages it replaced/ } } },
    );
  });
});

t.test("this server's own reasoning is foreign after its key has been removed", async (t) => {
  const before = await start('11');
  const asked = { model: 'hal-1.0', reasoning: { effort: 'medium' }, include: ['reasoning.encrypted_content'] };
  const stored = await post(before, '/v1/responses', { ...asked, input: 'H: number?' });
  const output = stored.body['output'] as { type: string; id: string }[];
  t.equal(output[0]?.type, 'reasoning');
  const said = await post(before, '/v1/messages', {
    model: 'hal-1.0',
    max_tokens: 1_100,
    thinking: { type: 'enabled', budget_tokens: 1_024 },
    messages: [{ role: 'user', content: 'H: number?' }],
  });
  const again = (answer: Answer): object => ({
    model: 'hal-1.0',
    max_tokens: 40,
    messages: [
      { role: 'user', content: 'H: number?' },
      { role: 'assistant', content: answer.body['content'] },
      { role: 'user', content: 'A: thanks' },
    ],
  });
  const turn = {
    ...asked,
    input: [{ role: 'user', content: 'H: number?' }, ...output, { role: 'user', content: 'A: thanks' }],
  };
  t.match(await post(before, '/v1/messages', again(said)), { status: 200, ignored: null });
  t.match(await post(before, '/v1/responses', turn), { status: 200, ignored: null });
  await before.stop();

  const after = await start('22');
  t.match(await post(after, '/v1/messages', again(said)), { status: 200, ignored: 'messages[1].content[0]' });
  t.match(await post(after, '/v1/responses', turn), { status: 200, ignored: 'input[1]' });
  t.match(
    await post(after, '/v1/responses', { ...asked, previous_response_id: stored.body['id'], input: 'A: thanks' }),
    {
      status: 200,
      ignored: `previous_response_id:${output[0]?.id}`,
    },
  );
  await after.stop();

  const both = await start(`${'22'.repeat(32)},${'11'.repeat(32)}`);
  t.teardown(() => both.stop());
  t.match(await post(both, '/v1/messages', again(said)), { status: 200, ignored: null });
  t.match(await post(both, '/v1/responses', turn), { status: 200, ignored: null });
});

t.test("`reject` refuses foreign reasoning in every format, also under the setting's old name", async (t) => {
  const server = await start('11', '--messages-foreign-thinking', 'reject');
  t.teardown(() => server.stop());
  t.match(await post(server, '/v1/messages', messages(foreign)), {
    status: 400,
    body: { error: { message: /invalid signature in thinking block/ } },
  });
  t.match(await post(server, '/v1/responses', { model: 'hal-1.0', input: input(item) }), {
    status: 400,
    body: {
      error: { code: 'invalid_encrypted_content', message: 'input[1].encrypted_content could not be verified.' },
    },
  });
  t.match(server.log(), /"old":"messages\.foreign_thinking","new":"foreign_thinking"/);
});
