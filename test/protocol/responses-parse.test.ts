import t from 'tap';
import { ApiError } from '../../src/shared/errors.js';
import type { ServedModel } from '../../src/generation/served-models.js';
import { parseCreate, type CreateGeneration, type ParseOptions } from '../../src/protocol/responses/parse.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import { cpuTime } from '../support/cpu-time.js';

const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m', 'other']);
const model: ServedModel = {
  name: 'm',
  recordedAs: 'm',
  asked: 'm',
  lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
  sampling: { temperature: 0.7, top_p: 0.9, top_k: 0, min_p: 0, repetition_penalty: 1 },
  ensureLoaded: () => Promise.resolve(),
  ready: () => {
    throw new Error('not needed');
  },
};
const base = { model: 'm', input: 'hi' };

function parse(body: unknown, options?: ParseOptions): CreateGeneration {
  return parseCreate(body, { organizationId: 'org_a', sealer }, options).content({ model, chain: [] });
}

function outcome(body: unknown, options?: ParseOptions): string {
  try {
    parse(body, options);
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
      ['presence_penalty', -2, 2, -2.01, 2.01],
      ['frequency_penalty', -2, 2, -2.01, 2.01],
      ['top_k', -1, 1000, -2, 1001],
      ['min_p', 0, 1, -0.01, 1.01],
      ['repetition_penalty', 0.01, 2, 0, 2.01],
      ['top_logprobs', 0, 20, -1, 21],
    ];
    for (const [name, low, high, below, above] of rows) {
      for (const good of [low, high, null]) t.equal(outcome({ ...base, [name]: good }), 'ok', `${name}: ${good}`);
      for (const bad of [below, above])
        t.equal(outcome({ ...base, [name]: bad }), `422 value_out_of_range ${name}`, `${name}: ${bad}`);
      for (const bad of ['1', true, {}])
        t.equal(outcome({ ...base, [name]: bad }), `400 invalid_type ${name}`, `${name}: ${JSON.stringify(bad)}`);
    }
    for (const name of ['max_output_tokens', 'max_tool_calls']) {
      t.equal(outcome({ ...base, [name]: 1 }), 'ok', 'the minimum of other vendors does not apply');
      t.equal(
        outcome({ ...base, [name]: 10_000_000 }),
        'ok',
        'a value above the model maximum is accepted and clamped later',
      );
      t.equal(outcome({ ...base, [name]: 0 }), `422 value_out_of_range ${name}`);
      t.equal(outcome({ ...base, [name]: 1.5 }), `400 invalid_type ${name}`);
    }
  },
);

