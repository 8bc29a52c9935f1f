// Tests, in every API format, that schemas and tool calls keep all digits of integers beyond 2^53, and the order of
// properties whose names are integers.

import t from 'tap';
import { startMonolith } from './monolith.js';

const server = await startMonolith({});
t.teardown(() => server.stop());

const CONST = '1234567890123456789',
  LISTED = '175928847299117063',
  LARGEST = '9223372036854775807',
  SMALLEST = '-9223372036854775808';

/**
 * Writes JSON that JSON.stringify cannot write: integers beyond 2^53, and integer names in their original order. Both
 * are given as `"#digits"`. This function removes the "#" and, unless the string is a name, the quotation marks.
 */
const raw = (body: object): string =>
  JSON.stringify(body)
    .replace(/"#(\d+)":/g, '"$1":')
    .replace(/"#(-?\d+)"/g, '$1');

async function post(path: string, body: object): Promise<{ status: number; text: string }> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    body: raw(body),
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
    },
  });
  return { status: response.status, text: await response.text() };
}

const schema = {
  type: 'object',
  required: ['one', '2025', '2024', 'listed', 'largest', 'smallest'],
  additionalProperties: false,
  properties: {
    one: { const: `#${CONST}` },
    '#2025': { const: true },
    '#2024': { const: false },
    listed: { type: 'integer', enum: [`#${LISTED}`] },
    largest: { type: 'integer', minimum: `#${LARGEST}`, maximum: `#${LARGEST}` },
    smallest: { type: 'integer', maximum: `#${SMALLEST}`, minimum: `#${SMALLEST}` },
  },
};
const messages = [{ role: 'user', content: 'Give the record.' }];
const model = 'tycho-1.0';

const requests: readonly (readonly [name: string, path: string, body: object])[] = [
  ...[true, false].map(
    (strict) =>
      [
        `chat completions, strict ${strict}`,
        '/v1/chat/completions',
        {
          model,
          messages,
          max_tokens: 600,
          reasoning_effort: 'none',
          response_format: { type: 'json_schema', json_schema: { name: 'r', strict, schema } },
        },
      ] as const,
  ),
  [
    'chat completions, tool',
    '/v1/chat/completions',
    {
      model,
      messages,
      max_tokens: 600,
      reasoning_effort: 'none',
      tool_choice: 'required',
      parallel_tool_calls: false,
      tools: [{ type: 'function', function: { name: 'lookup', strict: true, parameters: schema } }],
    },
  ],
  [
    'messages',
    '/v1/messages',
    { model, messages, max_tokens: 600, output_config: { format: { type: 'json_schema', schema } } },
  ],
  [
    'messages, tool',
    '/v1/messages',
    {
      model,
      messages,
      max_tokens: 600,
      tool_choice: { type: 'tool', name: 'lookup', disable_parallel_tool_use: true },
      tools: [{ name: 'lookup', input_schema: schema }],
    },
  ],
  [
    'messages, tool, streamed',
    '/v1/messages',
    {
      model,
      messages,
      max_tokens: 600,
      stream: true,
      tool_choice: { type: 'tool', name: 'lookup', disable_parallel_tool_use: true },
      tools: [{ name: 'lookup', input_schema: schema }],
    },
  ],
  [
    'responses',
    '/v1/responses',
    {
      model,
      input: 'Give the record.',
      max_output_tokens: 600,
      reasoning: { effort: 'none' },
      text: { format: { type: 'json_schema', name: 'r', strict: true, schema } },
    },
  ],
  [
    'responses, tool',
    '/v1/responses',
    {
      model,
      input: 'Give the record.',
      max_output_tokens: 600,
      reasoning: { effort: 'none' },
      tool_choice: 'required',
      parallel_tool_calls: false,
      tools: [{ type: 'function', name: 'lookup', strict: true, parameters: schema }],
    },
  ],
];

for (const [name, path, body] of requests) {
  t.test(`keeps the digits and the order of the schema: ${name}`, async (t) => {
    const { status, text } = await post(path, body);
    t.equal(status, 200, text.slice(0, 300));
    // Search only the text that the model wrote, because responses repeat the schema. Streamed arguments arrive in
    // deltas.
    const written = /"(?:content|text|arguments|partial_json)":"((?:[^"\\]|\\.)*)"|"input":(\{"one".*?\})/g;
    const answer = [...text.matchAll(written)].map(([, quoted, input]) => quoted ?? input).join('');
    t.match(answer, /one.*2025.*2024.*listed/s, 'properties keep their order');
    for (const digits of [CONST, LISTED, LARGEST, SMALLEST]) t.ok(answer.includes(digits), digits);
  });
}

t.test('two integers that are equal as JavaScript numbers are still different values in a schema', async (t) => {
  const contradiction = {
    allOf: [{ const: '#9007199254740993' }, { enum: ['#9007199254740992', '#9007199254740994'] }],
  };
  const { status, text } = await post('/v1/chat/completions', {
    model,
    messages,
    max_tokens: 20,
    reasoning_effort: 'none',
    response_format: { type: 'json_schema', json_schema: { name: 'r', strict: true, schema: contradiction } },
  });
  t.equal(status, 422, text);
  t.match(text, /invalid_json_schema/);
});
