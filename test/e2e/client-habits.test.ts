// Tests requests in the forms that agents and other clients send, in all API formats.
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { ask } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());

interface Failure {
  error: { code: string; param: string };
}

/** The prompt of a chat completions request. */
async function prompt(messages: object[]): Promise<string> {
  const tokenized = await ask(server, '/tokenize', { model: 'hal-1.0', messages });
  t.equal(tokenized.status, 200, tokenized.text);
  const { tokens } = tokenized.body as { tokens: number[] };
  return ((await ask(server, '/detokenize', { model: 'hal-1.0', tokens })).body as { prompt: string }).prompt;
}

const call = { id: 'c1', type: 'function', function: { name: 'get_weather', arguments: '{}' } };
const user = (content: string) => ({ role: 'user', content });

t.test('chat: a tool result without content reads as empty', async (t) => {
  const conversation = (content: unknown) => [
    user('W: weather?'),
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c1', content },
  ];
  const empty = await prompt(conversation(''));
  t.equal(await prompt(conversation(null)), empty);
  t.equal(await prompt(conversation([])), empty);
});

t.test('chat: an empty assistant turn is left out and the user messages are joined', async (t) => {
  const expected = await prompt([user('A: one\n\ntwo')]);
  t.equal(await prompt([user('A: one'), { role: 'assistant', content: [] }, user('two')]), expected);
  t.equal(
    await prompt([user('A: one'), { role: 'assistant', content: [], tool_calls: [] }, user('two')]),
    expected,
    'an empty list of calls',
  );
  t.not(await prompt([user('A: one'), user('two')]), expected, 'other user messages are not joined');
  t.equal(
    await prompt([
      user('W: weather?'),
      { role: 'assistant', content: [], tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: 'T: rain' },
    ]),
    await prompt([
      user('W: weather?'),
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: 'T: rain' },
    ]),
    'a turn with calls is kept',
  );
  const nothing = await ask(server, '/v1/chat/completions', {
    model: 'hal-1.0',
    messages: [{ role: 'assistant', content: [] }],
  });
  t.equal(nothing.status, 400);
  t.match(nothing.body, { error: { code: 'missing_required_parameter', param: 'messages' } });
});

t.test('messages: an empty assistant turn is left out and the user messages are joined', async (t) => {
  const count = async (messages: object[]): Promise<unknown> =>
    (await ask(server, '/v1/messages/count_tokens', { model: 'hal-1.0', messages })).body;
  const expected = await count([user('A: one\n\ntwo')]);
  t.match(expected, { input_tokens: Number });
  t.same(await count([user('A: one'), { role: 'assistant', content: [] }, user('two')]), expected);
  const answer = await ask(server, '/v1/messages', {
    model: 'hal-1.0',
    max_tokens: 16,
    messages: [user('A: hello'), { role: 'assistant', content: [] }],
  });
  t.equal(answer.status, 200, answer.text);
});

t.test('chat: continue_final_message with add_generation_prompt is a conflict', async (t) => {
  const send = (more: object) =>
    ask(server, '/v1/chat/completions', {
      model: 'hal-1.0',
      messages: [user('A: hello'), { role: 'assistant', content: 'I' }],
      ...more,
    });
  const both = await send({ continue_final_message: true, add_generation_prompt: true });
  t.equal(both.status, 422);
  const { error } = both.body as Failure;
  t.match(error, { code: 'conflicting_parameters', param: 'add_generation_prompt' });
  for (const more of [
    { continue_final_message: true, add_generation_prompt: false },
    { continue_final_message: false, add_generation_prompt: true },
  ]) {
    const { status, headers } = await send(more);
    t.equal(status, 200);
    t.equal(headers.get('x-ignored-parameters'), null, JSON.stringify(more));
  }
  const without = await send({ add_generation_prompt: false });
  t.equal(without.headers.get('x-ignored-parameters'), 'add_generation_prompt');
});

t.test('responses: an output without call_id belongs to the oldest open call', async (t) => {
  const make = (id: string, name: string) => ({ type: 'function_call', call_id: id, name, arguments: '{}' });
  const output = (text: string, more: object) => ({ type: 'function_call_output', output: text, ...more });
  const calls = [user('W: weather?'), make('c1', 'get_weather'), make('c2', 'get_time')];
  const send = (input: object[], more: object = {}) =>
    ask(server, '/v1/responses', { model: 'hal-1.0', input, max_output_tokens: 8, ...more });
  const items = async (input: object[]): Promise<unknown[]> => {
    const { status, text, body } = await send(input);
    t.equal(status, 200, text);
    const { id } = body as { id: string };
    const response = await fetch(`${server.url}/v1/responses/${id}/input_items?order=asc`, {
      headers: { authorization: `Bearer ${server.key}` },
    });
    return ((await response.json()) as { data: { type: string; call_id: string; output: string }[] }).data
      .filter(({ type }) => type === 'function_call_output')
      .map(({ call_id: id, output: said }) => [id, said]);
  };
  t.same(await items([...calls, output('T: a', {}), output('b', { call_id: null })]), [
    ['c1', 'T: a'],
    ['c2', 'b'],
  ]);
  t.same(await items([...calls, output('T: b', { name: 'get_time' }), output('a', {})]), [
    ['c2', 'T: b'],
    ['c1', 'a'],
  ]);
  const stray = await send([user('A: hello'), output('x', {})]);
  t.equal(stray.status, 422);
  t.match(stray.body, { error: { code: 'tool_call_not_found', param: 'input[1].call_id' } });

  const first = (await send([user('W: weather?')], { tools: [weather], max_output_tokens: 200 })).body as {
    id: string;
    output: { type: string }[];
  };
  t.ok(
    first.output.some(({ type }) => type === 'function_call'),
    'the model calls a tool',
  );
  const next = await send([output('T: rain', {})], { previous_response_id: first.id });
  t.equal(next.status, 200, next.text);
});