t.test('each invalid Responses request is refused with its code and parameter', async (t) => {
  const fn = (name: unknown, more: object = {}) => ({ type: 'function', name, ...more });
  const format = (change: object) => ({
    text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' }, ...change } },
  });
  const tools = { tools: [fn('f'), { type: 'web_search' }] };
  const allowed = (...names: string[]) => ({
    tool_choice: { type: 'allowed_tools', tools: names.map((name) => fn(name)) },
  });
  const cases: [change: object, expected: string][] = [
    [{ model: undefined }, '400 missing_required_parameter model'],
    [{ model: 1 }, '400 invalid_type model'],
    [{ model: null, previous_response_id: 'resp_x' }, 'ok'],
    [{ input: undefined }, '400 missing_required_parameter input'],
    [{ input: undefined, previous_response_id: 'resp_x', instructions: 'go' }, 'ok'],
    [{ input: [] }, '400 missing_required_parameter input'],
    [{ input: [{ type: 'web_search_call', id: 'ws_1' }] }, 'ok'],
    [{ input: 5 }, '400 invalid_type input'],
    [{ input: '' }, 'ok'],
    [{ instructions: 5 }, '400 invalid_type instructions'],
    [{ previous_response_id: 5 }, '400 invalid_type previous_response_id'],
    [{ store: 'yes' }, '400 invalid_type store'],
    [{ background: true }, 'ok'],
    [{ background: true, store: false }, '422 conflicting_parameters background'],
    [{ stream: 1 }, '400 invalid_type stream'],
    [{ stream_options: { include_obfuscation: true } }, 'ok'],
    [{ stop: [] }, 'ok'],
    [{ stop: ['a', 'b'] }, 'ok'],
    [{ reasoning: { effort: 'max', summary: 'detailed' } }, 'ok'],
    [{ reasoning: { effort: null, summary: null } }, 'ok'],
    [{ reasoning: { effort: 'huge' } }, '422 invalid_value reasoning.effort'],
    [{ reasoning: { summary: 'long' } }, '422 invalid_value reasoning.summary'],
    [{ reasoning: { generate_summary: 'concise' } }, 'ok'],
    [{ reasoning: 'high' }, '400 invalid_type reasoning'],
    [{ text: { verbosity: 'low' } }, 'ok'],
    [{ text: { verbosity: 'chatty' } }, '422 invalid_value text.verbosity'],
    [{ text: { format: { type: 'xml' } } }, '400 unknown_variant text.format.type'],
    [{ text: { format: { type: 'json_object' } } }, 'ok'],
    [format({}), 'ok'],
    [format({ name: 'a b' }), '422 invalid_value text.format.name'],
    [format({ schema: null }), '400 missing_required_parameter text.format.schema'],
    [format({ strict: 'yes' }), '400 invalid_type text.format.strict'],
    [
      format({ strict: true, schema: { description: 'x'.repeat(256 * 1024) } }),
      '422 invalid_json_schema text.format.schema',
    ],
    [
      {
        input: Array.from({ length: 2_001 }, (_, at) =>
          at % 2 === 0 ? { type: 'item_reference', id: 'msg_1' } : { id: 'msg_1' },
        ),
      },
      '422 array_too_long input',
    ],
    [{ input: Array.from({ length: 2_000 }, () => ({ id: 'msg_1' })) }, '404 item_not_found input[0]'],
    [{ tools: null }, 'ok'],
    [{ tools: Array.from({ length: 4_097 }, () => fn('f')) }, '422 array_too_long tools'],
    [{ tools: [{ name: 'f' }] }, '400 missing_required_parameter tools[0].type'],
    [{ tools: [fn(5)] }, '400 invalid_type tools[0].name'],
    [{ tools: [fn('a b')] }, '422 invalid_tool_name tools[0].name'],
    [{ tools: [fn('f'), fn('f')] }, '422 duplicate_tool_name tools[1].name'],
    [{ tools: [fn('f', { parameters: 'none' })] }, '400 invalid_type tools[0].parameters'],
    [
      { tools: [fn('f', { strict: true, parameters: { type: 'strnig' } })] },
      '422 invalid_json_schema tools[0].parameters.type',
    ],
    [{ tools: [{ type: 'namespace', name: 'n', tools: [fn('f'), { type: 'mcp' }] }, fn('f')] }, 'ok'],
    [
      { tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'custom' }] }] },
      '400 missing_required_parameter tools[0].tools[0].name',
    ],
    [
      { tools: [{ type: 'namespace', name: 'n'.repeat(64), tools: [fn('f'.repeat(64))] }] },
      '422 invalid_tool_name tools[0].tools[0].name',
    ],
    [{ tools: [{ type: 'namespace', name: '', tools: [fn('f')] }] }, '422 invalid_value tools[0].name'],
    [
      { tools: [{ type: 'namespace', name: 'n', tools: [fn(undefined)] }] },
      '400 missing_required_parameter tools[0].tools[0].name',
    ],
    [{ ...tools, tool_choice: 'none' }, 'ok'],
    [{ ...tools, tool_choice: 'always' }, '422 invalid_value tool_choice'],
    [{ ...tools, tool_choice: { type: 'function', name: 'f' } }, 'ok'],
    [{ ...tools, tool_choice: { type: 'function', name: 'g' } }, '422 tool_not_found tool_choice'],
    [{ ...tools, tool_choice: { type: 'web_search' } }, '422 tool_not_found tool_choice'],
    [{ ...tools, tool_choice: { type: 'custom', name: 'c' } }, '422 tool_not_found tool_choice'],
    [{ ...tools, tool_choice: { type: 'wish' } }, '400 unknown_variant tool_choice.type'],
    [{ ...tools, ...allowed('f') }, 'ok'],
    [{ ...tools, ...allowed('f', 'g') }, '422 tool_not_found tool_choice'],
    [{ ...tools, ...allowed() }, '400 missing_required_parameter tool_choice.tools'],
    [{ tools: [{ type: 'web_search' }], tool_choice: 'required' }, '422 conflicting_parameters tool_choice'],
    [{ truncation: 'auto' }, 'ok'],
    [{ truncation: 'some' }, '422 invalid_value truncation'],
    [{ include: ['reasoning.encrypted_content', 'web_search_call.results', 'code_interpreter_call.outputs'] }, 'ok'],
    [{ include: ['everything'] }, '422 invalid_value include[0]'],
    [{ include: [5] }, '400 invalid_type include[0]'],
    [{ metadata: { k: 'v'.repeat(513) } }, '422 string_too_long metadata.k'],
    [{ metadata: { ['k'.repeat(65)]: 'v' } }, '422 string_too_long metadata'],
    [
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, 'v'])) },
      '422 too_many_entries metadata',
    ],
    [{ prompt_cache_key: 'k'.repeat(513) }, '422 string_too_long prompt_cache_key'],
    [{ safety_identifier: 'k'.repeat(513) }, '422 string_too_long safety_identifier'],
    [{ user: 'k'.repeat(513) }, '422 string_too_long user'],
    [{ service_tier: 'priority' }, 'ok'],
    [{ service_tier: 'gold' }, '422 invalid_value service_tier'],
    [{ conversation: null, prompt: null, moderation: null }, 'ok'],
    [{ conversation: 'conv_1', store: false }, '422 conflicting_parameters conversation'],
    [{ conversation: 1 }, '400 invalid_type conversation'],
    [{ prompt: { id: 'p' } }, '422 unsupported_parameter prompt'],
    [{ moderation: {} }, '422 unsupported_parameter moderation'],
    [{ prompt_cache_retention: 'forever' }, '422 invalid_value prompt_cache_retention'],
    [{ prompt_cache_options: { ttl: '1h' } }, '422 invalid_value prompt_cache_options.ttl'],
    [{ prompt_cache_options: { mode: 'manual' } }, '422 invalid_value prompt_cache_options.mode'],
    [
      { prompt_cache_options: { comparison_response_id: 'r'.repeat(513) } },
      '422 string_too_long prompt_cache_options.comparison_response_id',
    ],
    [
      { prompt_cache_options: { comparison_response_id: 5 } },
      '400 invalid_type prompt_cache_options.comparison_response_id',
    ],
    [{ context_management: [], access_programs: 1, image: 2, prompt_cache_retention: '24h' }, 'ok'],
    [{ temperature: 'hot', input: undefined }, '400 invalid_type temperature'],
    [{ temperature: 3, input: [{ type: 'nope' }] }, '400 unknown_variant input[0].type'],
  ];
  for (const [change, expected] of cases)
    t.equal(outcome({ ...base, ...change }), expected, JSON.stringify(change).slice(0, 120));
  t.equal(outcome([]), '400 invalid_body null');
});

