// Tests structured output from upstream models. If the upstream enforces the format, the format is passed on.
// Otherwise, the server validates the output itself and reports this. The small schema validator is compared with a
// complete validator.
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { schemaProblem } from '../../../src/generation/upstream/schema-problem.js';
import { startGateway, startStandIn, stream } from '../../support/stand-in.js';

const standIn = await startStandIn(stream());
const kinds = ['json_schema', 'json_object', 'vllm', 'llama-server', 'monolith', 'none'] as const;
const gateway = await startGateway({
  ...Object.fromEntries(kinds.map((kind) => [kind, { upstream: { url: standIn.url, structured_outputs: kind } }])),
  messages: { upstream: { url: standIn.url, api: 'messages' } },
});
t.teardown(async () => {
  await gateway.close();
  await standIn.close();
});

const schema = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Oslo', 'Rome'] } },
  required: ['city'],
  additionalProperties: false,
};
const forms = {
  loose: { type: 'json_schema', json_schema: { name: 'city', schema } },
  schema: { type: 'json_schema', json_schema: { name: 'city', schema, strict: true } },
  object: { type: 'json_object' },
  choice: { type: 'choice', choices: ['yes', 'no'] },
  regex: { type: 'regex', pattern: 'a+' },
  grammar: { type: 'grammar', grammar: 'root ::= "a"' },
};

async function answer(
  model: string,
  form: keyof typeof forms,
  text: string,
  finish = 'stop',
): Promise<{ status: number; body: any; header: string | null; sent: any }> {
  standIn.say = stream(
    { choices: [{ index: 0, delta: { content: text }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: finish }] },
    '[DONE]',
  );
  const before = standIn.heard.length;
  const response = await gateway.post('/v1/chat/completions', {
    model,
    messages: [{ role: 'user', content: 'Which?' }],
    response_format: forms[form],
  });
  return {
    status: response.status,
    body: await response.json(),
    header: response.headers.get('x-structured-output'),
    sent: standIn.heard[before]?.body,
  };
}

t.test('a Messages upstream supports only JSON schemas; other formats are validated here', async (t) => {
  const said = (text: string) =>
    stream(
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
      { type: 'message_stop' },
    );
  const ask = (form: keyof typeof forms) =>
    gateway.post('/v1/chat/completions', {
      model: 'messages',
      messages: [{ role: 'user', content: 'Which?' }],
      response_format: forms[form],
    });
  standIn.say = said('{"city":"Oslo"}');
  t.equal((await ask('schema')).headers.get('x-structured-output'), null);
  t.match(standIn.heard.at(-1)!.body, { output_config: { format: { schema } } });
  t.equal((await ask('object')).headers.get('x-structured-output'), 'checked');
  t.equal((await ask('regex')).status, 422);
});

t.test('passes on formats that an upstream enforces', async (t) => {
  t.match(await answer('json_schema', 'schema', '{"city":"Oslo"}'), {
    status: 200,
    header: null,
    sent: { response_format: { type: 'json_schema', json_schema: { name: 'city', schema, strict: true } } },
  });
  t.match(await answer('json_object', 'object', '{}'), {
    status: 200,
    header: null,
    sent: { response_format: { type: 'json_object' } },
  });
  t.match(await answer('vllm', 'regex', 'aa'), {
    status: 200,
    header: null,
    sent: { structured_outputs: { regex: 'a+' } },
  });
  t.match(await answer('vllm', 'choice', 'yes'), {
    status: 200,
    header: null,
    sent: { structured_outputs: { choice: ['yes', 'no'] } },
  });
  t.match(await answer('llama-server', 'grammar', 'a'), {
    status: 200,
    header: null,
    sent: { grammar: 'root ::= "a"' },
  });
  for (const [form, text] of [
    ['regex', 'aa'],
    ['choice', 'yes'],
    ['grammar', 'a'],
  ] as const) {
    t.match(await answer('monolith', form, text), {
      status: 200,
      header: null,
      sent: { response_format: forms[form] },
    });
  }
  t.match(
    await answer('json_schema', 'loose', '{}'),
    { sent: { response_format: { json_schema: { strict: false } } } },
    '`strict` is passed on as requested',
  );
});

t.test('otherwise validates the response and reports a mismatch', async (t) => {
  t.match(await answer('none', 'schema', '{"city":"Oslo"}'), {
    status: 200,
    header: 'checked',
    sent: { response_format: undefined },
  });
  t.match(await answer('json_object', 'schema', '{"city":"Oslo"}'), {
    status: 200,
    header: 'checked',
    sent: { response_format: { type: 'json_object' } },
  });
  for (const [model, form, text, words] of [
    ['none', 'schema', '{"city":"Paris"}', /city is not one of the allowed values/],
    ['json_object', 'schema', '{}', /city is missing/],
    ['none', 'schema', '{"city":"Oslo","more":1}', /an additional member is not/],
    ['none', 'object', '[]', /not a JSON object/],
    ['none', 'choice', 'maybe', /not one of the choices/],
    ['none', 'schema', 'Oslo', /not valid JSON/],
  ] as const) {
    const { status, body } = await answer(model, form, text);
    t.equal(status, 500, text);
    t.match(body.error, { code: 'model_error', message: words });
    t.notMatch(body.error.message, /Paris|more|maybe/, 'the error quotes no part of the response');
  }
  t.match(await answer('none', 'schema', '{"ci', 'length'), { status: 200 }, 'a truncated response is not validated');
});

