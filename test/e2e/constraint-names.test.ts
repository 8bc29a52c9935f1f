// Tests other servers' names for output constraints, in all API formats: the output satisfies the constraint, a request
// with two constraints is refused, and members without effect are listed.
import t from 'tap';
import { startMonolith } from './monolith.js';

const server = await startMonolith({
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());

interface Answer {
  status: number;
  ignored: string | null;
  text: string;
  error: { code: string; param: string };
}

async function post(path: string, body: object): Promise<Answer> {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
    },
    body: JSON.stringify({ model: 'tycho-1.0', ...body }),
  });
  const answer = (await response.json()) as {
    error: Answer['error'];
    choices?: { message?: { content: string }; text?: string }[];
    content?: { text: string }[];
    output?: { content: { text: string }[] }[];
  };
  const choice = answer.choices?.[0];
  const text =
    choice?.message?.content ?? choice?.text ?? (answer.content ?? answer.output?.at(-1)?.content)?.[0]?.text;
  return {
    status: response.status,
    ignored: response.headers.get('x-ignored-parameters'),
    text: text ?? '',
    error: answer.error,
  };
}

const messages = [{ role: 'user', content: 'Give me a value.' }];
const formats: [path: string, body: object][] = [
  ['/v1/chat/completions', { messages, max_tokens: 200 }],
  ['/v1/completions', { prompt: 'A value: ', max_tokens: 200 }],
  ['/v1/messages', { messages, max_tokens: 200 }],
  ['/v1/responses', { input: messages, max_output_tokens: 200, store: false }],
];
const schema = { type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'], additionalProperties: false };
const isJson = /^\s*\{\s*"a"\s*:\s*[12]\s*\}\s*$/;
const rules = 'root ::= "x" [ab] "y"';
const constraints: [constraint: object, expected: RegExp][] = [
  [{ structured_outputs: { json: schema } }, isJson],
  [{ structured_outputs: { json: JSON.stringify(schema) } }, isJson],
  [{ structured_outputs: { regex: '[ab]{3}' } }, /^[ab]{3}$/],
  [{ structured_outputs: { choice: ['left', 'right'] } }, /^(left|right)$/],
  [{ structured_outputs: { grammar: rules } }, /^x[ab]y$/],
  [{ structured_outputs: { grammar: 'start: "x" /[ab]/ END\nEND: "y"' } }, /^x[ab]y$/],
  [{ guided_json: schema }, isJson],
  [{ guided_regex: '[ab]{3}' }, /^[ab]{3}$/],
  [{ guided_choice: ['left', 'right'] }, /^(left|right)$/],
  [{ guided_grammar: rules }, /^x[ab]y$/],
  [{ json_schema: schema }, isJson],
  [{ json_schema: JSON.stringify(schema, null, 2) }, isJson],
  [{ regex: '[ab]{3}' }, /^[ab]{3}$/],
  [{ choice: ['left', 'right'] }, /^(left|right)$/],
  [{ grammar: rules }, /^x[ab]y$/],
  [{ ebnf: rules }, /^x[ab]y$/],
];

t.test('every name constrains the output in every format', async (t) => {
  for (const [path, body] of formats)
    for (const [constraint, expected] of constraints) {
      const { status, text, ignored } = await post(path, { ...body, ...constraint, temperature: 0 });
      const name = `${path} ${JSON.stringify(constraint)}`;
      t.equal(status, 200, name);
      t.match(text, expected, name);
      t.equal(ignored, null, name);
    }
  for (const response_format of [{ type: 'json_object', schema }]) {
    const { text } = await post('/v1/chat/completions', { messages, max_tokens: 200, response_format });
    t.match(text, isJson);
  }
});

t.test('what cannot be held is refused by name', async (t) => {
  const refused: [constraint: object, code: string, param: string][] = [
    [{ guided_regex: 'a', guided_choice: ['b'] }, 'conflicting_parameters', 'guided_choice'],
    [{ structured_outputs: { regex: 'a', choice: ['b'] } }, 'conflicting_parameters', 'structured_outputs.choice'],
    [{ structured_outputs: { json_object: true }, grammar: rules }, 'conflicting_parameters', 'grammar'],
    [{ structural_tag: '{}' }, 'unsupported_value', 'structural_tag'],
    [{ structured_outputs: { structural_tag: {} } }, 'unsupported_value', 'structured_outputs.structural_tag'],
    [{ guided_json: '{"type":' }, 'invalid_json_schema', 'guided_json'],
    [{ guided_json: '[]' }, 'invalid_json_schema', 'guided_json'],
    [{ guided_json: `${'{"not":'.repeat(600)}{}${'}'.repeat(600)}` }, 'invalid_json_schema', 'guided_json'],
    [{ guided_grammar: 'first: "a"' }, 'invalid_value', 'guided_grammar'],
    [{ regex: '(' }, 'invalid_value', 'regex'],
  ];
  for (const [path, body] of formats)
    for (const [constraint, code, param] of refused) {
      const { status, error } = await post(path, { ...body, ...constraint });
      const name = `${path} ${JSON.stringify(constraint).slice(0, 80)}`;
      t.equal(status, 422, name);
      if (path !== '/v1/messages') t.same([error.code, error.param], [code, param], name);
      else t.match(JSON.stringify(error), param, name);
    }
  const own: [path: string, body: object, param: string][] = [
    ['/v1/chat/completions', { messages, response_format: { type: 'json_object' } }, 'regex'],
    ['/v1/responses', { input: 'hi', text: { format: { type: 'json_object' } } }, 'regex'],
  ];
  for (const [path, body, param] of own) {
    const { status, error } = await post(path, { ...body, regex: 'a' });
    t.same([status, error.code, error.param], [422, 'conflicting_parameters', param], path);
  }
});

t.test('members without effect and a long list of unknown fields are named', async (t) => {
  const { ignored } = await post('/v1/chat/completions', {
    messages,
    max_tokens: 4,
    structured_outputs: { regex: 'ab', whitespace_pattern: ' ' },
  });
  t.equal(ignored, 'structured_outputs.whitespace_pattern');
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`unknown_${at}`, 1]));
  const long = await post('/v1/chat/completions', { messages, max_tokens: 1, ...many });
  t.equal(long.ignored?.split(', ').length, 21);
  t.match(long.ignored, /, and more$/);
});
