// Tests how publicly reported deviations of real servers from their documentation are handled. The result must be the
// same in every client format, and no deviation may count as an upstream failure.
import t from 'tap';
import { startGateway, startStandIn, type Say } from '../../support/stand-in.js';

const standIn = await startStandIn(() => undefined);
const gateway = await startGateway(
  {
    chat: { upstream: { url: standIn.url } },
    responses: { upstream: { url: standIn.url, api: 'responses' } },
    messages: { upstream: { url: standIn.url, api: 'messages' } },
    completions: { upstream: { url: standIn.url, api: 'completions' } },
  },
  { upstream: { retries: 0, breaker_failures: 1, breaker_ms: 600_000 } },
);
t.teardown(async () => {
  await gateway.close();
  await standIn.close();
});

const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 };
const chunk = (delta: object, finish: string | null = null, more: object = {}): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`;
const DONE = 'data: [DONE]\n\n';
const event = (type: string, fields: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const resource = (status: string | undefined, output: object[] = []): object => ({
  id: 'resp_1',
  object: 'response',
  status,
  model: 'm',
  output,
  usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 },
});
const fc = (given: string | undefined, status: string, more: object = {}): object => ({
  id: 'fc_1',
  type: 'function_call',
  status,
  call_id: 'call_1',
  name: 'weather',
  arguments: given,
  ...more,
});
const message = (text: string, more: object = {}): object => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
  ...more,
});
const thought = (text: string): object => ({
  id: 'rs_1',
  type: 'reasoning',
  summary: [{ type: 'summary_text', text }],
});
const ROME = '{"city":"Rome"}',
  OSLO = '{"city":"Oslo"}';

const streaming =
  (...pieces: string[]): Say =>
  async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) {
      response.write(piece);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    response.end();
  };
const whole =
  (body: object): Say =>
  (response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const chatBody = (message: object, finish = 'stop'): Say =>
  whole({ choices: [{ index: 0, message, finish_reason: finish }], usage });

interface Told {
  reasoning: string;
  text: string;
  calls: string[];
  finish: string;
  usage: [number, number];
}
const says = (more: Partial<Told> = {}): Told => ({
  reasoning: '',
  text: 'Hello',
  calls: [],
  finish: 'stop',
  usage: [5, 7],
  ...more,
});
const calls = (...given: string[]): Told => says({ text: '', calls: given, finish: 'tool_calls' });

const parameters = { type: 'object', properties: { city: { type: 'string' } } };

interface Said {
  reasoning_content?: string | null;
  content?: string | null;
  tool_calls?: { index?: number; function: { arguments: string } }[];
}
/** A chunk of a stream, or a complete chat completion. */
interface Piece {
  error?: object;
  choices?: { delta?: Said; message?: Said; finish_reason: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
}

async function ask(model: string, stream: boolean): Promise<Told> {
  const response = await gateway.post('/v1/chat/completions', {
    model,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
    max_tokens: 50,
    messages: [{ role: 'user', content: 'q' }],
    tools: [{ type: 'function', function: { name: 'weather', parameters } }],
  });
  const text = await response.text();
  const told: Told = { reasoning: '', text: '', calls: [], finish: '', usage: [0, 0] };
  const pieces = stream
    ? text
        .split('\n\n')
        .filter((line) => line.startsWith('data: {'))
        .map((line) => JSON.parse(line.slice(6)) as Piece)
    : [JSON.parse(text) as Piece];
  for (const { error, choices = [], usage: count } of pieces) {
    if (error !== undefined) throw new Error(JSON.stringify(error));
    for (const { delta = {}, message: one = delta, finish_reason: finish } of choices) {
      told.reasoning += one.reasoning_content ?? '';
      told.text += one.content ?? '';
      for (const [
        at,
        {
          index = at,
          function: { arguments: given },
        },
      ] of (one.tool_calls ?? []).entries())
        told.calls[index] = (told.calls[index] ?? '') + given;
      told.finish = finish ?? told.finish;
    }
    if (count != null) told.usage = [count.prompt_tokens, count.completion_tokens];
  }
  return told;
}

const created = event('response.created', { response: resource('in_progress') });
const completed = (output: object[] = []): string =>
  event('response.completed', { response: resource('completed', output) });
const item = (type: 'added' | 'done', told: object, index: number | undefined = 0): string =>
  event(`response.output_item.${type}`, { output_index: index, item: told });

const habits: [name: string, model: string, say: Say, told: Told][] = [
  [
    'finish_reason is "" until the end',
    'chat',
    streaming(chunk({ content: 'Hel' }, ''), chunk({ content: 'lo' }, ''), chunk({}, 'stop', { usage }), DONE),
    says(),
  ],
  [
    'the final chunk is sent twice, the second time with usage',
    'chat',
    streaming(chunk({ content: 'Hello' }), chunk({}, 'stop'), chunk({}, 'stop', { usage }), DONE),
    says(),
  ],
  [
    'the final chunk is sent twice, with its text',
    'chat',
    streaming(
      chunk({ content: 'Hel' }),
      chunk({ content: 'lo' }, 'stop'),
      chunk({ content: 'lo' }, 'stop', { usage }),
      DONE,
    ),
    says(),
  ],
  [
    'a second finish reason after the end',
    'chat',
    streaming(chunk({ content: 'Hello' }), chunk({}, 'stop'), chunk({}, 'length', { usage }), DONE),
    says(),
  ],
  [
    'usage in a separate chunk after the end',
    'chat',
    streaming(chunk({ content: 'Hello' }, 'stop'), `data: ${JSON.stringify({ choices: [], usage })}\n\n`, DONE),
    says(),
  ],
  [
    'events with empty data as heartbeat',
    'chat',
    streaming(
      'data:\n\n',
      chunk({ content: 'Hello' }),
      'data: \n\n',
      'event: ping\ndata:\n\n',
      chunk({}, 'stop', { usage }),
      DONE,
    ),
    says(),
  ],
  [
    'a finish reason of another vendor',
    'chat',
    streaming(chunk({ content: 'Hello' }), chunk({}, 'STOP', { usage }), DONE),
    says(),
  ],
  [
    'content as a list of parts, streamed',
    'chat',
    streaming(
      chunk({
        role: 'assistant',
        content: [
          {
            type: 'thinking',
            thinking: [
              { type: 'text', text: 'h' },
              { type: 'text', text: 'm' },
            ],
          },
        ],
      }),
      chunk({ content: [{ type: 'text', text: 'Hel' }] }),
      chunk({ content: 'lo' }),
      chunk({}, 'stop', { usage }),
      DONE,
    ),
    says({ reasoning: 'hm' }),
  ],
  [
    'content as a list of parts, complete',
    'chat',
    chatBody({
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm' },
        { type: 'text', text: 'Hel' },
        { type: 'output_text', text: 'l' },
        'o',
      ],
    }),
    says({ reasoning: 'hm' }),
  ],
  [
    'a message instead of a delta',
    'chat',
    streaming(
      `data: ${JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }], usage })}\n\n`,
      DONE,
    ),
    says(),
  ],
  [
    'deltas followed by the complete message',
    'chat',
    streaming(
      chunk({ content: 'Hello' }),
      `data: ${JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }], usage })}\n\n`,
      DONE,
    ),
    says(),
  ],
  [
    'arguments are the text "null"',
    'chat',
    streaming(
      chunk({
        tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'weather', arguments: 'null' } }],
      }),
      chunk({}, 'tool_calls', { usage }),
      DONE,
    ),
    calls('{}'),
  ],
  [
    'arguments "null" in several deltas, then another call',
    'chat',
    streaming(
      chunk({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'weather', arguments: 'nu' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: 'll' } }] }),
      chunk({ tool_calls: [{ index: 1, id: 'b', function: { name: 'weather', arguments: ROME } }] }),
      chunk({}, 'tool_calls', { usage }),
      DONE,
    ),
    calls('{}', ROME),
  ],
  [
    'arguments are null',
    'chat',
    chatBody(
      { content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'weather', arguments: null } }] },
      'tool_calls',
    ),
    calls('{}'),
  ],
  [
    'arguments are an object instead of a string',
    'chat',
    chatBody(
      {
        content: null,
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'weather', arguments: { city: 'Rome' } } }],
      },
      'tool_calls',
    ),
    calls(ROME),
  ],

  [
    'arguments only in arguments.done',
    'responses',
    streaming(
      created,
      item('added', fc('', 'in_progress')),
      event('response.function_call_arguments.done', { item_id: 'fc_1', output_index: 0, arguments: ROME }),
      item('done', fc(ROME, 'completed')),
      completed([fc(ROME, 'completed')]),
    ),
    calls(ROME),
  ],
  [
    'two calls, arguments only in arguments.done',
    'responses',
    streaming(
      item('added', fc('', 'in_progress')),
      item('added', fc('', 'in_progress', { id: 'fc_2' }), 1),
      event('response.function_call_arguments.done', { item_id: 'fc_1', output_index: 0, arguments: ROME }),
      event('response.function_call_arguments.done', { item_id: 'fc_2', output_index: 1, arguments: OSLO }),
      completed(),
    ),
    calls(ROME, OSLO),
  ],
  [
    'a call only in output_item.done',
    'responses',
    streaming(created, item('done', fc(ROME, 'completed')), completed([fc(ROME, 'completed')])),
    calls(ROME),
  ],
  [
    'a call only in the final response object',
    'responses',
    streaming(created, completed([thought('hm'), fc(ROME, 'completed')])),
    { ...calls(ROME), reasoning: 'hm' },
  ],
  [
    'a call with deltas that every done event repeats',
    'responses',
    streaming(
      item('added', fc('', 'in_progress')),
      event('response.function_call_arguments.delta', { item_id: 'fc_1', output_index: 0, delta: '{"city":' }),
      event('response.function_call_arguments.delta', { item_id: 'fc_1', output_index: 0, delta: '"Rome"}' }),
      event('response.function_call_arguments.done', { item_id: 'fc_1', output_index: 0, arguments: ROME }),
      item('done', fc(ROME, 'completed')),
      completed([fc(ROME, 'completed')]),
    ),
    calls(ROME),
  ],
  [
    'deltas with an item id other than that of the item',
    'responses',
    streaming(
      item('added', fc('', 'in_progress')),
      event('response.function_call_arguments.delta', { item_id: 'other', output_index: 0, delta: ROME }),
      item('done', fc(ROME, 'completed')),
      completed([fc(ROME, 'completed', { id: 'third' })]),
    ),
    calls(ROME),
  ],
  [
    'two calls with output index 0',
    'responses',
    streaming(
      item('added', fc('', 'in_progress')),
      event('response.function_call_arguments.delta', { item_id: 'fc_1', output_index: 0, delta: ROME }),
      item('added', fc('', 'in_progress', { id: 'fc_2' })),
      event('response.function_call_arguments.delta', { item_id: 'fc_2', output_index: 0, delta: OSLO }),
      completed([fc(ROME, 'completed'), fc(OSLO, 'completed', { id: 'fc_2' })]),
    ),
    calls(ROME, OSLO),
  ],
  [
    'arguments are null',
    'responses',
    streaming(item('added', fc(undefined, 'in_progress')), item('done', fc('null', 'completed')), completed()),
    calls('{}'),
  ],
  [
    'text only in output_text.done',
    'responses',
    streaming(
      created,
      item('added', message('', { content: [] })),
      event('response.output_text.done', { item_id: 'msg_1', output_index: 0, content_index: 0, text: 'Hello' }),
      item('done', message('Hello')),
      completed([message('Hello')]),
    ),
    says(),
  ],
  [
    'text only in output_item.done',
    'responses',
    streaming(created, item('done', message('Hello')), completed()),
    says(),
  ],
  [
    'text and reasoning only in the final response object',
    'responses',
    streaming(completed([thought('hm'), message('Hello')])),
    says({ reasoning: 'hm' }),
  ],
  [
    'text with deltas that every done event repeats, and no reasoning in the final response object',
    'responses',
    streaming(
      created,
      item('added', thought('')),
      event('response.reasoning_summary_text.delta', {
        item_id: 'rs_1',
        output_index: 0,
        summary_index: 0,
        delta: 'hm',
      }),
      event('response.reasoning_summary_text.done', { item_id: 'rs_1', output_index: 0, summary_index: 0, text: 'hm' }),
      item('done', thought('hm')),
      event('response.output_text.delta', { item_id: 'msg_1', output_index: 1, content_index: 0, delta: 'Hello' }),
      event('response.output_text.done', { item_id: 'msg_1', output_index: 1, content_index: 0, text: 'Hello' }),
      event('response.content_part.done', {
        item_id: 'msg_1',
        output_index: 1,
        content_index: 0,
        part: { type: 'output_text', text: 'Hello' },
      }),
      item('done', message('Hello'), 1),
      completed([message('Hello', { id: 'other' })]),
    ),
    says({ reasoning: 'hm' }),
  ],
  [
    'response.completed is sent twice',
    'responses',
    streaming(event('response.output_text.delta', { output_index: 0, delta: 'Hello' }), completed(), completed()),
    says(),
  ],
  [
    'response.completed without a status',
    'responses',
    streaming(
      event('response.output_text.delta', { delta: 'Hello' }),
      event('response.completed', { response: resource(undefined) }),
    ),
    says(),
  ],
  [
    'content is a string in a complete response',
    'responses',
    whole(resource('completed', [message('', { content: 'Hello' })])),
    says(),
  ],

  [
    'message_delta is sent twice, the second time with usage',
    'messages',
    streaming(
      event('message_start', { message: { usage: { input_tokens: 5 } } }),
      event('content_block_start', { index: 0, content_block: { type: 'text', text: 'Hello' } }),
      event('message_delta', { delta: { stop_reason: 'end_turn' } }),
      event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 7 } }),
      event('message_stop'),
      DONE,
    ),
    says(),
  ],
  [
    'stop_reason is "" before the end',
    'messages',
    streaming(
      event('content_block_start', { index: 0, content_block: { type: 'text', text: 'Hello' } }),
      event('message_delta', { delta: { stop_reason: '' }, usage: { input_tokens: 5, output_tokens: 3 } }),
      event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 7 } }),
      event('message_stop'),
    ),
    says(),
  ],
  [
    'events with empty data as heartbeat',
    'messages',
    streaming(
      'event: ping\ndata:\n\n',
      event('message_start', { message: { usage: { input_tokens: 5 } } }),
      event('content_block_start', { index: 0, content_block: { type: 'text', text: 'Hello' } }),
      event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 7 } }),
      event('message_stop'),
    ),
    says(),
  ],
  [
    'content is a string in a complete response',
    'messages',
    whole({ type: 'message', content: 'Hello', stop_reason: 'end_turn', usage: { input_tokens: 5, output_tokens: 7 } }),
    says(),
  ],
];

for (const [name, model, say, told] of habits) {
  t.test(`${model}: ${name}`, async (t) => {
    standIn.say = say;
    // The circuit breaker would open at the first failure.
    for (const stream of [false, true]) t.same(await ask(model, stream), told, stream ? 'streamed' : 'whole');
  });
}

t.test('Completions: an empty finish_reason and a repeated end are accepted', async (t) => {
  const piece = (text: string, finish: string | null, more: object = {}): string =>
    `data: ${JSON.stringify({ choices: [{ index: 0, text, finish_reason: finish }], ...more })}\n\n`;
  standIn.say = streaming(piece('Hel', ''), 'data:\n\n', piece('lo', 'stop'), piece('', 'stop', { usage }), DONE);
  t.match(await (await gateway.post('/v1/completions', { model: 'completions', prompt: 'q', max_tokens: 20 })).json(), {
    choices: [{ text: 'Hello', finish_reason: 'stop' }],
    usage,
  });
});

t.test('the other client formats get the same result', async (t) => {
  standIn.say = habits.find(([name]) => name === 'two calls, arguments only in arguments.done')![2];
  const messages = await (
    await gateway.post('/v1/messages', {
      model: 'responses',
      max_tokens: 50,
      messages: [{ role: 'user', content: 'q' }],
      tools: [{ name: 'weather', input_schema: parameters }],
    })
  ).json();
  t.match(messages, {
    stop_reason: 'tool_use',
    content: [
      { type: 'tool_use', input: { city: 'Rome' } },
      { type: 'tool_use', input: { city: 'Oslo' } },
    ],
  });
  const responses = await (
    await gateway.post('/v1/responses', {
      model: 'responses',
      input: 'q',
      store: false,
      tools: [{ type: 'function', name: 'weather', parameters }],
    })
  ).json();
  t.match(responses, {
    status: 'completed',
    output: [
      { type: 'function_call', arguments: ROME },
      { type: 'function_call', arguments: OSLO },
    ],
  });
});

t.test('refuses text after the end, because it is unclear which text is the response', async (t) => {
  standIn.say = streaming(chunk({ content: 'Hello' }, 'stop'), chunk({ content: ' again' }), DONE);
  await t.rejects(ask('chat', false), /data after the end/);
});
