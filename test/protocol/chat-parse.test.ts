import t from 'tap';
import { ApiError } from '../../src/shared/errors.js';
import { parseChat } from '../../src/protocol/chat-completions/parse.js';
import { cpuTime } from '../support/cpu-time.js';

const limits = { maxN: 8 };
const base = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };

function outcome(body: unknown): string {
  try {
    parseChat(body).content(limits);
    return 'ok';
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return `${error.status} ${error.code} ${error.param}`;
  }
}

t.test(
  'numeric fields accept their bounds; values outside get 422, values of a wrong type get 400, and null counts as absent',
  async (t) => {
    const rows: [name: string, low: number, high: number, below: number, above: number][] = [
      ['temperature', 0, 2, -0.01, 2.01],
      ['top_p', 0, 1, -0.01, 1.01],
      ['top_k', -1, 1000, -2, 1001],
      ['min_p', 0, 1, -0.01, 1.01],
      ['repetition_penalty', 0.01, 2, 0, 2.01],
      ['frequency_penalty', -2, 2, -2.01, 2.01],
      ['presence_penalty', -2, 2, -2.01, 2.01],
      ['seed', -(2 ** 63), 2 ** 63, -(2 ** 64), 2 ** 64], // JavaScript parses 2^63 - 1 as 2^63
    ];
    for (const [name, low, high, below, above] of rows) {
      for (const good of [low, high, null]) t.equal(outcome({ ...base, [name]: good }), 'ok', `${name}: ${good}`);
      for (const bad of [below, above])
        t.equal(outcome({ ...base, [name]: bad }), `422 value_out_of_range ${name}`, `${name}: ${bad}`);
      for (const bad of ['1', true, {}])
        t.equal(outcome({ ...base, [name]: bad }), `400 invalid_type ${name}`, `${name}: ${JSON.stringify(bad)}`);
    }
    for (const name of ['max_tokens', 'max_completion_tokens']) {
      t.equal(
        outcome({ ...base, [name]: 10_000_000 }),
        'ok',
        'a value above the model maximum is accepted and clamped later',
      );
      t.equal(outcome({ ...base, [name]: 0 }), `422 value_out_of_range ${name}`);
      t.equal(outcome({ ...base, [name]: 1.5 }), `400 invalid_type ${name}`);
      t.equal(outcome({ ...base, [name]: 3.0 }), 'ok');
    }
  },
);

