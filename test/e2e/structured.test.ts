// Tests structured output as clients receive it, from the built-in models at a high temperature. Output that ends on
// its own must parse and validate, truncated output must have finish_reason length, and unsupported schemas must be
// refused with an error that names the keyword. A separate validator (Ajv) checks the output.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { startMonolith } from './monolith.js';

const server = await startMonolith({
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());

const ajv = new Ajv2020({ strict: false, allErrors: false });
(addFormats as unknown as (to: Ajv2020) => void)(ajv);

type Json = Record<string, unknown>;
interface Logprob {
  token: string;
  logprob: number;
}
interface Choice {
  finish_reason: 'stop' | 'length' | 'tool_calls';
  logprobs: { content: (Logprob & { top_logprobs: Logprob[] })[] } | null;
  message: {
    content: string | null;
    reasoning_content?: string;
    tool_calls?: { id: string; function: { name: string; arguments: string } }[];
  };
}
interface Answer {
  status: number;
  ignored: string | null;
  choices: Choice[];
  error: { code: string; param: string; message: string } | undefined;
  body: Json;
}

async function post(path: string, body: object): Promise<{ status: number; ignored: string | null; body: Json }> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
    },
  });
  return {
    status: response.status,
    ignored: response.headers.get('x-ignored-schema-keywords'),
    body: (await response.json()) as Json,
  };
}

async function chat(more: object): Promise<Answer> {
  const { status, ignored, body } = await post('/v1/chat/completions', {
    model: 'clarke-1.0',
    reasoning_effort: 'none',
    messages: [{ role: 'user', content: 'Tell me about Ada Lovelace and the weather in Paris.' }],
    ...more,
  });
  return {
    status,
    ignored,
    body,
    choices: (body['choices'] ?? []) as Choice[],
    error: body['error'] as Answer['error'],
  };
}

const strictFormat = (schema: object, strict = true): object => ({
  response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict } },
});

/** Returns null if `text` is JSON that the schema allows; otherwise, the error. */
function wrong(validate: ValidateFunction, text: string | null): string | null {
  try {
    return validate(JSON.parse(text ?? '')) ? null : `${ajv.errorsText(validate.errors)}: ${text?.slice(0, 300)}`;
  } catch (error) {
    return `${String(error)}: ${text?.slice(0, 300)}`;
  }
}

const closed = (properties: Json, required = Object.keys(properties)): Json => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

/** Every schema limits the output's length, so that no sample is truncated by the token limit. */
const SCHEMAS: Record<string, Json> = {
  'recursion, enum and pattern': {
    $ref: '#/$defs/node',
    $defs: {
      node: closed(
        {
          kind: { enum: ['leaf', 'branch', 'Ünïcode "quoted"'] },
          code: { type: 'string', pattern: '^[A-Z]{2}-\\d{1,4}$' },
          children: { type: 'array', items: { $ref: '#/$defs/node' }, maxItems: 2 },
        },
        ['kind', 'code'],
      ),
    },
  },
  'numbers and their bounds': closed({
    small: { type: 'integer', minimum: -5, maximum: 12 },
    open: { type: 'integer', exclusiveMinimum: 0, maximum: 999 },
    even: { type: 'integer', multipleOf: 2, minimum: 0, maximum: 10_000 },
    share: { enum: [0.5, 1e-3, -2] },
    flag: { type: 'boolean' },
    none: { type: 'null' },
  }),
  formats: closed({
    day: { type: 'string', format: 'date' },
    id: { type: 'string', format: 'uuid' },
    address: { type: 'string', format: 'ipv4' },
    time: { type: 'string', format: 'time', maxLength: 20 },
  }),
  unions: {
    anyOf: [
      closed({ a: { const: 'x' }, n: { type: 'integer', minimum: 0, maximum: 9 } }),
      closed({ a: { const: 'y' }, s: { type: 'string', maxLength: 8 } }),
      { type: 'array', items: { type: ['boolean', 'null'] }, minItems: 1, maxItems: 3 },
    ],
  },
  'lists and merged schemas': {
    allOf: [
      {
        type: 'object',
        properties: {
          pair: { type: 'array', prefixItems: [{ type: 'boolean' }, { enum: [1, 2] }], items: false, minItems: 2 },
        },
        required: ['pair'],
      },
      {
        properties: {
          more: { type: 'array', items: { type: 'string', minLength: 1, maxLength: 3 }, minItems: 1, maxItems: 4 },
        },
        required: ['more'],
      },
    ],
    maxProperties: 2,
  },
  'optional and open properties': {
    type: 'object',
    properties: { a: { type: 'integer', minimum: 0, maximum: 99 }, b: { type: 'string', maxLength: 4 } },
    patternProperties: { '^x_[a-c]$': { type: 'boolean' } },
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 3,
  },
};

