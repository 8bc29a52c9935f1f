// Tests every row of the request tables for Chat Completions (sections 1.2 to 1.5 of the contract) over HTTP. Values at
// the bounds are accepted, values just outside result in a 422, a wrong type results in a 400, and null counts as
// absent.
import t from 'tap';
import { mismatch } from '../support/open-api.js';
import { said, startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({ context: 32_768 });
t.teardown(() => server.stop());

const base = { model: 'clarke-1.0', messages: [{ role: 'user', content: 'A: capital of France?' }], max_tokens: 12 };
const SCRIPTED = said('A').content;

interface Row {
  name: string;
  /** Other fields that every request for this row needs. */
  beside?: object;
  good: unknown[];
  /** Values just out of range, each with the error code of its 422. */
  outside: [value: unknown, code: string, param?: string][];
  wrong: [value: unknown, param?: string][];
}

const row = (name: string, good: unknown[], outside: Row['outside'], wrong: unknown[], beside?: object): Row => ({
  name,
  good,
  outside,
  wrong: wrong.map((value) => [value]),
  ...(beside === undefined ? {} : { beside }),
});
const range = (name: string, good: unknown[], outside: unknown[], beside?: object): Row =>
  row(
    name,
    good,
    outside.map((value) => [value, 'value_out_of_range']),
    ['1', true, [], {}],
    beside,
  );
const flag = (name: string, beside?: object): Row => row(name, [true, false], [], ['true', 1, [], {}], beside);

const tools = [
  {
    type: 'function',
    function: { name: 'get_weather', parameters: { type: 'object', properties: { location: { type: 'string' } } } },
  },
];
const schema = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    age: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['name'],
};
const json = { messages: [{ role: 'user', content: 'J: who?' }], max_tokens: 40 };
const format = (change: object): object => ({
  type: 'json_schema',
  json_schema: { name: 'person', schema, ...change },
});

