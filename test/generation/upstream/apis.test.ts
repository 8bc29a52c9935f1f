// Tests upstreams with the Messages, Responses and Completions APIs: the requests they receive, and the conversion of
// their streams and complete responses. The formats follow the vendors' references; the texts were written for these
// tests.
import t from 'tap';
import { startGateway, startStandIn, type Heard, type Say } from '../../support/stand-in.js';

const named =
  (...events: object[]): Say =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.end(
      events.map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`).join(''),
    );
  };
const whole =
  (body: object): Say =>
  (response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const block = (index: number, content_block: object): object => ({ type: 'content_block_start', index, content_block });
const piece = (index: number, delta: object): object => ({ type: 'content_block_delta', index, delta });
const stop = (index: number): object => ({ type: 'content_block_stop', index });

const messagesStream = named(
  {
    type: 'message_start',
    message: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [],
      usage: { input_tokens: 20, cache_read_input_tokens: 7, cache_creation_input_tokens: 3, output_tokens: 1 },
    },
  },
  { type: 'ping' },
  block(0, { type: 'thinking', thinking: '', signature: '' }),
  piece(0, { type: 'thinking_delta', thinking: 'A call.' }),
  piece(0, { type: 'signature_delta', signature: 'Eq==' }),
  stop(0),
  block(1, { type: 'text', text: '' }),
  piece(1, { type: 'text_delta', text: 'Looking.' }),
  stop(1),
  block(2, { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} }),
  piece(2, { type: 'input_json_delta', partial_json: '' }),
  piece(2, { type: 'input_json_delta', partial_json: '{"city":' }),
  piece(2, { type: 'input_json_delta', partial_json: '"Oslo"}' }),
  stop(2),
  { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 25 } },
  { type: 'message_stop' },
);
const messagesWhole = whole({
  type: 'message',
  role: 'assistant',
  stop_reason: 'tool_use',
  stop_sequence: null,
  usage: { input_tokens: 20, cache_read_input_tokens: 7, cache_creation_input_tokens: 3, output_tokens: 25 },
  content: [
    { type: 'thinking', thinking: 'A call.', signature: 'Eq==' },
    { type: 'text', text: 'Looking.' },
    { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Oslo' } },
  ],
});
const output = [
  { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'A call.' }] },
  { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'Looking.' }] },
  { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'get_weather', arguments: '{"city":"Oslo"}' },
];
const finished = {
  id: 'resp_1',
  status: 'completed',
  output,
  usage: {
    input_tokens: 30,
    input_tokens_details: { cached_tokens: 7 },
    output_tokens: 25,
    output_tokens_details: { reasoning_tokens: 8 },
  },
};
const responsesStream = named(
  { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', output: [] } },
  { type: 'response.output_item.added', output_index: 0, item: { type: 'reasoning', id: 'rs_1' } },
  { type: 'response.reasoning_text.delta', output_index: 0, delta: 'A call.' },
  { type: 'response.output_item.done', output_index: 0, item: output[0] },
  { type: 'response.output_item.added', output_index: 1, item: { type: 'message' } },
  { type: 'response.output_text.delta', output_index: 1, delta: 'Looking.', logprobs: [] },
  { type: 'response.output_item.added', output_index: 2, item: { ...output[2], arguments: '' } },
  { type: 'response.function_call_arguments.delta', output_index: 2, delta: '{"city":' },
  { type: 'response.function_call_arguments.delta', output_index: 2, delta: '"Oslo"}' },
  { type: 'response.function_call_arguments.done', output_index: 2, arguments: '{"city":"Oslo"}' },
  { type: 'response.completed', response: finished },
);

const standIn = await startStandIn(messagesStream);
const gateway = await startGateway(
  {
    m: { upstream: { url: standIn.url, api: 'messages', key: 'sk-messages-key', images: true } },
    r: { upstream: { url: standIn.url, api: 'responses', key: 'sk-responses-key', images: true } },
    c: { upstream: { url: standIn.url, api: 'completions' } },
  },
  { upstream: { retries: 0 } },
);
t.teardown(async () => {
  await gateway.close();
  await standIn.close();
});

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
};
const conversation = {
  max_tokens: 4_000,
  temperature: 0.5,
  reasoning_effort: 'low',
  tools: [weather],
  parallel_tool_calls: false,
  messages: [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Here:' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
      ],
    },
    {
      role: 'assistant',
      content: 'Well.',
      tool_calls: [{ id: 'call.1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Rome"}' } }],
    },
    { role: 'tool', tool_call_id: 'call.1', content: 'sun' },
    { role: 'user', content: 'And Oslo?' },
  ],
};
async function asked(model: string, say: Say, stream = false): Promise<{ heard: Heard; answer: any }> {
  standIn.say = say;
  const response = await gateway.post('/v1/chat/completions', { model, stream, ...conversation });
  const text = await response.text();
  return { heard: standIn.heard.at(-1)!, answer: stream ? text : JSON.parse(text) };
}
const expected = {
  choices: [
    {
      finish_reason: 'tool_calls',
      message: {
        reasoning_content: 'A call.',
        content: 'Looking.',
        tool_calls: [{ function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
      },
    },
  ],
  usage: { prompt_tokens: 30, completion_tokens: 25, prompt_tokens_details: { cached_tokens: 7 } },
};

t.test('converts requests and responses of a Messages upstream', async (t) => {
  const {
    heard: { path, headers, body },
    answer,
  } = await asked('m', messagesStream);
  t.match(answer, expected);
  t.match((await asked('m', messagesWhole)).answer, expected, 'a complete response gives the same result');
  t.equal(path, '/v1/messages');
  t.match(headers, { 'x-api-key': 'sk-messages-key', 'anthropic-version': '2023-06-01' });
  t.match(body, {
    model: 'm',
    system: 'Be brief.',
    max_tokens: 4_000,
    stream: true,
    thinking: { type: 'enabled', budget_tokens: 2_048 },
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    tools: [
      {
        name: 'get_weather',
        description: 'Weather',
        input_schema: { type: 'object', properties: { city: { type: 'string' } } },
      },
    ],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Here:' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Well.' },
          { type: 'tool_use', id: 'call_1', name: 'get_weather', input: { city: 'Rome' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: 'sun' }] },
          { type: 'text', text: 'And Oslo?' },
        ],
      },
    ],
  });
  t.notOk('temperature' in body, 'sampling settings are omitted with reasoning');
});

t.test('reports an error inside a Messages stream', async (t) => {
  const { answer } = await asked(
    'm',
    named({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
  );
  t.match(answer, { error: { code: 'capacity_exhausted', details: { upstream_status: 529 } } });
});

t.test('converts requests and responses of a Responses upstream', async (t) => {
  const {
    heard: { path, headers, body },
    answer,
  } = await asked('r', responsesStream);
  t.match(answer, { ...expected, usage: { ...expected.usage, completion_tokens_details: { reasoning_tokens: 8 } } });
  t.match((await asked('r', whole(finished))).answer, expected, 'a complete response gives the same result');
  t.equal(path, '/v1/responses');
  t.match(headers, { authorization: 'Bearer sk-responses-key' });
  t.match(body, {
    model: 'r',
    store: false,
    stream: true,
    max_output_tokens: 4_000,
    temperature: 0.5,
    reasoning: { effort: 'low' },
    parallel_tool_calls: false,
    tool_choice: 'auto',
    tools: [
      {
        type: 'function',
        name: 'get_weather',
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
      },
    ],
    input: [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Here:' },
          { type: 'input_image', image_url: `data:image/png;base64,${PNG}` },
        ],
      },
      { role: 'assistant', content: [{ type: 'output_text', text: 'Well.' }] },
      { type: 'function_call', call_id: 'call.1', name: 'get_weather', arguments: '{"city":"Rome"}' },
      { type: 'function_call_output', call_id: 'call.1', output: 'sun' },
      { role: 'user', content: 'And Oslo?' },
    ],
  });
});

t.test('handles truncated and failed Responses', async (t) => {
  const cut = { ...finished, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, output: [] };
  t.match(
    (
      await asked(
        'r',
        named(
          { type: 'response.output_text.delta', output_index: 0, delta: 'Lo' },
          { type: 'response.incomplete', response: cut },
        ),
      )
    ).answer,
    { choices: [{ finish_reason: 'length', message: { content: 'Lo' } }] },
  );
  t.match(
    (
      await asked(
        'r',
        named({
          type: 'response.failed',
          response: { status: 'failed', error: { code: 'server_error', message: 'x' } },
        }),
      )
    ).answer,
    { error: { code: 'model_error' } },
  );
});

t.test('Completions: sends plain prompts, and names the parameter when it refuses a conversation', async (t) => {
  standIn.say = (response) =>
    void response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end(
        [
          { choices: [{ index: 0, text: 'one', logprobs: null, finish_reason: null }] },
          { choices: [{ index: 0, text: ' two', finish_reason: null }] },
          { choices: [{ index: 0, text: '', finish_reason: 'stop', stop_reason: '\n' }] },
          { choices: [], usage: { prompt_tokens: 4, completion_tokens: 3 } },
        ]
          .map((one) => `data: ${JSON.stringify(one)}\n\n`)
          .join('') + 'data: [DONE]\n\n',
      );
  for (const model of ['c', 'r']) {
    const answer = await (
      await gateway.post('/v1/completions', { model, prompt: 'Once', max_tokens: 5, stop: '\n' })
    ).json();
    t.match(
      answer,
      { choices: [{ text: 'one two', finish_reason: 'stop' }], usage: { prompt_tokens: 4, completion_tokens: 3 } },
      model,
    );
    t.match(standIn.heard.at(-1), {
      path: '/v1/completions',
      body: { model, prompt: 'Once', max_tokens: 5, stop: ['\n'], stream: true },
    });
  }
  const refused = await gateway.post('/v1/chat/completions', {
    model: 'c',
    messages: [{ role: 'user', content: 'Hi' }],
  });
  t.equal(refused.status, 422);
  t.match(await refused.json(), {
    error: { code: 'unsupported_feature', param: 'messages', message: /raw prompts only/ },
  });
  const other = await gateway.post('/v1/completions', { model: 'm', prompt: 'Once', max_tokens: 5 });
  t.match(await other.json(), { error: { code: 'unsupported_feature' } });
});

t.test('applies stop strings locally if the upstream does not support them', async (t) => {
  const refused = await gateway.post('/v1/chat/completions', {
    model: 'r',
    messages: [{ role: 'user', content: 'Hi' }],
    stop: 'x',
  });
  t.match(await refused.json(), { error: { code: 'unsupported_parameter', param: 'stop' } });
});

t.test('lists a prediction as ignored, because only chat completions have predicted outputs', async (t) => {
  for (const [model, say] of [
    ['m', messagesStream],
    ['r', responsesStream],
  ] as const) {
    standIn.say = say;
    const response = await gateway.post('/v1/chat/completions', {
      model,
      messages: [{ role: 'user', content: 'Hi' }],
      prediction: { type: 'content', content: 'Hello' },
    });
    t.equal(response.status, 200);
    t.equal(response.headers.get('x-ignored-parameters'), 'prediction', model);
    t.equal(standIn.heard.at(-1)?.body['prediction'], undefined);
  }
});

t.test('refuses template variables that the upstream cannot apply', async (t) => {
  for (const model of ['m', 'r']) {
    const refused = await gateway.post('/v1/chat/completions', {
      model,
      messages: [{ role: 'user', content: 'Hi' }],
      chat_template_kwargs: { mode: 'x' },
    });
    t.equal(refused.status, 422);
    t.match(await refused.json(), { error: { code: 'unsupported_parameter', param: 'chat_template_kwargs' } });
  }
});

t.test('numbers beyond 2^53 keep their digits in requests and responses', async (t) => {
  const listed = '175928847299117063',
    past = '-9223372036854775808',
    answered = '1234567890123456789';
  const raw = (body: object): string => JSON.stringify(body).replace(/"#(-?\d+)"/g, '$1');
  const request = (model: string): string =>
    raw({
      model,
      max_tokens: 50,
      tools: [
        {
          type: 'function',
          function: { name: 'f', parameters: { type: 'object', properties: { user: { enum: [`#${listed}`] } } } },
        },
      ],
      messages: [
        { role: 'user', content: 'x' },
        {
          role: 'assistant',
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: `{"user":${past}}` } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'y' },
      ],
    });
  const says: Record<string, object> = {
    m: {
      type: 'message',
      role: 'assistant',
      stop_reason: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 1 },
      content: [{ type: 'tool_use', id: 't', name: 'f', input: { user: `#${answered}` } }],
    },
    r: {
      id: 'r',
      status: 'completed',
      output: [{ type: 'function_call', id: 'f', call_id: 'c', name: 'f', arguments: `{"user":${answered}}` }],
      usage: {},
    },
  };
  for (const [model, say] of Object.entries(says)) {
    standIn.say = (response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(raw(say));
    const text = await (await gateway.post('/v1/chat/completions', {}, { body: request(model) })).text();
    const sent = standIn.heard.at(-1)!.text;
    for (const digits of [listed, past]) t.ok(sent.includes(digits), `${model}: ${digits} is sent`);
    t.ok(text.includes(answered), `${model}: ${text.slice(0, 300)}`);
  }
});