for (const [name, schema] of Object.entries(SCHEMAS)) {
  t.test(`100 samples at temperature 1.5 parse and validate: ${name}`, async (t) => {
    const validate = ajv.compile(schema);
    const faults: string[] = [];
    let ended = 0,
      cut = 0;
    const models = ['hal-1.0', 'clarke-1.0', 'tycho-1.0'];
    await Promise.all(
      Array.from({ length: 13 }, async (_, index) => {
        const { status, choices, error } = await chat({
          model: models[index % 3],
          ...strictFormat(schema),
          temperature: 1.5,
          n: 8,
          seed: index,
          max_completion_tokens: 600,
        });
        if (status !== 200) faults.push(`${status} ${error?.message}`);
        for (const { finish_reason, message } of choices) {
          if (finish_reason === 'length') cut++;
          else ended++;
          const fault = finish_reason === 'stop' ? wrong(validate, message.content) : null;
          if (fault !== null) faults.push(fault);
        }
      }),
    );
    t.same(faults, []);
    t.equal(ended + cut, 104);
    t.ok(ended >= 100 || (name.startsWith('recursion') && ended > 50), `${cut} samples were truncated`);
  });
}

const weather = closed(
  {
    location: { type: 'string', maxLength: 24 },
    unit: { enum: ['celsius', 'fahrenheit'] },
    days: { type: 'integer', minimum: 1, maximum: 7 },
  },
  ['location', 'unit'],
);
const note = {
  type: 'object',
  properties: {
    text: { type: 'string', maxLength: 30 },
    tags: { type: 'array', items: { enum: ['a', 'b', 'c'] }, maxItems: 3 },
  },
  required: ['text'],
  additionalProperties: false,
};
const TOOLS: Record<string, Json> = { get_weather: weather, save_note: note };
const tools = Object.entries(TOOLS).map(([name, parameters]) => ({
  type: 'function',
  function: { name, description: `Does ${name}.`, parameters, strict: true },
}));
const validTool = Object.fromEntries(Object.entries(TOOLS).map(([name, schema]) => [name, ajv.compile(schema)]));

/** Returns the errors in the tool calls of a choice; empty if there are none. */
function wrongCalls({ message: { tool_calls: calls = [] }, finish_reason }: Choice): string[] {
  // The last call of a truncated response may be truncated too.
  return (finish_reason === 'length' ? calls.slice(0, -1) : calls).flatMap(
    ({ function: { name, arguments: text } }) => {
      const validate = validTool[name];
      const fault = validate === undefined ? `no tool ${name}` : wrong(validate, text);
      return fault === null ? [] : [fault];
    },
  );
}