const rows: Row[] = [
  range('max_completion_tokens', [1, 2 ** 31, 3.0], [0, -1]),
  range('max_tokens', [1, 2 ** 31, 3.0], [0, -1]),
  { ...range('max_completion_tokens', [], []), wrong: [[1.5]] },
  {
    name: 'stop',
    good: ['x', 'x'.repeat(256), [], ['x'], Array(16).fill('x')],
    outside: [
      ['', 'invalid_value'],
      ['x'.repeat(257), 'string_too_long'],
      [Array(17).fill('x'), 'array_too_long'],
      [[''], 'invalid_value', 'stop[0]'],
    ],
    wrong: [[5], [true], [{}], [[5], 'stop[0]']],
  },
  {
    ...range('n', [1, 8], [0, 129]),
    outside: [
      [0, 'value_out_of_range'],
      [9, 'unsupported_value'],
      [128, 'unsupported_value'],
      [129, 'value_out_of_range'],
    ],
  },

  range('temperature', [0, 2], [-0.01, 2.01]),
  range('top_p', [0, 1], [-0.01, 1.01]),
  range('top_k', [-1, 0, 1_000], [-2, 1_001]),
  range('min_p', [0, 1], [-0.01, 1.01]),
  range('repetition_penalty', [0.001, 1, 2], [0, 2.01]),
  range('frequency_penalty', [-2, 2], [-2.01, 2.01]),
  range('presence_penalty', [-2, 2], [-2.01, 2.01]),
  range('seed', [-(2 ** 63), 0, 2 ** 63 - 1], [-(2 ** 64), 2 ** 64]),
  {
    name: 'logit_bias',
    good: [{}, { 65: -100, 66: 100 }, Object.fromEntries(Array.from({ length: 200 }, (_, token) => [token, 0]))],
    outside: [
      [{ 65: 100.1 }, 'value_out_of_range', 'logit_bias.65'],
      [{ 65: -100.1 }, 'value_out_of_range', 'logit_bias.65'],
      [{ 1000000: 1 }, 'invalid_value'],
      [{ abc: 1 }, 'invalid_value'],
      [Object.fromEntries(Array.from({ length: 1_025 }, (_, token) => [token, 0])), 'too_many_entries'],
    ],
    wrong: [['x'], [5], [[]], [{ 65: 'x' }, 'logit_bias.65']],
  },
  flag('logprobs'),
  range('top_logprobs', [0, 20], [-1, 21], { logprobs: true }),
  row('top_logprobs', [0], [[1, 'conflicting_parameters']], []),

  flag('stream'),
  row(
    'stream_options',
    [{}, { include_usage: true, include_obfuscation: true }, { include_usage: null }],
    [],
    ['x', 5, []],
    { stream: true },
  ),
  row('stream_options', [], [[{ include_usage: true }, 'conflicting_parameters']], []),
  {
    ...row('stream_options', [], [], [], { stream: true }),
    wrong: [[{ include_usage: 'x' }, 'stream_options.include_usage']],
  },
  {
    name: 'response_format',
    beside: json,
    good: [
      { type: 'text' },
      { type: 'json_object' },
      format({}),
      format({ strict: null, description: 'x' }),
      format({ name: 'x'.repeat(64) }),
    ],
    outside: [
      [format({ name: 'x'.repeat(65) }), 'string_too_long', 'response_format.json_schema.name'],
      [format({ name: 'a b' }), 'invalid_value', 'response_format.json_schema.name'],
      [format({ schema: { type: 'strange' } }), 'invalid_json_schema', 'response_format.json_schema.schema.type'],
      [
        format({ strict: true, schema: { type: 'array', uniqueItems: true } }),
        'unsupported_json_schema',
        'response_format.json_schema.schema.uniqueItems',
      ],
      [format({ schema: { type: 'object', not: {} } }), 'invalid_json_schema', 'response_format.json_schema.schema'],
    ],
    wrong: [
      ['json'],
      [5],
      [[]],
      [format({ schema: [] }), 'response_format.json_schema.schema'],
      [format({ strict: 'x' }), 'response_format.json_schema.strict'],
    ],
  },
  {
    name: 'tools',
    good: [
      [],
      tools,
      Array.from({ length: 128 }, (_, index) => ({ type: 'function', function: { name: `f${index}` } })),
    ],
    outside: [
      [
        Array.from({ length: 1_025 }, (_, index) => ({ type: 'function', function: { name: `f${index}` } })),
        'array_too_long',
      ],
      [[{ type: 'custom', custom: { name: '' } }], 'invalid_tool_name', 'tools[0].custom.name'],
      [[{ type: 'function', function: { name: '' } }], 'invalid_tool_name', 'tools[0].function.name'],
      [[...tools, ...tools], 'duplicate_tool_name', 'tools[1].function.name'],
      [
        [{ type: 'function', function: { name: 'f', parameters: { type: 'strange' } } }],
        'invalid_json_schema',
        'tools[0].function.parameters.type',
      ],
    ],
    wrong: [['x'], [5], [{}], [[5], 'tools[0]'], [[{ type: 'function', function: 5 }], 'tools[0].function']],
  },
  {
    name: 'tool_choice',
    beside: { tools, max_tokens: 40 },
    good: [
      'none',
      'auto',
      'required',
      { type: 'function', function: { name: 'get_weather' } },
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'get_weather' } }] },
      },
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'get_weather' } }] },
      },
    ],
    outside: [
      ['sometimes', 'invalid_value'],
      [{ type: 'function', function: { name: 'other' } }, 'tool_not_found'],
      [{ type: 'custom', custom: { name: 'get_weather' } }, 'tool_not_found'],
    ],
    wrong: [[5], [[]], [{ type: 'function', function: 'x' }, 'tool_choice.function']],
  },
  row('tool_choice', ['none', 'auto'], [['required', 'conflicting_parameters']], []),
  flag('parallel_tool_calls'),
  row(
    'reasoning_effort',
    ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
    [
      ['huge', 'invalid_value'],
      ['', 'invalid_value'],
    ],
    [3, true, {}],
  ),
  flag('include_reasoning'),
  flag('continue_final_message', { messages: [...base.messages, { role: 'assistant', content: 'It is' }] }),
  row('continue_final_message', [false], [[true, 'conflicting_parameters']], []),
  {
    name: 'chat_template_kwargs',
    good: [{}, { enable_thinking: true }, { enable_thinking: false }, { enable_thinking: null, other: 1 }],
    outside: [
      [{ enable_thinking: 1 }, 'invalid_value', 'chat_template_kwargs.enable_thinking'],
      [{ messages: [] }, 'unsupported_value', 'chat_template_kwargs.messages'],
      [{ a: 'x'.repeat(65_536) }, 'value_out_of_range'],
      [Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`v${at}`, 1])), 'too_many_entries'],
    ],
    wrong: [['x'], [[]]],
  },

  {
    name: 'metadata',
    good: [{}, Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`${at}`.padEnd(64, 'k'), 'v'.repeat(512)]))],
    outside: [
      [Object.fromEntries(Array.from({ length: 17 }, (_, at) => [at, ''])), 'too_many_entries'],
      [{ ['k'.repeat(65)]: '' }, 'string_too_long'],
      [{ k: 'v'.repeat(513) }, 'string_too_long', 'metadata.k'],
    ],
    wrong: [['x'], [[]], [{ k: 1 }, 'metadata.k']],
  },
  flag('store'),
  ...['user', 'safety_identifier', 'prompt_cache_key'].map((name) =>
    row(name, ['', 'x'.repeat(512)], [['x'.repeat(513), 'string_too_long']], [5, {}, []]),
  ),
  row(
    'service_tier',
    ['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast'],
    [['gold', 'invalid_value']],
    [1, {}],
  ),
  row(
    'modalities',
    [['text']],
    [
      [['text', 'audio'], 'unsupported_feature'],
      [[], 'invalid_value'],
    ],
    ['text', {}],
  ),
  row(
    'prompt_cache_options',
    [{}, { mode: 'implicit', ttl: '30m' }, { mode: 'explicit', ttl: '12h' }],
    [
      [{ mode: 'x' }, 'invalid_value', 'prompt_cache_options.mode'],
      [{ ttl: '5m' }, 'invalid_value', 'prompt_cache_options.ttl'],
    ],
    ['x', 1, [1]],
  ),
  row('prompt_cache_retention', ['in_memory', 'in-memory', '24h'], [['1h', 'invalid_value']], [1, {}, [1]]),
  row(
    'prediction',
    [
      { type: 'content', content: 'x' },
      { type: 'content', content: [] },
      { type: 'content', content: [{ type: 'text', text: 'x' }] },
    ],
    [[{ type: 'text', content: 'x' }, 'invalid_value', 'prediction.type']],
    ['x', 1, [1]],
  ),
  row('verbosity', ['low', 'medium', 'high'], [['x', 'invalid_value']], [1, {}, [1]]),
  ...['audio', 'web_search_options', 'moderation'].map((name) => row(name, [], [[{}, 'unsupported_feature']], [])),
  row(
    'functions',
    [[], [{ name: 'get_weather' }], [{ name: 'f', description: 'x', parameters: { type: 'object' } }]],
    [
      [[{ name: 'a b' }], 'invalid_tool_name', 'functions[0].name'],
      [[{ name: 'f' }, { name: 'f' }], 'duplicate_tool_name', 'functions[1].name'],
    ],
    ['x', 1, {}],
  ),
  row('functions', [], [[[{ name: 'f' }], 'conflicting_parameters']], [], { tools }),
  row('functions', [], [[[{ name: 'f' }], 'conflicting_parameters']], [], { tool_choice: 'none' }),
  row('function_call', [], [['none', 'conflicting_parameters']], [], { tools }),
  row(
    'function_call',
    ['none', 'auto', { name: 'f' }],
    [
      ['x', 'invalid_value'],
      [{ name: 'g' }, 'tool_not_found'],
    ],
    [1, [1]],
    { functions: [{ name: 'f', parameters: { type: 'object', properties: {}, additionalProperties: false } }] },
  ),
  row('function_call', ['none'], [['auto', 'conflicting_parameters']], []),
];

interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string };
}

function post(body: object): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
  });
}

/** The outcome of a request, as one line. */
async function outcome(change: object): Promise<string> {
  const response = await post({ ...base, ...change });
  const text = await response.text();
  if (response.status !== 200) {
    const { error } = JSON.parse(text) as ErrorBody;
    const problem = error.message === '' ? 'the error has no message' : mismatch('openai', 'ErrorResponse', { error });
    return `${response.status} ${error.code} ${error.param}${problem === null ? '' : ` (${problem})`}`;
  }
  const problem = response.headers.get('content-type')!.startsWith('text/event-stream')
    ? streamProblem(text)
    : mismatch('openai', 'CreateChatCompletionResponse', JSON.parse(text));
  return problem ?? '200';
}

function streamProblem(text: string): string | null {
  const events = text.split('\n\n').filter((event) => event !== '' && !event.startsWith(':'));
  if (events.pop() !== 'data: [DONE]') return 'the stream does not end with [DONE]';
  for (const event of events) {
    const problem = mismatch('openai', 'CreateChatCompletionStreamResponse', JSON.parse(event.slice('data: '.length)));
    if (problem !== null) return problem;
  }
  return null;
}

for (const { name, beside = {}, good, outside, wrong } of rows) {
  t.test(name, async (t) => {
    const cases: [value: unknown, expected: string][] = [
      ...good.map((value): [unknown, string] => [value, '200']),
      [null, '200'],
      ...outside.map(([value, code, param = name]): [unknown, string] => [value, `422 ${code} ${param}`]),
      ...wrong.map(([value, param = name]): [unknown, string] => [value, `400 invalid_type ${param}`]),
    ];
    const outcomes = await Promise.all(cases.map(([value]) => outcome({ ...beside, [name]: value })));
    for (const [at, [value, expected]] of cases.entries())
      t.equal(outcomes[at], expected, `${name}: ${JSON.stringify(value).slice(0, 80)}`);
  });
}

