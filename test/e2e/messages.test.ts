// Tests the Messages format at the wire level, as clients other than the official one see it.
import { join } from 'node:path';
import t from 'tap';
import { said, standardScripts, startScripted } from '../support/script-model.js';
import { ask, events, post } from '../support/wire.js';
import { root } from './monolith.js';

const server = await startScripted({
  // Y is long enough that its stream starts before the model has finished.
  scripts: { ...standardScripts, Y: Array.from({ length: 300 }, (_, at) => `step ${at}, `) },
  args: ['--model', `starter=${join(root, 'models', 'starter-q8_0.gguf')}`, '--foreign-thinking', 'drop'],
});
t.teardown(() => server.stop());

const PATH = '/v1/messages';
const COUNT = '/v1/messages/count_tokens';
const tools = ['get_weather', 'get_time', 'save_note', 'write_file'].map((name) => ({
  name,
  input_schema: { type: 'object' },
}));
const request = (content: string, change: object = {}) => ({
  model: 'hal-1.0',
  max_tokens: 200,
  messages: [{ role: 'user', content }],
  ...change,
});

interface Block {
  type: string;
  [field: string]: unknown;
}
interface Message {
  content: Block[];
  stop_reason: string;
  stop_sequence: string | null;
  usage: Record<string, unknown>;
}
interface Event {
  type: string;
  index?: number;
  message?: Message;
  content_block?: Block;
  delta?: Record<string, unknown>;
  usage?: Record<string, unknown>;
}

async function stream(body: object, path = PATH): Promise<Event[]> {
  return (await events(await post(server, path, { ...body, stream: true }))).map(({ event, data }) => {
    const parsed = JSON.parse(data) as Event;
    if (event !== parsed.type) throw new Error(`the event ${String(event)} has the type ${parsed.type}`);
    return parsed;
  });
}

/** Assembles a stream's blocks. Throws if an event is out of order. */
function blocksOf(sent: readonly Event[]): Block[] {
  const blocks: Block[] = [];
  let open: Block | null = null;
  for (const { type, index, content_block: started, delta } of sent) {
    if (type === 'content_block_start') {
      if (open !== null || index !== blocks.length) throw new Error(`block ${index} starts out of order`);
      open = started!;
      blocks.push(open);
      if (open.type === 'tool_use') open['input'] = '';
    } else if (type === 'content_block_delta' || type === 'content_block_stop') {
      if (open === null || index !== blocks.length - 1) throw new Error(`${type} of block ${index}, which is not open`);
      if (type === 'content_block_stop') {
        if (open.type === 'tool_use') open['input'] = JSON.parse(open['input'] as string) as unknown;
        open = null;
        continue;
      }
      for (const [field, kind] of [
        ['text', 'text_delta'],
        ['thinking', 'thinking_delta'],
        ['signature', 'signature_delta'],
        ['input', 'input_json_delta'],
      ] as const) {
        if (delta!['type'] === kind)
          open[field] = String(open[field]) + String(delta![field === 'input' ? 'partial_json' : field]);
      }
    }
  }
  return blocks;
}

const withoutIds = (blocks: readonly Block[]) => blocks.map(({ id: _, ...block }) => block);

t.test('for every script, the joined stream equals the complete response and contains no markers', async (t) => {
  for (const letter of Object.keys(standardScripts) as (keyof typeof standardScripts)[]) {
    for (const thinking of [{ type: 'disabled' }, { type: 'adaptive' }]) {
      const body = request(`${letter}: go`, { tools, thinking });
      const whole = (await ask(server, PATH, body)).body as Message;
      const sent = await stream(body);
      const name = `${letter} ${thinking.type}`;
      t.same(
        sent.slice(0, 2).map(({ type }) => type),
        ['message_start', 'ping'],
        name,
      );
      t.same(
        sent.slice(-2).map(({ type }) => type),
        ['message_delta', 'message_stop'],
      );
      const cut = letter === 'Q' || letter === 'M'; // the arguments are truncated and not valid JSON
      if (!cut) t.strictSame(withoutIds(blocksOf(sent)), withoutIds(whole.content), name);
      const { delta, usage } = sent.at(-2)!;
      t.match(delta, { stop_reason: whole.stop_reason, stop_sequence: whole.stop_sequence });
      t.equal(usage!['output_tokens'], whole.usage['output_tokens'], name);
      t.ok(['text', 'tool_use'].includes(whole.content.at(-1)!.type));
      const started = sent[0]!.message!.usage as Record<string, number>;
      t.equal(
        started['input_tokens']! + started['cache_read_input_tokens']!,
        Number(whole.usage['input_tokens']) + Number(whole.usage['cache_read_input_tokens']),
        'the first event contains the exact number of prompt tokens',
      );

      const expected = said(letter);
      const calls = whole.content.filter(({ type }) => type === 'tool_use');
      if (letter !== 'U' && !cut)
        t.strictSame(
          calls.map(({ name: called, input }) => [called, input]),
          expected.calls.map(({ name: called, arguments: text }) => [called, JSON.parse(text) as unknown]),
          name,
        );
      if (!['L', 'R', 'U', 'M', 'Q'].includes(letter)) {
        t.equal(
          whole.content
            .filter(({ type }) => type === 'text')
            .map(({ text }) => text)
            .join('')
            .replace(/\s+/g, ''),
          expected.content.replace(/\s+/g, ''),
          name,
        );
      }
      const thought = whole.content
        .filter(({ type }) => type === 'thinking')
        .map((block) => block['thinking'])
        .join('')
        .trim();
      if (letter !== 'R') t.equal(thought, thinking.type === 'adaptive' ? expected.reasoning : '', name);
    }
  }
});