t.test('the response object repeats every field, with its effective or default value', async (t) => {
  t.same(parse(base).echo, {
    background: false,
    instructions: null,
    model: 'm',
    previous_response_id: null,
    conversation: null,
    tools: [],
    tool_choice: 'auto',
    parallel_tool_calls: true,
    max_tool_calls: null,
    max_output_tokens: null,
    temperature: 0.7,
    top_p: 0.9,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_logprobs: 0,
    truncation: 'disabled',
    text: { format: { type: 'text' } },
    reasoning: { effort: null, summary: null },
    store: true,
    metadata: {},
    safety_identifier: null,
    prompt_cache_key: null,
    user: null,
  });
  const schema = { type: 'object', properties: {} };
  const parameters = { type: 'object', properties: { city: { type: 'string' } } };
  t.match(
    parse({
      ...base,
      temperature: 0,
      top_p: 1,
      top_logprobs: 2,
      max_output_tokens: 50,
      instructions: 'be kind',
      store: false,
      metadata: { k: 'v' },
      user: 'u',
      reasoning: { effort: 'low', generate_summary: 'auto' },
      parallel_tool_calls: false,
      truncation: 'auto',
      text: { format: { type: 'json_schema', name: 'n', schema }, verbosity: 'low' },
      tools: [
        { type: 'function', name: 'f', parameters, strict: false },
        { type: 'web_search' },
        { type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'g', description: 'd' }] },
      ],
      tool_choice: { type: 'allowed_tools', tools: [{ type: 'function', name: 'g', namespace: 'crm' }] },
    }).echo,
    {
      temperature: 0,
      top_p: 1,
      top_logprobs: 2,
      max_output_tokens: 50,
      instructions: 'be kind',
      store: false,
      metadata: { k: 'v' },
      user: 'u',
      reasoning: { effort: 'low', summary: 'auto' },
      parallel_tool_calls: false,
      truncation: 'auto',
      text: { format: { type: 'json_schema', name: 'n', description: null, schema, strict: false }, verbosity: 'low' },
      tools: [
        { type: 'function', name: 'f', description: null, parameters, strict: false },
        { type: 'function', name: 'g', namespace: 'crm', description: 'd', parameters: null, strict: null },
      ],
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'g', namespace: 'crm' }] },
    },
  );
});

t.test("the model sees a namespace's description with its first tool", async (t) => {
  const tools = [
    { type: 'web_search' },
    { type: 'function', name: 'f', description: 'Counts.' },
    { type: 'custom', name: 'c' },
  ];
  const namespace = (name: string, description: string | null) => ({ type: 'namespace', name, description, tools });
  const { request, echo } = parse({
    ...base,
    tools: [
      namespace('crm', 'Customers.'),
      namespace('erp', null),
      { ...namespace('web', 'Pages.'), tools: [tools[2]] },
    ],
  });
  t.same(
    request.tools.map(({ name, description }) => [name, description]),
    [
      ['crm__f', 'crm: Customers.\n\nCounts.'],
      ['crm__c', undefined],
      ['erp__f', 'Counts.'],
      ['erp__c', undefined],
      ['web__c', 'web: Pages.'],
    ],
  );
  t.match(echo.tools, [{ description: 'Counts.' }, { description: null }], 'the echo is unchanged');
});