t.test('infers the stop string only if the upstream reports nothing about it', async (t) => {
  const endOf = async (model: string, ...said: (object | string)[]): Promise<unknown[]> => {
    standIn.say = stream(...said);
    const response = await gateway.post('/v1/messages', {
      model,
      max_tokens: 50,
      messages: [{ role: 'user', content: 'Which?' }],
      stop_sequences: ['Os'],
      output_config: { format: { type: 'json_schema', schema } },
    });
    const { stop_reason: reason, stop_sequence: met } = (await response.json()) as {
      stop_reason?: string;
      stop_sequence?: string | null;
    };
    return reason === undefined ? [response.status] : [reason, met];
  };
  const chat = (more: object) =>
    endOf(
      'json_schema',
      { choices: [{ index: 0, delta: { content: '{"city":"' }, finish_reason: null }] },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop', ...more }] },
      '[DONE]',
    );
  t.same(await chat({}), ['stop_sequence', null], 'the upstream reports nothing, so the stop string is inferred');
  t.same(await chat({ stop_reason: 'Os' }), ['stop_sequence', 'Os']);
  t.same(
    await chat({ stop_reason: null }),
    [500],
    'a response that ended on its own without matching the format is an error',
  );
  t.same(await chat({ matched_stop: 'Os' }), ['stop_sequence', 'Os']);
  t.same(await chat({ matched_stop: 151_645 }), [500], 'by a token');
  const messages = (delta: object) =>
    endOf(
      'messages',
      { type: 'message_start', message: { usage: { input_tokens: 3 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '{"city":"' } },
      { type: 'message_delta', delta },
      { type: 'message_stop' },
    );
  t.same(await messages({ stop_reason: 'end_turn', stop_sequence: null }), [500]);
  t.same(await messages({ stop_reason: 'stop_sequence', stop_sequence: 'Os' }), ['stop_sequence', 'Os']);
});

t.test('refuses schemas that cannot be validated, naming the keyword', async (t) => {
  for (const form of ['regex', 'grammar'] as const)
    t.match(await answer('json_schema', form, 'a'), {
      status: 422,
      body: { error: { code: 'unsupported_feature' } },
      sent: undefined,
    });
});

t.test('never refuses a value that the full validator accepts, and finds structural errors', async (t) => {
  const schemas: [object, unknown[], unknown[]][] = [
    [{ type: ['integer', 'null'], minimum: 1, exclusiveMaximum: 9 }, [1, 8, null], [0, 9, 1.5, '1']],
    [{ type: 'string', minLength: 2, maxLength: 3 }, ['ab', 'ä😀x'], ['a', 'abcd', 3]],
    [
      { prefixItems: [{ const: 1 }, { type: 'string' }], items: { type: 'boolean' }, minItems: 2, maxItems: 3 },
      [
        [1, 'a'],
        [1, 'a', true],
      ],
      [[1], [2, 'a'], [1, 'a', 3], [1, 'a', true, true]],
    ],
    [
      {
        $defs: {
          node: {
            type: 'object',
            properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
            required: ['next'],
          },
        },
        $ref: '#/$defs/node',
      },
      [{ next: null }, { next: { next: null } }],
      [{ next: { next: 1 } }, {}],
    ],
    [
      { oneOf: [{ type: 'object', properties: { kind: { const: 'a' } }, required: ['kind'] }, { type: 'array' }] },
      [{ kind: 'a' }, []],
      [{ kind: 'b' }, 1],
    ],
    [
      { allOf: [{ required: ['a'] }, { properties: { a: { enum: [[1, { b: null }]] } } }] },
      [{ a: [1, { b: null }] }],
      [{ a: [1, {}] }, {}],
    ],
    [
      { type: 'object', patternProperties: { '^x': { type: 'number' } }, additionalProperties: false },
      [{ x1: 1 }, {}],
      [],
    ],
    [
      { type: 'object', minProperties: 1, maxProperties: 2, additionalProperties: { type: 'number' } },
      [{ a: 1 }],
      [{}, { a: 'x' }, { a: 1, b: 2, c: 3 }],
    ],
    [{ properties: { a: false } }, [{}, { b: 1 }], [{ a: 1 }]],
  ];
  for (const [one, good, bad] of schemas) {
    const validate = new Ajv2020({ strict: false }).compile(one);
    for (const value of good)
      t.same([validate(value), schemaProblem(one as never, value)], [true, null], JSON.stringify([one, value]));
    for (const value of bad)
      t.same(
        [validate(value), schemaProblem(one as never, value) === null],
        [false, false],
        JSON.stringify([one, value]),
      );
  }
});

t.test('limits the work of a validation', async (t) => {
  const deep: any = { anyOf: [] };
  deep.anyOf = [{ $ref: '#' }, { $ref: '#' }];
  t.equal(schemaProblem(deep, 1), 'it takes too long to check');
  let wide: any = { const: 0 };
  for (let i = 0; i < 30; i++) wide = { anyOf: [wide, wide] };
  t.equal(schemaProblem(wide, 1), 'it takes too long to check');
});