t.test('the request fields have their effect on the response', async (t) => {
  const answer = async (
    change: object,
  ): Promise<{
    choices: { index: number; message: { content: string }; finish_reason: string; logprobs: unknown }[];
    metadata?: unknown;
    service_tier: string;
    usage: { completion_tokens: number };
  }> => (await post({ ...base, ...change })).json() as never;
  const plain = await answer({});
  t.equal(plain.choices[0]!.message.content, SCRIPTED);
  t.equal(plain.choices[0]!.finish_reason, 'stop');
  t.equal(plain.choices[0]!.logprobs, null);
  t.notOk('metadata' in plain);
  t.equal(
    (await answer({ max_completion_tokens: 2, max_tokens: 1 })).usage.completion_tokens,
    2,
    'max_completion_tokens takes precedence over max_tokens',
  );
  const [before] = SCRIPTED.split(' capital');
  t.equal((await answer({ stop: ['nothing', ' cap'] })).choices[0]!.message.content, before);
  t.same(
    (await answer({ n: 3 })).choices.map(({ index, message }) => [index, message.content]),
    [0, 1, 2].map((index) => [index, SCRIPTED]),
  );
  const echoed = await answer({ metadata: { a: 'b' }, service_tier: 'priority', store: true });
  t.same(echoed.metadata, { a: 'b' });
  t.equal(echoed.service_tier, 'default');
  await answer({ user: 'grace.hopper' });
  t.ok(
    await eventually(() => /"end_user":"[\w-]{16}"/.test(server.log())),
    'the log contains a pseudonym of the end user',
  );
  t.notMatch(server.log(), /grace/, 'the log does not contain the name of the end user');
});