t.test('forced tool calls always parse and validate', async (t) => {
  const faults: string[] = [];
  let calls = 0;
  await Promise.all(
    [0, 1, 2, 3].flatMap((seed) =>
      ['required', { type: 'function', function: { name: 'save_note' } }].map(async (tool_choice) => {
        const { status, choices } = await chat({
          tools,
          tool_choice,
          temperature: 1.5,
          n: 8,
          seed,
          max_completion_tokens: 400,
        });
        if (status !== 200) faults.push(String(status));
        for (const choice of choices) {
          if (choice.finish_reason === 'stop') faults.push('no call');
          calls += choice.message.tool_calls?.length ?? 0;
          faults.push(...wrongCalls(choice));
        }
      }),
    ),
  );
  t.same(faults, []);
  t.ok(calls >= 60, `${calls} calls`);
});

const shape = closed({ name: { type: 'string', maxLength: 16 }, age: { type: 'integer', minimum: 0, maximum: 130 } });
const FORMATS: Record<string, { format: object; holds(text: string): boolean }> = {
  text: { format: {}, holds: () => true },
  json_object: {
    format: { response_format: { type: 'json_object' } },
    holds: (text) => /^\s*\{/.test(text) && typeof JSON.parse(text) === 'object',
  },
  json_schema: { format: strictFormat(shape), holds: (text) => wrong(ajv.compile(shape), text) === null },
  regex: {
    format: { response_format: { type: 'regex', pattern: '(yes|no), [a-z]{1,9}( [a-z]{1,9}){0,3}\\.' } },
    holds: (text) => /^(yes|no), [a-z]{1,9}( [a-z]{1,9}){0,3}\.$/.test(text),
  },
  grammar: {
    format: {
      response_format: {
        type: 'grammar',
        grammar:
          'root ::= sum "."\nsum ::= sum " and " part | part  # left recursion\npart ::= "(" sum ")" | [a-z]{1,9}',
      },
    },
    holds: (text) =>
      /^[(]*[a-z]{1,9}([()]| and |[a-z])*\.$/.test(text) && text.split('(').length === text.split(')').length,
  },
  choice: {
    format: { response_format: { type: 'choice', choices: ['red', 'redder', 'green "grass"', '{"a"'] } },
    holds: (text) => ['red', 'redder', 'green "grass"', '{"a"'].includes(text),
  },
};
const CHOICES: readonly (object | string | null)[] = [
  null,
  'auto',
  'none',
  'required',
  { type: 'function', function: { name: 'get_weather' } },
];

for (const effort of ['none', 'low'] as const) {
  t.test(
    `every combination of tools, format, stop string and n gives valid output with reasoning ${effort}`,
    { timeout: 240_000 },
    async (t) => {
      let requests = 0,
        ended = 0,
        cut = 0,
        called = 0;
      for (const [name, { format, holds }] of Object.entries(FORMATS)) {
        await Promise.all(
          CHOICES.flatMap((tool_choice) =>
            [undefined, 'e'].flatMap((stop) =>
              [1, 3].map(async (n) => {
                const asked = {
                  model: 'hal-1.0',
                  reasoning_effort: effort,
                  temperature: 1.2,
                  max_completion_tokens: 220,
                  n,
                  seed: 7,
                  ...format,
                  ...(tool_choice === null ? {} : { tools, tool_choice }),
                  ...(stop === undefined ? {} : { stop }),
                };
                const label = JSON.stringify({ name, tool_choice, stop, n });
                const { status, choices, error } = await chat(asked);
                requests++;
                t.equal(status, 200, `${label} ${error?.message ?? ''}`);
                t.equal(choices.length, n, label);
                for (const choice of choices) {
                  const {
                    finish_reason,
                    message: { content, reasoning_content, tool_calls: calls = [] },
                  } = choice;
                  t.same(wrongCalls(choice), [], label);
                  if (effort === 'none') t.notOk(reasoning_content, label);
                  if (tool_choice === 'none' || tool_choice === null) t.same(calls, [], label);
                  if (stop !== undefined) t.notMatch(content ?? '', stop, label);
                  if (typeof tool_choice === 'object' && tool_choice !== null)
                    t.ok(calls.length <= 1 && calls.every((call) => call.function.name === 'get_weather'), label);
                  if (finish_reason === 'length') {
                    cut++;
                  } else if (finish_reason === 'tool_calls') {
                    called++;
                    t.ok(calls.length > 0, label);
                  } else {
                    ended++;
                    t.notOk(
                      tool_choice === 'required' || (typeof tool_choice === 'object' && tool_choice !== null),
                      `${label} must call a tool`,
                    );
                    if (stop === undefined) t.ok(holds(content ?? ''), `${label}: ${content}`);
                  }
                }
              }),
            ),
          ),
        );
      }
      t.comment(`${requests} requests: ${ended} texts, ${called} with tool calls, ${cut} cut`);
      t.ok(ended > 50 && called > 20);
    },
  );
}

t.test(
  'the same seed gives the same structured output, and every API format reports output truncated by the token limit',
  async (t) => {
    const asked = { ...strictFormat(SCHEMAS['formats']!), temperature: 1.5, seed: 11 };
    t.equal((await chat(asked)).choices[0]!.message.content, (await chat(asked)).choices[0]!.message.content);
    const schema = SCHEMAS['formats']!;
    t.match(await chat({ ...asked, max_completion_tokens: 4 }), {
      status: 200,
      choices: [{ finish_reason: 'length' }],
    });
    const message = await post('/v1/messages', {
      model: 'clarke-1.0',
      max_tokens: 4,
      messages: [{ role: 'user', content: 'x' }],
      output_config: { format: { type: 'json_schema', schema } },
    });
    t.match(message, { status: 200, body: { stop_reason: 'max_tokens' } });
    const response = await post('/v1/responses', {
      model: 'clarke-1.0',
      max_output_tokens: 16,
      input: 'x',
      reasoning: { effort: 'none' },
      text: { format: { type: 'json_schema', name: 'n', strict: true, schema } },
    });
    t.match(response, {
      status: 200,
      body: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    });
  },
);

t.test('in every API format, the error for an unsupported or invalid schema names path and keyword', async (t) => {
  const bad = closed({
    list: {
      type: 'array',
      items: { type: 'object', properties: { deep: { type: 'array', uniqueItems: true, items: { type: 'object' } } } },
    },
  });
  const below = '.properties.list.items.properties.deep.uniqueItems';
  const input = { type: 'function', name: 'f', parameters: bad, strict: true };
  const cases: [path: string, body: object, param: string][] = [
    [
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: 'x' }], ...strictFormat(bad) },
      'response_format.json_schema.schema',
    ],
    [
      '/v1/chat/completions',
      {
        messages: [{ role: 'user', content: 'x' }],
        tools: [...tools, { type: 'function', function: { name: 'f', parameters: bad, strict: true } }],
      },
      'tools[2].function.parameters',
    ],
    [
      '/v1/responses',
      { input: 'x', text: { format: { type: 'json_schema', name: 'n', strict: true, schema: bad } } },
      'text.format.schema',
    ],
    ['/v1/responses', { input: 'x', tools: [input] }, 'tools[0].parameters'],
    [
      '/v1/messages',
      {
        max_tokens: 8,
        messages: [{ role: 'user', content: 'x' }],
        output_config: { format: { type: 'json_schema', schema: bad } },
      },
      'output_config.format.schema',
    ],
    [
      '/v1/messages',
      {
        max_tokens: 8,
        messages: [{ role: 'user', content: 'x' }],
        tools: [{ name: 'f', input_schema: bad, strict: true }],
      },
      'tools[0].input_schema',
    ],
  ];
  for (const [path, body, param] of cases) {
    const refused = await post(path, { model: 'clarke-1.0', ...body });
    t.equal(refused.status, 422, `${path} ${param}`);
    const text = JSON.stringify(refused.body);
    for (const word of [
      'unsupported_json_schema',
      param + below,
      'uniqueItems',
      '/properties/list/items/properties/deep',
    ])
      t.ok(text.includes(word), `${path}: ${word} in ${text}`);
  }
  t.match(await chat(strictFormat({ type: 'object', properties: { a: { type: 'strnig' } } })), {
    status: 422,
    error: { code: 'invalid_json_schema', param: 'response_format.json_schema.schema.properties.a.type' },
  });
  t.match(await chat(strictFormat({ type: 'string', minLength: 3, maxLength: 2 })), {
    status: 422,
    error: { code: 'invalid_json_schema' },
  });
  t.match(await chat({ response_format: { type: 'regex', pattern: '(?<=a)b' } }), {
    status: 422,
    error: { param: 'response_format.pattern' },
  });
  t.match(await chat({ response_format: { type: 'grammar', grammar: 'root ::= "a\n' } }), {
    status: 422,
    error: {
      code: 'invalid_value',
      param: 'response_format.grammar',
      message: /line 1, column 10: a literal is not closed/,
    },
  });
  t.match(await chat({ response_format: { type: 'regex', pattern: 'a(' } }), {
    status: 422,
    error: { code: 'invalid_value', param: 'response_format.pattern' },
  });
});