t.test('each invalid chat request is refused with its code and parameter', async (t) => {
  const user = { role: 'user', content: 'hi' };
  const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } });
  const calls = (...ids: string[]) => ({ role: 'assistant', content: null, tool_calls: ids.map(call) });
  const answer = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'x' });
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
  const tool = (name: unknown, more: object = {}) => ({ type: 'function', function: { name, ...more } });
  const named = (name: string) => ({ type: 'function', function: { name } });
  const allowed = (mode: string, ...tools: object[]) => ({ type: 'allowed_tools', allowed_tools: { mode, tools } });
  const schema = (change: object) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' }, ...change } },
  });
  const cases: [change: object, expected: string][] = [
    [{ model: undefined }, '400 missing_required_parameter model'],
    [{ model: 1 }, '400 invalid_type model'],
    [{ messages: undefined }, '400 missing_required_parameter messages'],
    [{ messages: [] }, '400 missing_required_parameter messages'],
    [{ messages: 'hi' }, '400 invalid_type messages'],
    [{ messages: [{ role: 'robot', content: 'x' }] }, '400 unknown_variant messages[0].role'],
    [{ messages: [{ content: 'x' }] }, '400 missing_required_parameter messages[0].role'],
    [{ messages: [{ role: 'user' }] }, '400 missing_required_parameter messages[0].content'],
    [{ messages: [{ role: 'user', content: [] }] }, '400 missing_required_parameter messages[0].content'],
    [{ messages: [{ role: 'user', content: 7 }] }, '400 invalid_type messages[0].content'],
    [{ messages: [{ role: 'user', content: '' }] }, 'ok'],
    [
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'a' },
              { type: 'text', text: 'b' },
            ],
          },
        ],
      },
      'ok',
    ],
    [{ messages: [{ role: 'user', content: [{ type: 'odd' }] }] }, '400 unknown_variant messages[0].content[0].type'],
    [
      { messages: [{ role: 'user', content: [{ type: 'text', text: 5 }] }] },
      '400 invalid_type messages[0].content[0].text',
    ],
    [{ messages: [{ role: 'user', content: [image] }] }, 'ok'],
    [
      { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
      '400 missing_required_parameter messages[0].content[0].image_url',
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x', detail: 'fine' } }] }] },
      '422 invalid_value messages[0].content[0].image_url.detail',
    ],
    [
      {
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'x', detail: 'fine' } }, { type: 'text' }] },
        ],
      },
      '400 missing_required_parameter messages[0].content[1].text',
    ],
    ...['input_audio', 'file'].flatMap((type) =>
      ['system', 'user', 'assistant'].map((role): [object, string] => [
        { messages: [{ role, content: [{ type, file: { file_id: 'f' } }] }] },
        '422 unsupported_content messages[0].content[0]',
      ]),
    ),
    [{ messages: [{ role: 'system', content: [image] }] }, '422 unsupported_content messages[0].content[0]'],
    [{ messages: [{ role: 'assistant', content: [image] }] }, '422 unsupported_content messages[0].content[0]'],
    [
      { messages: [{ role: 'user', content: [{ type: 'refusal', refusal: 'no' }] }] },
      '422 unsupported_content messages[0].content[0]',
    ],
    [{ messages: [user, calls('a'), { ...answer('a'), content: [image, { type: 'text', text: 'x' }] }] }, 'ok'],
    [{ messages: [user, { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] }] }, 'ok'],
    [
      { messages: [user, { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'custom' }] }] },
      '400 missing_required_parameter messages[1].tool_calls[0].custom',
    ],
    [
      { messages: [user, { role: 'assistant', content: null, tool_calls: [] }] },
      '400 missing_required_parameter messages[1].content',
    ],
    [{ messages: [user, { role: 'assistant', content: '', tool_calls: null }] }, 'ok'],
    [
      { messages: [user, calls('a'), { role: 'tool', content: 'x' }] },
      '400 missing_required_parameter messages[2].tool_call_id',
    ],
    [{ messages: [user, calls('a'), answer('a'), user, calls('a'), answer('a')] }, 'ok'],
    [
      { messages: [user, calls('a'), answer('a'), user, answer('a')] },
      '422 tool_call_not_found messages[4].tool_call_id',
    ],
    [{ messages: [{ role: 'function', content: 'x' }] }, '400 missing_required_parameter messages[0].name'],
    [{ messages: [{ role: 'function', name: 'f', content: 'x' }] }, '422 tool_call_not_found messages[0].name'],
    [{ messages: [user, { role: 'assistant' }] }, '400 missing_required_parameter messages[1].content'],
    [{ messages: [user, { role: 'assistant', content: null, refusal: 'no' }] }, 'ok'],
    [{ messages: [user, calls('a', 'b'), answer('b'), answer('a')] }, 'ok'],
    [{ messages: [user, calls('a', 'b'), answer('b')] }, '422 missing_tool_output messages[1].tool_calls[0]'],
    [{ messages: [user, calls('a'), user] }, '422 missing_tool_output messages[1].tool_calls[0]'],
    [{ messages: [user, calls('a'), answer('z')] }, '422 tool_call_not_found messages[2].tool_call_id'],
    [{ messages: [user, answer('z')] }, '422 tool_call_not_found messages[1].tool_call_id'],
    [{ messages: [user, calls('a', 'a')] }, '422 invalid_value messages[1].tool_calls[1].id'],
    [{ messages: [user, calls('a'), answer('a'), answer('a')] }, '422 invalid_value messages[3].tool_call_id'],
    [{ n: 8 }, 'ok'],
    [{ n: 9 }, '422 unsupported_value n'],
    [{ n: 129 }, '422 value_out_of_range n'],
    [{ n: 0 }, '422 value_out_of_range n'],
    [{ stop: 'x' }, 'ok'],
    [{ stop: Array(16).fill('x') }, 'ok'],
    [{ stop: Array(17).fill('x') }, '422 array_too_long stop'],
    [{ stop: [] }, 'ok'],
    [{ stop: '' }, '422 invalid_value stop'],
    [{ stop: 'x'.repeat(257) }, '422 string_too_long stop'],
    [{ stop: 5 }, '400 invalid_type stop'],
    [{ logprobs: true, top_logprobs: 20 }, 'ok'],
    [{ logprobs: true, top_logprobs: 21 }, '422 value_out_of_range top_logprobs'],
    [{ top_logprobs: 2 }, '422 conflicting_parameters top_logprobs'],
    [{ logit_bias: { 5: 100 } }, 'ok'],
    [{ logit_bias: { 5: 101 } }, '422 value_out_of_range logit_bias.5'],
    [{ logit_bias: { abc: 1 } }, '422 invalid_value logit_bias'],
    [{ logit_bias: { '05': 1 } }, '422 invalid_value logit_bias'],
    [{ logit_bias: [] }, '400 invalid_type logit_bias'],
    [
      { logit_bias: Object.fromEntries(Array.from({ length: 1025 }, (_, i) => [i, 1])) },
      '422 too_many_entries logit_bias',
    ],
    [{ stream_options: { include_usage: true } }, '422 conflicting_parameters stream_options'],
    [{ stream: true, stream_options: { include_usage: true } }, 'ok'],
    [{ stream: 'yes' }, '400 invalid_type stream'],
    [{ response_format: { type: 'text' } }, 'ok'],
    [{ response_format: { type: 'xml' } }, '400 unknown_variant response_format.type'],
    [{ response_format: { type: 'json_object' } }, 'ok'],
    [{ response_format: {} }, '400 missing_required_parameter response_format.type'],
    [{ response_format: 'text' }, '400 invalid_type response_format'],
    [schema({}), 'ok'],
    [schema({ strict: null, description: null }), 'ok'],
    [schema({ strict: 'yes' }), '400 invalid_type response_format.json_schema.strict'],
    [{ response_format: { type: 'json_schema' } }, '400 missing_required_parameter response_format.json_schema'],
    [schema({ name: undefined }), '400 missing_required_parameter response_format.json_schema.name'],
    [schema({ name: '' }), '422 invalid_value response_format.json_schema.name'],
    [schema({ name: 'x'.repeat(64) }), 'ok'],
    [schema({ name: 'x'.repeat(65) }), '422 string_too_long response_format.json_schema.name'],
    [schema({ name: 'a b' }), '422 invalid_value response_format.json_schema.name'],
    [{ response_format: { type: 'regex', pattern: 'a+' } }, 'ok'],
    [{ response_format: { type: 'regex' } }, '400 missing_required_parameter response_format.pattern'],
    [{ response_format: { type: 'regex', pattern: '' } }, '422 invalid_value response_format.pattern'],
    [
      { response_format: { type: 'regex', pattern: 'a'.repeat(16_385) } },
      '422 string_too_long response_format.pattern',
    ],
    [{ response_format: { type: 'grammar', grammar: 'root ::= [a]' } }, 'ok'],
    [{ response_format: { type: 'grammar' } }, '400 missing_required_parameter response_format.grammar'],
    [{ response_format: { type: 'grammar', grammar: '' } }, '422 invalid_value response_format.grammar'],
    [
      { response_format: { type: 'grammar', grammar: 'a'.repeat(65_537) } },
      '422 string_too_long response_format.grammar',
    ],
    [{ response_format: { type: 'choice', choices: ['a', 'b'] } }, 'ok'],
    [{ response_format: { type: 'choice', choices: [] } }, '400 missing_required_parameter response_format.choices'],
    [{ response_format: { type: 'choice', choices: [''] } }, '422 invalid_value response_format.choices[0]'],
    [{ response_format: { type: 'choice', choices: [1] } }, '400 invalid_type response_format.choices[0]'],
    [schema({ schema: undefined }), '400 missing_required_parameter response_format.json_schema.schema'],
    [schema({ schema: [] }), '400 invalid_type response_format.json_schema.schema'],
    [{ tools: [] }, 'ok'],
    [{ tools: null }, 'ok'],
    [{ tools: {} }, '400 invalid_type tools'],
    [{ tools: [5] }, '400 invalid_type tools[0]'],
    [{ tools: [tool('f')] }, 'ok'],
    [{ tools: [tool('f', { description: null, parameters: null, strict: null })] }, 'ok'],
    [{ tools: [tool('f', { parameters: { type: 'object' }, strict: true })] }, 'ok'],
    [{ tools: [{ type: 'function' }] }, '400 missing_required_parameter tools[0].function'],
    [{ tools: [{ function: { name: 'f' } }] }, '400 missing_required_parameter tools[0].type'],
    [{ tools: [{ type: 5 }] }, '400 unknown_variant tools[0].type'],
    [{ tools: [tool(5)] }, '400 invalid_type tools[0].function.name'],
    [{ tools: [tool(undefined)] }, '400 missing_required_parameter tools[0].function.name'],
    [{ tools: [tool('f', { parameters: [] })] }, '400 invalid_type tools[0].function.parameters'],
    [{ tools: [tool('f', { description: 5 })] }, '400 invalid_type tools[0].function.description'],
    [{ tools: [tool('x'.repeat(128))] }, 'ok'],
    [{ tools: [tool('x'.repeat(129))] }, '422 invalid_tool_name tools[0].function.name'],
    [{ tools: [tool('a b')] }, '422 invalid_tool_name tools[0].function.name'],
    [{ tools: [tool('f'), tool('f')] }, '422 duplicate_tool_name tools[1].function.name'],
    [{ tools: [tool('f'), { type: 'mcp' }] }, '422 unsupported_feature tools[1].type'],
    [{ tools: [tool('f'), { type: 'x' }] }, 'ok'],
    [{ tools: [{ type: 'custom', custom: { name: 'f' } }] }, 'ok'],
    [{ tools: [{ type: 'custom', custom: {} }] }, '400 missing_required_parameter tools[0].custom.name'],
    [{ tools: [tool('f'), { type: 'custom', custom: { name: 'f' } }] }, '422 duplicate_tool_name tools[1].custom.name'],
    [{ tools: Array.from({ length: 1_025 }, (_, i) => tool(`f${i}`)) }, 'ok'],
    [{ tools: Array.from({ length: 4_097 }, (_, i) => tool(`f${i}`)) }, '422 array_too_long tools'],
    [{ tool_choice: 'auto' }, 'ok'],
    [{ tool_choice: 'none' }, 'ok'],
    [{ tool_choice: null }, 'ok'],
    [{ tool_choice: 'required' }, '422 conflicting_parameters tool_choice'],
    [{ tool_choice: 5 }, '400 invalid_type tool_choice'],
    [{ tool_choice: 'sometimes' }, '422 invalid_value tool_choice'],
    [{ tool_choice: { type: 'odd' } }, '400 unknown_variant tool_choice.type'],
    [{ tool_choice: { type: 'function' } }, '400 missing_required_parameter tool_choice.function'],
    [{ tool_choice: named('x') }, '422 tool_not_found tool_choice'],
    [{ tools: [tool('f')], tool_choice: named('x') }, '422 tool_not_found tool_choice'],
    [{ tools: [tool('f')], tool_choice: named('f') }, 'ok'],
    [{ tools: [tool('f')], tool_choice: { type: 'custom', custom: { name: 'f' } } }, '422 tool_not_found tool_choice'],
    [{ tools: [tool('f')], tool_choice: allowed('auto', named('f')) }, 'ok'],
    [
      { tools: [tool('f')], tool_choice: allowed('required', named('f'), named('g')) },
      '422 tool_not_found tool_choice',
    ],
    [{ tools: [tool('f')], tool_choice: allowed('required') }, '422 conflicting_parameters tool_choice'],
    [
      { tools: [tool('f')], tool_choice: allowed('perhaps', named('f')) },
      '422 invalid_value tool_choice.allowed_tools.mode',
    ],
    [{ tools: [tool('f')], tool_choice: allowed('auto', { type: 'mcp' }) }, '422 tool_not_found tool_choice'],
    [
      { tools: [tool('f')], tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto' } } },
      '400 missing_required_parameter tool_choice.allowed_tools.tools',
    ],
    [{ parallel_tool_calls: false }, 'ok'],
    [{ parallel_tool_calls: null }, 'ok'],
    [{ parallel_tool_calls: 'no' }, '400 invalid_type parallel_tool_calls'],
    [{ store: true }, 'ok'],
    [{ store: 1 }, '400 invalid_type store'],
    [{ user: 'x'.repeat(512) }, 'ok'],
    [{ user: 'x'.repeat(513) }, '422 string_too_long user'],
    [{ safety_identifier: 'x'.repeat(513) }, '422 string_too_long safety_identifier'],
    [{ prompt_cache_key: 'x'.repeat(513) }, '422 string_too_long prompt_cache_key'],
    [
      {
        prompt_cache_options: {},
        prompt_cache_retention: '24h',
        prediction: { type: 'content', content: 'x' },
        verbosity: 'low',
      },
      'ok',
    ],
    [{ reasoning_effort: 'low' }, 'ok'],
    [{ reasoning_effort: 'huge' }, '422 invalid_value reasoning_effort'],
    [{ reasoning_effort: 3 }, '400 invalid_type reasoning_effort'],
    [{ audio: {} }, '422 unsupported_feature audio'],
    [{ functions: [{}] }, '400 missing_required_parameter functions[0].name'],
    [{ function_call: 'auto' }, '422 conflicting_parameters function_call'],
    [{ audio: null }, 'ok'],
    [{ modalities: ['text'] }, 'ok'],
    [{ modalities: ['text', 'audio'] }, '422 unsupported_feature modalities'],
    [{ modalities: ['smell'] }, '422 invalid_value modalities[0]'],
    [{ modalities: [] }, '422 invalid_value modalities'],
    [{ metadata: { a: 'b' } }, 'ok'],
    [{ metadata: { a: 1 } }, '400 invalid_type metadata.a'],
    [{ metadata: { ['k'.repeat(64)]: 'v'.repeat(512) } }, 'ok'],
    [{ metadata: { ['k'.repeat(65)]: 'b' } }, '422 string_too_long metadata'],
    [{ metadata: { a: 'v'.repeat(513) } }, '422 string_too_long metadata.a'],
    [{ metadata: Object.fromEntries(Array.from({ length: 16 }, (_, i) => [i, 'x'])) }, 'ok'],
    [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [i, 'x'])) }, '422 too_many_entries metadata'],
    [{ metadata: { ['k'.repeat(100)]: 5 } }, `400 invalid_type metadata.${'k'.repeat(64)}…`],
    [{ continue_final_message: true }, '422 conflicting_parameters continue_final_message'],
    [{ service_tier: 'auto' }, 'ok'],
    [{ service_tier: 'gold' }, '422 invalid_value service_tier'],
    [{ something_else: { deeply: ['unknown'] } }, 'ok'],
  ];
  for (const [change, expected] of cases)
    t.equal(outcome({ ...base, ...change }), expected, JSON.stringify(change).slice(0, 90));
  for (const body of [null, [], 'x', 5]) t.equal(outcome(body), '400 invalid_body null');
});