const weather = {
  type: 'function',
  name: 'get_weather',
  parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
};

t.test('IDs may have 1,000 characters in all formats', async (t) => {
  const long = (last: string): string => `${'ä/"x'.repeat(249)}abc${last}`;
  const send = async (id: string): Promise<[path: string, status: number, param: string | null][]> => {
    const tool = { ...call, id };
    const rows: [path: string, body: object][] = [
      [
        '/v1/chat/completions',
        {
          messages: [
            user('W: weather?'),
            { role: 'assistant', content: null, tool_calls: [tool] },
            { role: 'tool', tool_call_id: id, content: 'T: rain' },
          ],
        },
      ],
      [
        '/v1/messages',
        {
          max_tokens: 8,
          messages: [
            user('W: weather?'),
            { role: 'assistant', content: [{ type: 'tool_use', id, name: 'get_weather', input: {} }] },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'T: rain' }] },
          ],
        },
      ],
      [
        '/v1/responses',
        {
          max_output_tokens: 8,
          input: [
            user('W: weather?'),
            { type: 'function_call', id, call_id: id, name: 'get_weather', arguments: '{}' },
            { type: 'function_call_output', call_id: id, output: 'T: rain' },
          ],
        },
      ],
    ];
    return Promise.all(
      rows.map(async ([path, body]) => {
        const { status, body: answer } = await ask(server, path, { model: 'hal-1.0', ...body });
        return [path, status, (answer as Partial<Failure>).error?.param ?? null];
      }),
    );
  };
  const id = long('1');
  t.equal(id.length, 1_000);
  for (const [path, status] of await send(id)) t.equal(status, 200, path);
  for (const [path, status, param] of await send(`${id}x`)) {
    t.ok(status === 400 || status === 422, `${path}: ${status}`);
    t.match(param, /id$/, path);
  }
});

t.test('responses: Codex items are read, or left out and listed', async (t) => {
  const agent = (more: object) => ({ type: 'agent_message', author: '/root', recipient: '/root/helper', ...more });
  const reading = (...parts: string[]) => parts.map((text) => ({ type: 'input_text', text }));
  const rows: [items: object[], same: object[], leftOut: string | null][] = [
    [[agent({ id: 'amsg_1', content: reading('A: list the files') })], [user('A: list the files')], null],
    [[agent({ content: 'A: list' })], [user('A: list')], null],
    [
      [agent({ content: [...reading('A: list'), { type: 'encrypted_content', encrypted_content: 'x' }] })],
      [user('A: list')],
      'input[0].content[1]',
    ],
    [
      [agent({ content: [{ type: 'encrypted_content', encrypted_content: 'x' }] }), user('A: hi')],
      [user('A: hi')],
      'input[0]',
    ],
    [
      [user('H: hi'), { type: 'agent_reasoning', text: 'because' }, { role: 'assistant', content: 'so' }],
      [
        user('H: hi'),
        { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'because' }] },
        { role: 'assistant', content: 'so' },
      ],
      null,
    ],
    [
      [
        { type: 'ghost_snapshot', ghost_commit: { id: 'a', parent: null } },
        { type: 'context_compaction' },
        { type: 'compaction_summary', encrypted_content: 'not ours' },
        { type: 'other' },
        user('A: hi'),
      ],
      [user('A: hi')],
      'input[0], input[1], input[2], input[3]',
    ],
  ];
  const count = (input: object[]) => ask(server, '/v1/responses/input_tokens', { model: 'hal-1.0', input });
  for (const [items, same, leftOut] of rows) {
    const { status, headers, body, text } = await count(items);
    t.equal(status, 200, text);
    t.same(body, (await count(same)).body, JSON.stringify(items));
    t.equal(headers.get('x-ignored-content'), leftOut);
    const created = await ask(server, '/v1/responses', { model: 'hal-1.0', max_output_tokens: 8, input: items });
    t.equal(created.status, 200, created.text);
    t.equal(created.headers.get('x-ignored-content'), leftOut);
    const next = await ask(server, '/v1/responses', {
      model: 'hal-1.0',
      max_output_tokens: 8,
      previous_response_id: (created.body as { id: string }).id,
      input: 'A: next',
    });
    t.equal(next.status, 200, next.text);
  }
  const many = await count([...Array.from({ length: 20 }, () => ({ type: 'ghost_snapshot' })), user('A: hi')]);
  t.match(many.headers.get('x-ignored-content'), /^input\[0\], .*input\[15\], and more$/);

  const compacted = await ask(server, '/v1/responses/compact', { model: 'hal-1.0', input: [user('A: remember this')] });
  t.equal(compacted.status, 200, compacted.text);
  const { output } = compacted.body as { output: { type: string; encrypted_content?: string }[] };
  const { encrypted_content } = output.find(({ type }) => type === 'compaction')!;
  const [own, renamed] = await Promise.all(
    ['compaction', 'compaction_summary'].map((type) => count([{ type, encrypted_content }, user('A: hi')])),
  );
  t.same(renamed?.body, own?.body, 'a summary that this server created is read under its other name');
  t.equal(renamed?.headers.get('x-ignored-content'), null);
});