t.test('without strict, unsupported keywords are listed in a header and the others are enforced', async (t) => {
  const loose = {
    ...shape,
    properties: {
      ...(shape['properties'] as Json),
      tags: { type: 'array', uniqueItems: true, maxItems: 2, items: { enum: [['a'], ['b']] } },
    },
  };
  const answer = await chat({ ...strictFormat(loose, false), temperature: 1.5, n: 4, max_completion_tokens: 300 });
  t.equal(answer.ignored, 'response_format.json_schema.schema.properties.tags.uniqueItems');
  const validate = ajv.compile({
    ...loose,
    properties: { ...loose.properties, tags: { type: 'array', maxItems: 2, items: { enum: [['a'], ['b']] } } },
  });
  for (const { message, finish_reason } of answer.choices)
    if (finish_reason === 'stop') t.equal(wrong(validate, message.content), null);
  const tool = { type: 'function', function: { name: 'f', parameters: loose } };
  t.equal(
    (await chat({ tools: [tool], max_completion_tokens: 4 })).ignored,
    'tools[0].function.parameters.properties.tags.uniqueItems',
  );
  t.equal((await chat({ tools, max_completion_tokens: 4 })).ignored, null);
});

t.test('log probabilities are those of the constrained distribution', async (t) => {
  const words = ['zebra', 'lion', 'lynx'];
  const { status, choices } = await chat({
    max_tokens: 12,
    logprobs: true,
    top_logprobs: 20,
    response_format: { type: 'choice', choices: words },
  });
  t.equal(status, 200);
  const [choice] = choices;
  t.ok(words.includes(choice?.message.content ?? ''), choice?.message.content ?? '');
  let text = '';
  for (const { token, logprob, top_logprobs: top } of choice?.logprobs?.content ?? []) {
    const total = top.reduce((sum, one) => sum + Math.exp(one.logprob), 0);
    t.ok(Math.abs(total - 1) < 1e-4, `the allowed tokens after "${text}" add up to ${total}`);
    for (const one of top)
      t.ok(
        words.some((word) => word.startsWith(text + one.token)),
        `"${one.token}" is possible after "${text}"`,
      );
    t.ok(
      top.some((one) => one.token === token && one.logprob === logprob),
      `"${token}" is one of them`,
    );
    text += token;
  }
  t.equal(text, choice?.message.content);
});

t.test('the model object reports support for structured outputs', async (t) => {
  const response = await fetch(`${server.url}/v1/models/clarke-1.0`, {
    headers: { 'x-api-key': server.key, 'anthropic-version': '2023-06-01' },
  });
  t.match(await response.json(), { capabilities: { structured_outputs: { supported: true } } });
});