t.test('every tool_choice works with every thinking setting', async (t) => {
  const total = (usage: Record<string, unknown>): number =>
    Number(usage['input_tokens']) + Number(usage['cache_read_input_tokens']);
  const unsigned = (blocks: readonly Block[]) =>
    // Signatures differ between responses.
    withoutIds(blocks).map((block) => (block['thinking'] === '' ? { ...block, signature: '' } : block));
  const settings = [
    { type: 'disabled' },
    { type: 'adaptive' },
    { type: 'adaptive', display: 'omitted' },
    { type: 'enabled', budget_tokens: 1_024 },
  ];
  const choices = [
    { type: 'auto' },
    { type: 'any' },
    { type: 'tool', name: 'get_time' },
    { type: 'none' },
    { type: 'any', disable_parallel_tool_use: true },
  ] as const;
  for (const letter of ['A', 'H', 'K', 'P']) {
    for (const thinking of settings) {
      for (const tool_choice of choices) {
        const name = `${letter} ${Object.values(thinking).join(' ')}, ${Object.values(tool_choice).join(' ')}`;
        const body = request(`${letter}: go`, { tools, thinking, tool_choice, max_tokens: 1_500, temperature: 0 });
        const [{ body: answer }, sent, counted] = await Promise.all([
          ask(server, PATH, body),
          stream(body),
          ask(server, COUNT, body),
        ]);
        const whole = answer as Message;
        const { delta, usage } = sent.at(-2)!;
        t.strictSame(unsigned(blocksOf(sent)), unsigned(whole.content), name);
        t.equal(delta!['stop_reason'], whole.stop_reason, name);
        t.match(
          usage,
          { output_tokens: whole.usage['output_tokens'], output_tokens_details: whole.usage['output_tokens_details'] },
          name,
        );
        t.equal((counted.body as { input_tokens: number }).input_tokens, total(whole.usage), name);
        const types = whole.content.map(({ type }) => type);
        const calls = whole.content.filter(({ type }) => type === 'tool_use');
        t.equal(
          types[0] === 'thinking',
          thinking.type !== 'disabled' && 'HK'.includes(letter),
          `${name}: ${types.join()}`,
        );
        t.ok(types.lastIndexOf('thinking') <= 0, 'there is at most one thinking block, and it comes first');
        if (tool_choice.type === 'none') t.same([calls.length, whole.stop_reason], [0, 'end_turn'], name);
        if (tool_choice.type === 'any' || tool_choice.type === 'tool')
          t.ok(calls.length > 0 && whole.stop_reason === 'tool_use', `${name}: ${types.join()}`);
        if (tool_choice.type === 'tool')
          t.ok(
            calls.every((call) => call['name'] === tool_choice.name),
            name,
          );
        if ('disable_parallel_tool_use' in tool_choice) t.equal(calls.length, 1, name);
      }
    }
  }
});

t.test('stop sequences apply to text only, not to thinking or tool calls', async (t) => {
  const answer = async (content: string, stop_sequences: string[], change: object = {}) =>
    (await ask(server, PATH, request(content, { stop_sequences, max_tokens: 1_500, ...change }))).body as Message;
  t.match(await answer('H: x', ['number', 'two'], { thinking: { type: 'adaptive' } }), {
    stop_reason: 'stop_sequence',
    stop_sequence: 'two',
    content: [{ thinking: said('H').reasoning }, { text: 'Forty-' }],
  });
  t.match(await answer('W: x', ['Paris', 'get_weather'], { tools }), {
    stop_reason: 'tool_use',
    stop_sequence: null,
    content: [{ input: { location: 'Paris' } }],
  });
  t.match(await answer('S: x', ['STOP'], { tools }), { stop_reason: 'stop_sequence', stop_sequence: 'STOP' });
  t.match(await answer('A: x', ['Paris']), { stop_reason: 'stop_sequence', content: [{ type: 'text', text: '' }] });
  t.match(
    await answer('', [' on'], {
      tools,
      messages: [
        { role: 'user', content: 'A: x' },
        { role: 'assistant', content: 'Paris is' },
      ],
    }),
    { stop_sequence: ' on', content: [{ text: ' and so' }] },
    'stop sequences also apply to a prefilled response',
  );
});