t.test('every setting is passed to the model', async (t) => {
  const created = parse({
    ...base,
    instructions: 'be kind',
    top_logprobs: 0,
    include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
    stop: 'x',
    seed: 5,
    reasoning: { effort: 'high' },
    made_up: 1,
    tools: [
      {
        type: 'namespace',
        name: 'crm',
        tools: [{ type: 'function', name: 'g' }, { type: 'web_search' }, { type: 'custom', name: 'c' }],
      },
      { type: 'mcp' },
      { type: 'mcp' },
    ],
    tool_choice: { type: 'function', name: 'g', namespace: 'crm' },
  });
  t.match(created.request, {
    model: 'm',
    n: 1,
    maxTokens: null,
    stop: ['x'],
    topLogprobs: 0,
    effort: 'high',
    truncation: 'disabled',
    promptParam: 'input',
    format: { type: 'text' },
    sampling: { seed: 5n },
    parallelToolCalls: false,
    tools: [{ name: 'crm__g' }, { name: 'crm__c', custom: { grammar: null } }],
    toolChoice: { mode: 'required', allowed: ['crm__g'] },
    messages: [
      { role: 'system', content: 'be kind' },
      { role: 'user', content: 'hi' },
    ],
  });
  t.same(
    [...created.toolNames],
    [
      ['crm__g', { name: 'g', namespace: 'crm', custom: false }],
      ['crm__c', { name: 'c', namespace: 'crm', custom: true }],
    ],
  );
  t.same([created.ignored, created.ignoredTools], [['made_up'], ['web_search', 'mcp']]);
  t.match(created, {
    sealReasoning: true,
    summarize: false,
    store: true,
    stream: false,
    background: false,
    prewarm: false,
  });
  t.same(
    created.conversation.map(({ role }) => role),
    ['user'],
  );
  t.equal(parse({ ...base, top_logprobs: 3 }).request.topLogprobs, 3, 'top_logprobs alone enables log-probabilities');
  t.equal(parse(base).request.topLogprobs, null);
});

t.test('the input may be empty if nothing is generated', async (t) => {
  for (const [change, options] of [
    [{ generate: false }, {}],
    [{ prompt_cache_options: { prewarm: true } }, {}],
    [{}, { prewarm: true }],
  ] as const) {
    const created = parse({ model: 'm', input: [], ...change }, options);
    t.same([created.prewarm, created.request.maxTokens], [true, 0]);
  }
  t.equal(
    outcome({ model: 'm', prompt_cache_options: { prewarm: true } }, { prewarm: false }),
    '400 missing_required_parameter input',
    'input is required if something is generated',
  );
});

t.test('32 MiB of invalid data are refused quickly', async (t) => {
  const many = (count: number, make: (at: number) => unknown) => Array.from({ length: count }, (_, at) => make(at));
  const bodies: [name: string, body: object][] = [
    ['items', { ...base, input: many(3_000_000, () => ({})) }],
    [
      'wrong items',
      { ...base, input: many(32_768, () => ({ type: 'message', role: 'user', content: [{ type: 'x' }] })) },
    ],
    [
      'wrong in content',
      { ...base, input: many(32_768, () => ({ type: 'function_call', call_id: '', name: '', arguments: '' })) },
    ],
    ['parts', { ...base, input: [{ role: 'user', content: many(1_000_000, () => ({ type: 'x' })) }] }],
    ['wrong parts', { ...base, input: [{ role: 'user', content: many(100_000, () => ({ type: 'x' })) }] }],
    [
      'tools',
      {
        ...base,
        tools: many(128, () => ({ type: 'namespace', name: 'n', tools: many(128, () => ({ type: 'function' })) })),
      },
    ],
    ['include', { ...base, include: many(1_000_000, () => 'x') }],
    ['choices', { ...base, tool_choice: { type: 'allowed_tools', tools: many(1_000_000, () => 5) } }],
    ['metadata', { ...base, metadata: Object.fromEntries(many(100_000, (at) => [`k${at}`, 5]) as [string, number][]) }],
  ];
  for (const [name, body] of bodies) {
    const spent = cpuTime();
    t.not(outcome(body), 'ok', name);
    const ms = spent();
    t.ok(ms < 1_500, `${name}: ${ms.toFixed()} ms`);
  }
});