t.test('a body with many faults is refused without checking each of them', async (t) => {
  const many = 2_000_000;
  const deep = (levels: number): object => {
    let value: object = {};
    for (let i = 0; i < levels; i++) value = { properties: { a: value } };
    return value;
  };
  const cases: [name: string, change: object, expected: string][] = [
    [
      'parts',
      { messages: [{ role: 'user', content: new Array(many).fill(1) }] },
      '422 array_too_long messages[0].content',
    ],
    [
      'calls',
      { messages: [{ role: 'assistant', content: 'x', tool_calls: new Array(many).fill(1) }] },
      '422 array_too_long messages[0].tool_calls',
    ],
    ['messages', { messages: new Array(many).fill(1) }, '422 array_too_long messages'],
    [
      'messages within the bound',
      { messages: new Array(100_000).fill({ role: 'user', content: [{ type: 'odd' }] }) },
      '400 unknown_variant messages[0].content[0].type',
    ],
    ['tools', { tools: new Array(many).fill(1) }, '422 array_too_long tools'],
    ['stop', { stop: new Array(many).fill(1) }, '422 array_too_long stop'],
    ['modalities', { modalities: new Array(many).fill(1) }, '422 array_too_long modalities'],
    [
      'allowed tools',
      {
        tools: [{ type: 'function', function: { name: 'f' } }],
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: new Array(many).fill(1) } },
      },
      '422 array_too_long tool_choice.allowed_tools.tools',
    ],
    [
      'logit_bias',
      { logit_bias: Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [i, 'x'])) },
      '422 too_many_entries logit_bias',
    ],
    [
      'a schema that is one long list',
      {
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { enum: new Array(many).fill(1) } } },
      },
      '422 invalid_json_schema response_format.json_schema.schema',
    ],
    [
      'parts within the bound',
      {
        messages: [
          {
            role: 'user',
            content: new Array(200_000).fill({ type: 'image_url', image_url: { url: 'x', detail: 'odd' } }),
          },
        ],
      },
      '422 invalid_value messages[0].content[0].image_url.detail',
    ],
    [
      'tools with deep schemas of a wrong type',
      { tools: new Array(128).fill({ type: 'function', function: { name: 5, parameters: deep(250) } }) },
      '400 invalid_type tools[0].function.name',
    ],
  ];
  for (const [name, change, expected] of cases) {
    const spent = cpuTime();
    t.equal(outcome({ ...base, ...change }), expected, name);
    const ms = spent();
    t.ok(ms < 1_500, `${name}: ${ms.toFixed()} ms`);
  }
});

