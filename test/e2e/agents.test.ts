// Sends the requests of coding agents, with every field they use, and checks the responses as the agents read them. The
// requests were recorded from the real programs, with their texts replaced.
import t from 'tap';
import { notBuilt } from '../support/browser.js';
import { said, startScripted } from '../support/script-model.js';
import { ask, events, post } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

interface Block {
  type: string;
  id?: string;
  name?: string;
  text?: string;
  thinking?: string;
  signature?: string;
  input?: unknown;
}
interface Item {
  type: string;
  id: string;
  call_id?: string;
  name?: string;
  namespace?: string;
  encrypted_content?: string;
}

const readFile = {
  name: 'get_weather',
  description: 'Weather of a place',
  input_schema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    additionalProperties: false,
    properties: {
      location: { type: 'string' },
      limit: { type: 'integer', exclusiveMinimum: 0, maximum: 9_007_199_254_740_991 },
    },
    required: ['location'],
  },
};

t.test('serves the requests that coding agents send', async (t) => {
  const server = await startScripted();
  t.teardown(() => server.stop());

  await t.test(
    'Messages: accepts HEAD, a nonce in the system prompt, a trailing system message and reordered tool results',
    async (t) => {
      const head = await fetch(`${server.url}/`, { method: 'HEAD' });
      t.equal(head.status, notBuilt === false ? 200 : 404, 'the dashboard page, if it is built');
      const turn = (nonce: number, messages: object[]) => ({
        model: 'hal-1.0',
        max_tokens: 32_000,
        stream: true,
        thinking: { type: 'adaptive' },
        output_config: { effort: 'high' },
        context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
        metadata: { user_id: '{"device_id":"d","account_uuid":"","session_id":"s"}' },
        system: [
          { type: 'text', text: `x-anthropic-billing-header: cc_version=${nonce}` },
          { type: 'text', text: 'You help with code.', cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'Rules. '.repeat(100), cache_control: { type: 'ephemeral' } },
        ],
        tools: [readFile],
        messages,
      });
      const headers = {
        'anthropic-version': '2023-06-01',
        'anthropic-beta': 'a-2025-01-01,b-2025-02-02',
        'user-agent': 'agent-cli/2.1 (external, cli)',
      };
      const user = {
        role: 'user',
        content: [
          { type: 'text', text: 'K: weather?' },
          { type: 'text', text: '<system-reminder>x</system-reminder>', cache_control: { type: 'ephemeral' } },
        ],
      };
      const first = await read(
        await post(
          server,
          '/v1/messages?beta=true',
          turn(1, [user, { role: 'system', content: 'K: stands last on the first turn' }]),
          headers,
        ),
      );
      const said = await read(await post(server, '/v1/messages?beta=true', turn(2, [user]), headers));
      t.same(
        said.content.map(({ type }) => type),
        ['thinking', 'text', 'tool_use'],
      );
      t.ok(first.content.length > 0);
      const parallel = [
        {
          type: 'tool_use',
          id: 'toolu_1',
          name: 'get_weather',
          input: { location: 'a' },
          caller: { type: 'direct' },
          cache_control: { type: 'ephemeral' },
        },
        { type: 'tool_use', id: 'toolu_2', name: 'get_weather', input: { location: 'b' } },
      ];
      const second = await read(
        await post(
          server,
          '/v1/messages?beta=true',
          turn(3, [
            user,
            { role: 'assistant', content: [...said.content.filter(({ type }) => type !== 'tool_use'), ...parallel] },
            {
              role: 'user',
              content: [
                { type: 'tool_result', tool_use_id: 'toolu_2', content: 'T: rain' },
                {
                  type: 'tool_result',
                  tool_use_id: 'toolu_1',
                  content: 'T: sun',
                  is_error: false,
                  cache_control: { type: 'ephemeral' },
                },
              ],
            },
          ]),
          headers,
        ),
      );
      t.ok(second.usage.cache_read_input_tokens > 500, 'a new nonce does not invalidate the cached prefix');
      t.equal(second.stop_reason, 'end_turn');

      // Agents recover from these errors, which they recognize by their exact wording and status.
      const history = turn(4, [
        user,
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'x', signature: 'AAAA' },
            { type: 'text', text: 'y' },
          ],
        },
        user,
      ]);
      t.equal(
        (await post(server, '/v1/messages', history, headers)).headers.get('x-ignored-content'),
        'messages[1].content[0]',
      );
      const strict = { type: 'adaptive', block_binding: { prefix_mismatch_behavior: 'error' } };
      const foreign = await ask(server, '/v1/messages', { ...history, thinking: strict }, headers);
      t.equal(foreign.status, 400);
      t.match(foreign.text, /signature in thinking block/);
      const long = await ask(
        server,
        '/v1/messages',
        turn(5, [{ role: 'user', content: 'many words '.repeat(5_000) }]),
        headers,
      );
      t.equal(long.status, 400);
      t.match(long.text, /prompt is too long: \d+ tokens > \d+ maximum/);
      const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
      const seen = await ask(
        server,
        '/v1/messages',
        turn(6, [
          user,
          { role: 'assistant', content: [parallel[0]] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [image] }] },
        ]),
        headers,
      );
      t.equal(seen.status, 400);
      t.match(seen.text, /Could not process image/);
    },
  );

  await t.test('Responses: accepts namespaces, hosted tools and encrypted reasoning that is sent back', async (t) => {
    const { $schema: _, ...parameters } = readFile.input_schema;
    const request = (input: object[]) => ({
      model: 'clarke-1.0',
      stream: true,
      store: false,
      tool_choice: 'auto',
      parallel_tool_calls: true,
      reasoning: { effort: 'medium', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      prompt_cache_key: 'u',
      client_metadata: { turn_id: 'u' },
      tools: [
        { type: 'function', name: 'get_weather', description: 'd', strict: false, parameters },
        {
          type: 'namespace',
          name: 'multi_agent_v1',
          description: 'd',
          tools: [
            { type: 'function', name: 'send_input', strict: false, parameters: { type: 'object', properties: {} } },
          ],
        },
        { type: 'web_search', external_web_access: false },
      ],
      input,
    });
    const headers = {
      'user-agent': 'codex_exec/0.169.0 (Linux)',
      accept: 'text/event-stream',
      originator: 'codex_exec',
      'session-id': 's',
    };
    const opening = [
      {
        type: 'message',
        id: 'msg_u1',
        role: 'developer',
        content: [
          { type: 'input_text', text: 'a' },
          { type: 'input_text', text: 'b' },
        ],
      },
      { type: 'message', id: 'msg_u2', role: 'user', content: [{ type: 'input_text', text: 'K: weather?' }] },
    ];
    const first = await post(server, '/v1/responses', request(opening), headers);
    t.equal(first.headers.get('x-ignored-tools'), 'web_search');
    t.equal(first.headers.get('x-ignored-parameters'), 'client_metadata');
    const output = await outputOf(first);
    t.same(
      output.map(({ type }) => type),
      ['reasoning', 'message', 'function_call'],
    );
    t.match(output[0]?.encrypted_content, /^enc[12]\./);
    const sentBack = [
      ...output.map((item) => (item.type === 'reasoning' ? { ...item, content: null } : item)),
      {
        type: 'function_call',
        status: 'completed',
        id: 'fc_u',
        name: 'send_input',
        namespace: 'multi_agent_v1',
        arguments: '{}',
        call_id: 'call_1',
      },
      { type: 'function_call_output', id: 'fco_u', call_id: 'call_1', output: 'ok' },
      {
        type: 'function_call_output',
        id: 'fco_v',
        call_id: output[2]?.call_id,
        output: [{ type: 'input_text', text: 'T: sun' }],
      },
    ];
    const second = await outputOf(await post(server, '/v1/responses', request([...opening, ...sentBack]), headers));
    t.match(JSON.stringify(second), said('T').content);
    const long = await ask(
      server,
      '/v1/responses',
      { ...request([{ role: 'user', content: 'many words '.repeat(5_000) }]), stream: false },
      headers,
    );
    t.equal(long.status, 400);
    t.match(long.body, { error: { code: 'context_length_exceeded' } });
  });

  await t.test('Chat Completions: accepts reasoning and tool calls from earlier turns', async (t) => {
    const tools = [
      { type: 'function', function: { name: 'get_weather', description: 'd', parameters: readFile.input_schema } },
    ];
    const streamed = await events(
      await post(server, '/v1/chat/completions', {
        model: 'clarke-1.0',
        max_tokens: 4_000,
        tool_choice: 'auto',
        stream: true,
        stream_options: { include_usage: true },
        tools,
        messages: [
          { role: 'system', content: 'You help.' },
          { role: 'user', content: [{ type: 'text', text: 'K: weather?' }] },
          {
            role: 'assistant',
            content: 'Let me look.',
            reasoning_content: 'I need it.',
            tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_weather', arguments: '{"location":' } }],
          },
          { role: 'tool', tool_call_id: 'c1', content: 'T: 14 C' },
        ],
      }),
    );
    const text = streamed
      .slice(0, -1)
      .map(
        ({ data }) =>
          (JSON.parse(data) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? '',
      )
      .join('');
    t.equal(text, said('T').content, 'malformed arguments in an earlier turn are tolerated');
  });
});

interface Message {
  content: Block[];
  stop_reason: string | null;
  usage: { cache_read_input_tokens: number };
}

/** Assembles a Messages stream as a client does. */
async function read(response: Response): Promise<Message> {
  let message: Message | null = null;
  const json: string[] = [];
  for (const { data } of await events(response)) {
    const event = JSON.parse(data) as {
      type: string;
      index: number;
      message: Message;
      content_block: Block;
      usage: object;
      delta: { text?: string; thinking?: string; signature?: string; partial_json?: string; stop_reason?: string };
    };
    if (event.type === 'message_start') message = event.message;
    if (message === null) throw new Error(`${event.type} before message_start`);
    const block = message.content[event.index];
    if (event.type === 'content_block_start') message.content.push(event.content_block);
    if (event.type === 'message_delta') message.stop_reason = event.delta.stop_reason ?? null;
    if (event.type !== 'content_block_delta' || block === undefined) continue;
    if (event.delta.text !== undefined) block.text += event.delta.text;
    if (event.delta.thinking !== undefined) block.thinking += event.delta.thinking;
    if (event.delta.signature !== undefined) block.signature = event.delta.signature;
    if (event.delta.partial_json !== undefined) {
      json[event.index] = (json[event.index] ?? '') + event.delta.partial_json;
      try {
        block.input = JSON.parse(json[event.index] ?? '');
      } catch {
        /* The JSON is not complete yet. */
      }
    }
  }
  if (message === null) throw new Error('the stream has no message_start event');
  return message;
}

async function outputOf(response: Response): Promise<Item[]> {
  const list = (await events(response))
    .slice(0, -1)
    .map(({ data }) => JSON.parse(data) as { type: string; response?: { output: Item[] } });
  const last = list.at(-1);
  if (last?.type !== 'response.completed') throw new Error(`the stream ended with ${JSON.stringify(last)}`);
  return last.response?.output ?? [];
}
