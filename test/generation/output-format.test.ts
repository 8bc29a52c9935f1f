// Tests the checks of formats and tool schemas that run before compilation.
import t from 'tap';
import { checkOutputFormat, checkToolSchemas, formatProblem } from '../../src/generation/output-format.js';
import { pathOf } from '../../src/generation/local/schema-path.js';
import type { JsonSchema, ToolDefinition } from '../../src/generation/types.js';

const PATH = 'response_format.json_schema.schema';
const tool = (parameters: JsonSchema | null, index = 0): ToolDefinition => ({
  name: 'f',
  description: null,
  parameters,
  strict: false,
  path: `tools[${index}].function.parameters`,
});

t.test('limits the length of formats and tool schemas', async (t) => {
  const format = (schema: JsonSchema) =>
    ({ type: 'json_schema', name: 'x', schema, strict: false, path: PATH }) as const;
  checkOutputFormat(format({ description: 'x'.repeat(250 * 1024) }));
  t.throws(() => checkOutputFormat(format({ description: 'x'.repeat(256 * 1024) })), {
    code: 'invalid_json_schema',
    param: PATH,
    message: /longer than 256 KiB/,
  });
  checkOutputFormat({
    type: 'choice',
    choices: new Array<string>(16).fill('x'.repeat(16 * 1024)),
    path: 'response_format.choices',
  });
  t.throws(
    () =>
      checkOutputFormat({
        type: 'choice',
        choices: new Array<string>(17).fill('x'.repeat(16 * 1024)),
        path: 'response_format.choices',
      }),
    { code: 'invalid_value', param: 'response_format.choices' },
  );
  const large = (): JsonSchema => ({ description: 'x'.repeat(250 * 1024) });
  checkToolSchemas(Array.from({ length: 8 }, () => tool(large())));
  t.throws(() => checkToolSchemas(Array.from({ length: 9 }, (_, index) => tool(large(), index))), {
    code: 'invalid_json_schema',
    param: 'tools[8].function.parameters',
    message: /in total/,
  });
});

t.test('tool parameters must be of type object', async (t) => {
  for (const parameters of [null, {}, { type: 'object' }, { type: ['null', 'object'] }, { $ref: '#/$defs/a' }])
    checkToolSchemas([tool(parameters)]);
  for (const type of ['array', 'nonsense', ['string'], [], null, 7]) {
    t.throws(
      () => checkToolSchemas([tool({ type })]),
      { code: 'invalid_json_schema', param: 'tools[0].function.parameters.type' },
      JSON.stringify(type),
    );
  }
});

t.test('a response in a JSON format is at least valid JSON', async (t) => {
  const object = { type: 'json_object' } as const,
    schema = { type: 'json_schema', name: null, schema: {}, strict: true, path: PATH } as const;
  t.equal(formatProblem({ type: 'text' }, 'anything {'), null);
  t.equal(formatProblem(object, ' {"a": 1} \n'), null);
  t.equal(formatProblem(object, '[1]'), 'it is not a JSON object');
  t.equal(formatProblem(schema, '[1]'), null);
  for (const format of [object, schema])
    for (const text of ['secret', '', '{"a":']) t.equal(formatProblem(format, text), 'it is not valid JSON');
  t.equal(formatProblem({ type: 'regex', pattern: 'a', path: 'p' }, 'a'), null);
});

t.test('locates errors in a schema by JSON pointer and keyword', async (t) => {
  const schema = { properties: { a: { anyOf: [{}, { not: {} }] }, 'b/c': { '~': {} }, '0': { type: 'x' }, 'a b': 7 } };
  const cases: [pointer: string, keyword: string, path: string][] = [
    ['', '', PATH],
    ['', 'not', `${PATH}.not`],
    ['/properties/a/anyOf/1', 'not', `${PATH}.properties.a.anyOf[1].not`],
    ['/properties/b~1c/~0', 'x', `${PATH}.properties["b/c"]["~"].x`],
    ['/properties/0', 'type', `${PATH}.properties.0.type`],
    ['/properties/a b', '', `${PATH}.properties["a b"]`],
    ['/no/such/0', 'x', `${PATH}.no.such.0.x`],
  ];
  for (const [pointer, keyword, expected] of cases) t.equal(pathOf(schema, PATH, { pointer, keyword }), expected);
  t.equal(pathOf(schema, PATH, { pointer: '/x'.repeat(10_000), keyword: '' }).length, 401, 'truncated');
  t.ok(pathOf(schema, PATH, { pointer: `/${'x y'.repeat(1_000)}`, keyword: '' }).length <= 401);
});