t.test('a structural error takes precedence over a content error, in any order', async (t) => {
  t.equal(outcome({ ...base, temperature: 9, zzz: 1, stop: 5 }), '400 invalid_type stop');
});

t.test('every field is parsed, and unknown fields are listed', async (t) => {
  const chat = parseChat({
    ...base,
    max_tokens: 5,
    max_completion_tokens: 7,
    top_k: -1,
    seed: -3,
    logprobs: true,
    temperature: 0,
    stop: ['a'],
    odd: 1,
    messages: [
      {
        role: 'developer',
        content: [
          { type: 'text', text: 'be' },
          { type: 'text', text: ' brief' },
        ],
      },
      ...base.messages,
    ],
  }).content(limits);
  t.same(chat.ignored, ['odd']);
  t.match(chat.request, {
    maxTokens: 7,
    topLogprobs: 0,
    stop: ['a'],
    n: 1,
    sampling: { topK: 0, temperature: 0, seed: -3n },
  });
  t.same(chat.request.messages[0], { role: 'system', content: 'be brief', name: undefined });
});

t.test('tools, tool choice and response format are parsed', async (t) => {
  const parameters = { type: 'object', properties: { a: { type: 'string' } } };
  const of = (change: object) => parseChat({ ...base, ...change }).content(limits).request;
  const tools = [
    { type: 'function', function: { name: 'f', description: 'does', parameters, strict: true } },
    { type: 'function', function: { name: 'g' } },
  ];
  const plain = of({});
  t.match(plain, {
    tools: [],
    toolChoice: { mode: 'none', allowed: null },
    parallelToolCalls: true,
    format: { type: 'text' },
  });
  const asked = of({ tools, parallel_tool_calls: false });
  t.same(asked.tools, [
    { name: 'f', description: 'does', parameters, strict: true, path: 'tools[0].function.parameters' },
    { name: 'g', description: null, parameters: null, strict: false, path: 'tools[1].function.parameters' },
  ]);
  t.equal(asked.tools[0]!.parameters, parameters, 'the schema is not copied');
  t.equal(asked.parallelToolCalls, false);
  const choices: [given: unknown, expected: object][] = [
    [undefined, { mode: 'auto', allowed: null }],
    ['none', { mode: 'none', allowed: null }],
    ['required', { mode: 'required', allowed: null }],
    [
      { type: 'function', function: { name: 'g' } },
      { mode: 'required', allowed: ['g'] },
    ],
    [
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f' } }] },
      },
      { mode: 'auto', allowed: ['f'] },
    ],
    [
      { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } },
      { mode: 'none', allowed: null },
    ],
  ];
  for (const [given, expected] of choices)
    t.same(of({ tools, tool_choice: given }).toolChoice, expected, JSON.stringify(given));
  t.same(of({ response_format: { type: 'json_object' } }).format, { type: 'json_object' });
  t.same(of({ response_format: { type: 'regex', pattern: 'a+' } }).format, {
    type: 'regex',
    pattern: 'a+',
    path: 'response_format.pattern',
  });
  t.same(of({ response_format: { type: 'grammar', grammar: 'root ::= [a]' } }).format, {
    type: 'grammar',
    grammar: 'root ::= [a]',
    path: 'response_format.grammar',
  });
  t.same(of({ response_format: { type: 'choice', choices: ['a', 'b'] } }).format, {
    type: 'choice',
    choices: ['a', 'b'],
    path: 'response_format.choices',
  });
  t.same(
    of({
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'n', schema: parameters, strict: true, description: 'd' },
      },
    }).format,
    { type: 'json_schema', name: 'n', schema: parameters, strict: true, path: 'response_format.json_schema.schema' },
  );
});

t.test('images keep their position in the text, and a list of only text parts becomes one string', async (t) => {
  const content = [
    { type: 'text', text: 'a' },
    { type: 'image_url', image_url: { url: 'https://x/y.png', detail: 'low' } },
    { type: 'text', text: 'b' },
  ];
  const { messages } = parseChat({
    ...base,
    messages: [
      { role: 'user', content },
      { role: 'user', content: [content[0], content[2]] },
    ],
  }).content(limits).request;
  t.same(
    messages.map((message) => message.content),
    [
      [
        { type: 'text', text: 'a' },
        {
          type: 'image',
          source: { kind: 'url', url: 'https://x/y.png' },
          detail: 'low',
          path: 'messages[0].content[1]',
        },
        { type: 'text', text: 'b' },
      ],
      'ab',
    ],
  );
});