t.test('text before a tool call is a separate block', async (t) => {
  t.match((await ask(server, PATH, request('C: x', { tools }))).body, {
    content: [{ text: 'Before it.' }, { type: 'tool_use' }],
  });
});

t.test('the system prompt has the same number of tokens wherever it is given', async (t) => {
  const counted = async (body: object) =>
    ((await ask(server, COUNT, { model: 'hal-1.0', ...body })).body as { input_tokens: number }).input_tokens;
  const messages = [{ role: 'user', content: 'A: x' }];
  const expected = await counted({ messages, system: 'Be brief.\n\nBe kind.' });
  t.ok(expected > (await counted({ messages })));
  t.equal(
    await counted({ messages, system: ['Be brief.', 'Be kind.'].map((text) => ({ type: 'text', text })) }),
    expected,
  );
  t.equal(await counted({ messages: [{ role: 'system', content: 'Be brief.\n\nBe kind.' }, ...messages] }), expected);
  t.equal(
    await counted({ messages: [{ role: 'system', content: 'Be kind.' }, ...messages], system: 'Be brief.' }),
    expected,
  );
});

t.test('an empty response has one empty text block', async (t) => {
  t.match((await ask(server, PATH, request('Z: x'))).body, {
    content: [{ type: 'text', text: '' }],
    stop_reason: 'end_turn',
  });
});

t.test(
  'stop_reason is model_context_window_exceeded when the context is full before max_tokens is reached',
  async (t) => {
    const body = request(`L: ${'x'.repeat(16_200)}`, { max_tokens: 5_000 });
    t.match((await ask(server, PATH, body)).body, { stop_reason: 'model_context_window_exceeded' });
    t.match((await stream(body)).at(-2), { delta: { stop_reason: 'model_context_window_exceeded' } });
    t.match((await ask(server, PATH, { ...body, max_tokens: 20 })).body, { stop_reason: 'max_tokens' });
  },
);

t.test("a coding agent's first requests are served", async (t) => {
  const headers = {
    'anthropic-beta': 'context-management-2025-06-27,interleaved-thinking-2025-05-14',
    'anthropic-version': '2023-06-01',
    'x-app': 'cli',
  };
  const system = (nonce: string) => [
    { type: 'text', text: `x-anthropic-billing-header: cc_version=2.0.1.abc; cc_entrypoint=cli; cch=${nonce};` },
    { type: 'text', text: 'You are an interactive agent.', cache_control: { type: 'ephemeral' } },
    {
      type: 'text',
      text: `Working directory: /home/u/project. ${'Follow the rules of the project. '.repeat(40)}`,
      cache_control: { type: 'ephemeral', ttl: '1h' },
    },
  ];
  const agent = (messages: object[], nonce: string) => ({
    model: 'hal-1.0',
    max_tokens: 32_000,
    stream: true,
    temperature: 1,
    system: system(nonce),
    messages,
    tools: [
      {
        name: 'Bash',
        description: 'Runs a command.',
        input_schema: {
          $schema: 'http://json-schema.org/draft-07/schema#',
          type: 'object',
          properties: { command: { type: 'string', description: 'The command' }, timeout: { type: 'number' } },
          required: ['command'],
          additionalProperties: false,
        },
      },
      {
        name: 'get_weather',
        description: 'Weather.',
        input_schema: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
        cache_control: { type: 'ephemeral' },
        eager_input_streaming: true,
      },
    ],
    metadata: { user_id: JSON.stringify({ device_id: 'd', account_uuid: '', session_id: 's' }) },
    thinking: { type: 'adaptive' },
    output_config: { effort: 'medium' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  });
  const quota = await ask(
    server,
    `${PATH}?beta=true`,
    { model: 'hal-1.0', max_tokens: 1, messages: [{ role: 'user', content: 'quota' }], metadata: { user_id: '{}' } },
    headers,
  );
  t.match(quota, { status: 200, body: { stop_reason: 'max_tokens', usage: { output_tokens: 1 } } });

  const first = {
    role: 'user',
    content: [
      { type: 'text', text: 'K: What is the weather?' },
      {
        type: 'text',
        text: '<system-reminder>\nToday is Tuesday.\n</system-reminder>\n',
        cache_control: { type: 'ephemeral' },
      },
    ],
  };
  const answer = await post(server, `${PATH}?beta=true`, agent([first], '0a1b2'), headers);
  t.equal(answer.status, 200);
  t.equal(answer.headers.get('x-ignored-parameters'), 'system.cache_control');
  const sent = (await events(answer)).map(({ data }) => JSON.parse(data) as Event);
  const content = blocksOf(sent);
  t.match(
    content.map(({ type }) => type),
    ['thinking', 'text', 'tool_use'],
  );
  t.match(sent.at(-2), { type: 'message_delta', delta: { stop_reason: 'tool_use' } });

  const call = content.find(({ type }) => type === 'tool_use')!;
  const second = agent(
    [
      first,
      { role: 'assistant', content },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: call['id'],
            content: 'T: 14 C',
            is_error: false,
            cache_control: { type: 'ephemeral' },
          },
        ],
      },
    ],
    'fffff',
  );
  const next = (await events(await post(server, `${PATH}?beta=true`, second, headers))).map(
    ({ data }) => JSON.parse(data) as Event,
  );
  t.match(blocksOf(next).at(-1), { type: 'text', text: said('T').content });
  const { usage } = next[0]!.message!;
  t.ok(
    Number(usage['cache_read_input_tokens']) > 1_000,
    'the changing billing line does not invalidate the cached prefix',
  );
  t.equal(
    (
      (await ask(server, `${COUNT}?beta=true`, { ...second, max_tokens: undefined, stream: undefined }, headers))
        .body as { input_tokens: number }
    ).input_tokens,
    Number(usage['input_tokens']) + Number(usage['cache_read_input_tokens']),
  );
});

t.test('thinking blocks from another provider are dropped if configured', async (t) => {
  const messages = [
    { role: 'user', content: 'A: x' },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 'ErUBCkYIBBgCIkDl' },
        { type: 'redacted_thinking', data: 'EroBCkYIBBgC' },
        { type: 'text', text: 'y' },
      ],
    },
    { role: 'user', content: 'A: z' },
  ];
  t.match(await ask(server, PATH, request('', { messages })), { status: 200 });
});

t.test('responses and errors have the documented headers', async (t) => {
  const good = await ask(server, PATH, request('A: x', { made_up: 1, 'so bad': 2 }));
  t.equal(good.headers.get('x-ignored-parameters'), 'made_up, so_bad');
  t.ok(good.headers.get('anthropic-ratelimit-requests-limit'));
  const counted = await ask(server, COUNT, { model: 'hal-1.0', messages: [{ role: 'user', content: 'x' }] });
  t.match(counted, { status: 200, body: { input_tokens: Number } });
  t.equal(counted.headers.get('anthropic-ratelimit-requests-limit'), null, 'counting tokens is not rate limited');
  t.match(await ask(server, PATH, request('A: x', { max_tokens: null })), {
    status: 400,
    body: {
      type: 'error',
      error: { type: 'invalid_request_error', code: 'missing_required_parameter', param: 'max_tokens' },
    },
  });
  t.match(await ask(server, `${PATH}/unknown`, {}), {
    status: 404,
    body: { type: 'error', error: { code: 'unknown_endpoint' } },
  });
});

t.test('a trained model responds, streamed or not, with and without thinking', async (t) => {
  const body = {
    model: 'starter',
    max_tokens: 40,
    temperature: 0,
    system: 'Be brief.',
    messages: [{ role: 'user', content: 'Is this review positive or negative? "The soup was cold."' }],
  };
  const whole = (await ask(server, PATH, body)).body as Message;
  t.ok((whole.content[0]!['text'] as string).length > 0);
  t.strictSame(blocksOf(await stream(body)), whole.content);
  const thinking = { ...body, max_tokens: 1_000, thinking: { type: 'adaptive' }, output_config: { effort: 'low' } };
  t.equal(((await ask(server, PATH, thinking)).body as Message).content.at(-1)!.type, 'text');
});

t.test('a large body of invalid blocks is rejected', async (t) => {
  const wrong = JSON.stringify(
    request('', {
      messages: [
        { role: 'user', content: Array.from({ length: 190_000 }, () => ({ type: 'text', txt: 'x'.repeat(120) })) },
      ],
    }),
  );
  t.ok(wrong.length > 27e6);
  t.match(await ask(server, PATH, wrong), {
    status: 400,
    body: { error: { code: 'missing_required_parameter', param: 'messages[0].content[0].text' } },
  });
});
