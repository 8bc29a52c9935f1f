// Schemas that clients send, and answers held against them; another validator is the judge of what is valid.
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import t from 'tap';
import { ApiError } from '../../src/errors.js';
import { FORMATS, hasFormat } from '../../src/generation/output-format/formats.js';
import { Fuel, RegularExpression } from '../../src/generation/output-format/regular-expression.js';
import { checkOutputFormat, checkToolSchemas, formatProblem } from '../../src/generation/output-format.js';
import type { JsonSchema, OutputFormat } from '../../src/generation/types.js';

const PATH = 'response_format.json_schema.schema';
const formatOf = (schema: JsonSchema, strict = false): OutputFormat => ({ type: 'json_schema', name: 'x', schema, strict, path: PATH });
const problem = (schema: JsonSchema, value: unknown): string | null => formatProblem(formatOf(schema), JSON.stringify(value));

function refusal(schema: unknown, strict = false): Pick<ApiError, 'code' | 'param' | 'message'> | null {
  try {
    checkOutputFormat(formatOf(schema as JsonSchema, strict));
    return null;
  } catch (error) {
    if (error instanceof ApiError) return { code: error.code, param: error.param, message: error.message };
    throw error;
  }
}

/** A generator of the same numbers every time. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

t.test('invalid schemas are refused by the path of the keyword', (t) => {
  const cases: [schema: unknown, at: string, words: RegExp][] = [
    [{ type: 'text' }, '.type', /must be one of null, boolean/],
    [{ type: [] }, '.type', /must be one of/],
    [{ properties: { age: { type: 'integer', minimum: '1' } } }, '.properties.age.minimum', /must be a number/],
    [{ properties: { 'a b': 7 } }, '.properties["a b"]', /must be an object or a boolean/],
    [{ anyOf: [] }, '.anyOf', /non-empty array/],
    [{ anyOf: [{}, { items: { minItems: -1 } }] }, '.anyOf[1].items.minItems', /whole number/],
    [{ required: ['a', 1] }, '.required', /array of strings/],
    [{ enum: 'a' }, '.enum', /array/],
    [{ pattern: '(' }, '.pattern', /regular expression/],
    [{ pattern: '\\p{Nonsense}{2}[' }, '.pattern', /regular expression/],
    [{ pattern: '\\p{L}'.repeat(1_000) }, '.pattern', /longer than 4096/],
    [{ properties: Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`p${i}`, { pattern: 'a'.repeat(4_000) }])) }, '.properties.p32.pattern', /together are longer/],
    [{ $ref: '#/$defs/none' }, '.$ref', /leads nowhere/],
    [{ $ref: 7 }, '.$ref', /must be a string/],
    [{ format: 1 }, '.format', /must be a string/],
    [{ $ref: '#' }, '', /back to itself/],
    [{ $defs: { a: { anyOf: [{ $ref: '#/$defs/b' }] }, b: { allOf: [{ $ref: '#/$defs/a' }] } }, $ref: '#/$defs/a' }, '', /back to itself/],
    [{ $defs: { unused: { type: 'nothing' } } }, '.$defs.unused.type', /must be one of/],
  ];
  for (const [schema, at, words] of cases) {
    const error = refusal(schema);
    t.match(error, { code: 'invalid_json_schema', param: PATH + at, message: words }, JSON.stringify(schema).slice(0, 120));
    t.ok(error?.message.startsWith(PATH + at), 'the message names the path');
  }
  t.end();
});

t.test('keywords outside the table: refused where strict, left out otherwise', (t) => {
  const cases: [schema: JsonSchema, at: string, keyword: string][] = [
    ...['not', 'if', 'then', 'else', 'dependentSchemas', 'dependentRequired', 'patternProperties', 'propertyNames', 'unevaluatedProperties',
      'unevaluatedItems', 'contains', 'uniqueItems', 'multipleOf', 'minProperties', 'maxProperties', '$anchor', '$dynamicRef', 'nullable', 'madeUp']
      .map((keyword): [JsonSchema, string, string] => [{ [keyword]: {} }, `.${keyword}`, keyword]),
    [{ type: 'number', minimum: 1 }, '.minimum', 'minimum'],
    [{ maximum: 1 }, '.maximum', 'maximum'],
    [{ type: ['integer', 'number'], exclusiveMaximum: 1 }, '.exclusiveMaximum', 'exclusiveMaximum'],
    [{ type: 'integer', minimum: 1, exclusiveMinimum: true }, '.exclusiveMinimum', 'exclusiveMinimum'],
    [{ type: 'string', format: 'regex' }, '.format', 'format'],
    [{ type: 'string', pattern: '(?=a)b' }, '.pattern', 'pattern'],
    [{ type: 'string', pattern: '(a)\\1' }, '.pattern', 'pattern'],
    [{ type: 'string', pattern: '\\bword\\b' }, '.pattern', 'pattern'],
    [{ type: 'string', pattern: '^[\\p{Lu}\\P{Script=Latin}_]+\\\\p{none}$' }, '.pattern', 'pattern'],
    [{ type: 'string', pattern: '((a{1,99}){1,99}){1,99}' }, '.pattern', 'pattern'],
    [{ $ref: 'https://example.com/schema.json' }, '.$ref', '$ref'],
    [{ type: 'object', properties: { a: { type: 'array', items: { uniqueItems: true } } } }, '.properties.a.items.uniqueItems', 'uniqueItems'],
  ];
  for (const [schema, at, keyword] of cases) {
    t.match(refusal(schema, true), { code: 'unsupported_json_schema', param: PATH + at, message: keyword }, `${JSON.stringify(schema)} strict`);
    t.equal(refusal(schema), null, `${JSON.stringify(schema)} otherwise`);
  }
  t.equal(problem({ uniqueItems: true, items: { multipleOf: 2, pattern: '(?=a)' } }, [1, 1]), null, 'what is left out binds nothing');
  const annotated = { $schema: 'https://json-schema.org/draft/2020-12/schema', $id: 'x', title: 't', description: 'd', default: 1, examples: [1], $comment: 'c', 'x-order': 1, type: 'integer' };
  t.equal(refusal(annotated, true), null, 'annotations pass');
  t.end();
});

t.test('tools: objects, at their own paths', (t) => {
  const tool = (parameters: JsonSchema | null, strict = false) => ({ name: 'f', description: null, parameters, strict });
  const paths = ['tools[0].function.parameters', 'tools[1].function.parameters'];
  checkToolSchemas([tool(null), tool({})], paths);
  checkToolSchemas([tool({ type: 'object', properties: { a: { type: 'string', nullable: true, required: true } } })], paths);
  t.throws(() => checkToolSchemas([tool({}), tool({ type: 'object', properties: { a: { not: {} } } }, true)], paths),
    { code: 'unsupported_json_schema', param: 'tools[1].function.parameters.properties.a.not' });
  const large = (): JsonSchema => ({ description: 'x'.repeat(250 * 1024) });
  checkToolSchemas(Array.from({ length: 8 }, () => tool(large())), []);
  t.throws(() => checkToolSchemas(Array.from({ length: 9 }, () => tool(large())), []), { code: 'invalid_json_schema', param: 'tools[8]', message: /together/ });
  const patterned = (pattern: string): JsonSchema => ({ properties: Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`p${i}`, { pattern: pattern + i }])) });
  const begin = performance.now();
  t.throws(() => checkToolSchemas(Array.from({ length: 4 }, () => tool(patterned('\\p{L}'.repeat(800)))), []), { code: 'invalid_json_schema', param: 'tools[3]', message: /patterns of all tools/ });
  t.ok(performance.now() - begin < 500, `${Math.round(performance.now() - begin)} ms`);
  t.throws(() => checkToolSchemas([tool({ type: 'array' })], paths), { code: 'invalid_json_schema', param: 'tools[0].function.parameters.type' });
  t.end();
});

t.test('limits', (t) => {
  const nested = (depth: number): JsonSchema => (depth === 1 ? {} : { items: nested(depth - 1) });
  t.equal(refusal(nested(64)), null);
  t.match(refusal(nested(65)), { code: 'invalid_json_schema', message: /more than 64 deep/ });
  const properties = (count: number): JsonSchema => ({ properties: Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, {}])) });
  t.equal(refusal(properties(5_000)), null);
  t.match(refusal({ anyOf: [properties(2_500), properties(2_501)] }), { message: /more than 5000 properties/ });
  t.equal(refusal({ enum: Array.from({ length: 1_000 }, (_, i) => i) }), null);
  t.match(refusal({ enum: Array.from({ length: 1_001 }, (_, i) => i) }), { message: /more than 1000 enum values/ });
  t.match(refusal({ description: 'x'.repeat(256 * 1024) }), { code: 'invalid_json_schema', param: PATH, message: /longer than 256 KiB/ });
  t.equal(refusal({ description: 'x'.repeat(250 * 1024) }), null);
  const chain = (length: number): JsonSchema => ({ $ref: '#/$defs/d0', $defs: Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, i + 1 < length ? { $ref: `#/$defs/d${i + 1}` } : {}])) });
  t.equal(refusal(chain(150)), null);
  t.match(refusal(chain(5_000)), { message: /follow each other/ });
  t.end();
});

t.test('answers', (t) => {
  const text = { type: 'text' } as const, object = { type: 'json_object' } as const;
  t.equal(formatProblem(text, 'anything {'), null);
  t.equal(formatProblem(object, ' {"a": 1} \n'), null);
  t.equal(formatProblem(object, '[1]'), 'it is not a JSON object');
  t.equal(formatProblem(object, 'secret'), 'it is not JSON');
  t.equal(formatProblem(object, ''), 'it is not JSON');
  const person: JsonSchema = {
    type: 'object', required: ['name', 'age'], additionalProperties: false,
    properties: { name: { type: 'string', minLength: 1, maxLength: 5 }, age: { type: 'integer', minimum: 0, exclusiveMaximum: 200 }, friends: { type: 'array', items: { $ref: '#' }, maxItems: 2 } },
  };
  t.equal(problem(person, { name: '👋👋👋👋👋', age: 36, friends: [{ name: 'B', age: 1 }] }), null);
  const cases: [value: unknown, words: string][] = [
    [{ name: 'Ada' }, 'the value lacks the property "age"'],
    [{ name: 'Ada', age: 1.5 }, '/age must be of type integer'],
    [{ name: 'Ada', age: 200 }, '/age must be less than 200'],
    [{ name: '', age: 1 }, '/name must have at least 1 characters'],
    [{ name: 'Ada', age: 1, secret: 1 }, 'the value has a property that is not allowed'],
    [{ name: 'Ada', age: 1, friends: [{ name: 'secret', age: 1 }] }, '/friends/0/name must have at most 5 characters'],
    [[], 'the value must be of type object'],
  ];
  for (const [value, words] of cases) t.equal(problem(person, value), words);
  t.equal(problem({ additionalProperties: { type: 'integer' } }, { secret: 'x' }), '/* must be of type integer', 'names that are the model\'s own are not told');
  t.equal(problem(JSON.parse('{"properties": {"__proto__": {"type": "integer"}}}') as JsonSchema, JSON.parse('{"__proto__": "x"}')), '/__proto__ must be of type integer');
  t.equal(problem({ required: ['toString'] }, {}), 'the value lacks the property "toString"');
  t.equal(formatProblem(formatOf({ type: 'integer' }), '1.0'), null);
  t.end();
});

const WORDS = ['a', 'b', 'name', '', 'ab', '2024-02-29', '10.0.0.1', 'x@y.org'];

function randomValue(pick: (below: number) => number, depth: number): unknown {
  switch (pick(depth > 0 ? 8 : 6)) {
    case 0: return null;
    case 1: return pick(2) === 1;
    case 2: return pick(7) - 2;
    case 3: return pick(9) / 2;
    case 4: case 5: return WORDS[pick(WORDS.length)];
    case 6: return Array.from({ length: pick(4) }, () => randomValue(pick, depth - 1));
    default: return Object.fromEntries(Array.from({ length: pick(4) }, () => [WORDS[pick(3)]!, randomValue(pick, depth - 1)]));
  }
}

function randomSchema(pick: (below: number) => number, depth: number): JsonSchema | boolean {
  if (pick(25) === 0) return pick(3) > 0;
  const schema: Record<string, unknown> = {};
  const types = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];
  if (pick(2) === 0) schema['type'] = pick(4) === 0 ? [...new Set([types[pick(7)], types[pick(7)]])] : types[pick(7)];
  const more: (() => void)[] = [
    () => { schema['enum'] = [randomValue(pick, 1), randomValue(pick, 1), ...WORDS.slice(pick(4), 5)].filter((one, i, all) => all.findIndex((other) => JSON.stringify(other) === JSON.stringify(one)) === i); },
    () => { schema['const'] = randomValue(pick, 1); },
    () => { schema['minLength'] = pick(3); },
    () => { schema['maxLength'] = pick(4); },
    () => { schema['pattern'] = ['^a', 'b$', '^[a-z]{1,2}$', 'a|e', '\\d', '^$'][pick(6)]; },
    () => { schema['format'] = ['date', 'ipv4', 'email'][pick(3)]; },
    () => { if (schema['type'] === 'integer') schema[['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'][pick(4)]!] = pick(4) - 1; },
    () => { schema['required'] = [WORDS[pick(3)]]; },
    () => { schema['minItems'] = pick(3); },
    () => { schema['maxItems'] = pick(3); },
    () => { if (pick(4) === 0) schema['$ref'] = ['#/$defs/one', '#/$defs/two'][pick(2)]; },
  ];
  if (depth > 0) {
    const below = (): JsonSchema | boolean => randomSchema(pick, depth - 1);
    more.push(
      () => { schema['properties'] = { [WORDS[pick(3)]!]: below(), [WORDS[pick(3)]!]: below() }; },
      () => { schema['additionalProperties'] = below(); },
      () => { schema['items'] = below(); },
      () => { schema['prefixItems'] = [below(), below()]; },
      () => { schema['anyOf'] = [below(), below()]; },
      () => { schema['allOf'] = [below(), below()]; },
    );
  }
  for (let i = pick(4); i > 0; i--) more[pick(more.length)]!();
  return schema;
}

t.test('agrees with another validator on random schemas and values', (t) => {
  const pick = random(12_345);
  const ajv = new Ajv2020({ strict: false, validateFormats: true });
  addFormats.default(ajv);
  let valid = 0, invalid = 0;
  for (let round = 0; round < 1_500; round++) {
    const inner = randomSchema(pick, 3);
    const schema = { ...(typeof inner === 'boolean' ? { allOf: [inner] } : inner), $defs: { one: { type: ['string', 'array'] }, two: randomSchema(pick, 0) } } as JsonSchema;
    const two = (schema['$defs'] as Record<string, unknown>)['two'];
    if (typeof two === 'object') delete (two as Record<string, unknown>)['$ref'];
    const refused = refusal(schema);
    if (refused !== null) t.fail(`${JSON.stringify(schema)}: ${refused.message}`);
    const validate = ajv.compile(schema);
    for (let i = 0; i < 12; i++) {
      const value = randomValue(pick, 2);
      const expected = validate(value);
      const found = problem(schema, value);
      if (expected !== (found === null)) t.fail(`${JSON.stringify(schema)} ${JSON.stringify(value)}: ${found} but ${JSON.stringify(validate.errors)}`);
      if (expected) valid++;
      else invalid++;
    }
  }
  t.ok(valid > 2_000 && invalid > 2_000, `${valid} valid, ${invalid} not`);
  t.end();
});

t.test('draft-07 spellings', (t) => {
  const ajv = new Ajv({ strict: false });
  const schema = { $schema: 'http://json-schema.org/draft-07/schema#', definitions: { n: { type: 'integer' } }, items: [{ $ref: '#/definitions/n' }, { type: 'string' }], additionalItems: { type: 'null' } };
  const validate = ajv.compile(schema);
  t.equal(refusal(schema, true), null);
  for (const value of [[], [1], [1, 'a'], [1, 'a', null], [1, 'a', 2], ['a'], 'other']) t.equal(problem(schema, value) === null, validate(value), JSON.stringify(value));
  t.match(problem({ properties: { a: { type: 'null' }, b: { $ref: '#/properties/a' } } }, { b: 1 }), /must be of type null/, 'references to any place');
  t.end();
});

t.test('formats agree with another validator', (t) => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  const samples = ['2024-02-29', '2023-02-29', '2024-13-01', '12:30:00Z', '23:59:60Z', '12:59:60Z', '00:59:60+01:00', '12:30:00', '12:30:00.25-07:30', '24:00:00Z', '2024-02-29T12:30:00Z', '2024-02-29 12:30:00Z',
    '2024-02-29T12:30', 'P1Y2M3DT4H5M6S', 'P', 'PT', 'P1W', 'P1YT', 'a@b.co', 'a.b+c@d-e.org', 'a@', '@b.co', 'a..b@c.org', 'a b@c.org', 'example.com', 'example', '-a.com', 'a-.com', `${'a'.repeat(64)}.com`, '10.0.0.1', '10.0.0.256', '010.0.0.1', '::1',
    '2001:db8::ff', '1::2::3', '::ffff:1.2.3.4', 'fe80::1%eth0', '123e4567-e89b-12d3-a456-426614174000', '123e4567e89b12d3a456426614174000', 'https://example.com/a?b=c#d', 'mailto:a@b.co', '/a/b', 'https://a b', 'urn:isbn:1', '1http://x', ''];
  for (const format of FORMATS) {
    const validate = ajv.compile({ type: 'string', format });
    for (const sample of samples) t.equal(hasFormat(sample, format), validate(sample), `${format}: ${sample}`);
  }
  t.ok(hasFormat('anything', 'unknown'));
  t.end();
});

t.test('regular expressions agree with JavaScript', (t) => {
  const patterns = ['', 'a', '^a', 'a$', '^a$', '^(ab|a)(c|bcd)$', 'a*', '^a*$', '^(a|b)*c$', '^[^a-c]+$', '^[a\\-z]+$', '^[-a]+$', '^[a-]+$', '\\d{2,3}', '^\\d{2,}$', '^\\w+@\\w+\\.\\w+$', '^\\s*$', '^.$', '^..$',
    '^\\u00e9$', '^\\u{1f44b}+$', '^\\x41$', '^(?:ab)+?$', '^(?<year>\\d{4})$', '^(|a)+$', '^(a*)*$', 'a|^b|c$', '^[\\d\\s]+$', '^[^\\W]+$', '^[👋🏽]$', '^\\/\\.$', '^(a{0})b$', '^a{2}$', '^\\cA$', '^[\\b]$', '^$', '^(a?){3}$', '^[a-zA-Z_][a-zA-Z0-9_]*$', '^[]$', '^[^]$', '^\\0$'];
  const texts = ['', 'a', 'b', 'c', 'ab', 'abc', 'abcd', 'abbbc', 'aaa', 'aa', 'bac', '12', '123', '1234', 'a1', 'é', '👋', '👋👋', 'A', '\n', ' ', '\t ', '-', 'a-', 'z-a', 'x@y.z', '/.', '\x01', '\b', 'zzz', '2024', '\ud800', '_x9', '\0'];
  for (const pattern of patterns) {
    const own = RegularExpression.of(pattern);
    t.ok(own !== null, pattern);
    const theirs = new RegExp(pattern, 'u');
    for (const text of texts) {
      if (own?.matches(text, new Fuel(1e6)) !== theirs.test(text)) t.fail(`${pattern} on ${JSON.stringify(text)}: ${theirs.test(text)} is right`);
    }
  }
  for (const pattern of ['(?=a)', '(?!a)', '(?<=a)b', '(?<!a)b', '(a)\\1', '(?<n>a)\\k<n>', '\\b', '\\B', '\\p{L}', '(?:'.repeat(101) + ')'.repeat(101), '(a{1,100}){1,100}']) {
    t.equal(RegularExpression.of(pattern), null, pattern);
  }
  // Wrong ones are none of the subset either.
  for (const pattern of ['*', 'a**', '(', ')', '[', '[z-a]', 'a{2,1}', '(?<n', '(?<1>a)', '\\', '(?', 'a{', '\\u{110000}', '\\u12', '{1}', '\\c1']) t.equal(RegularExpression.of(pattern), null, pattern);
  t.end();
});

t.test('hostile schemas hold nobody up', (t) => {
  const within = (what: string, ms: number, run: () => void): void => {
    const begin = performance.now();
    run();
    const took = performance.now() - begin;
    t.ok(took < ms, `${what}: ${Math.round(took)} ms`);
  };
  const aaa = `${'a'.repeat(20_000)}!`;
  within('backtracking', 3_000, () => t.equal(problem({ pattern: '^(a+)+$' }, aaa), 'the value must match the pattern'));
  within('many states', 3_000, () => t.match(problem({ pattern: `^(${'a?'.repeat(1_500)})*$` }, aaa), /too long/));
  within('alternatives of alternatives', 3_000, () => {
    const $defs = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`d${i}`, i === 39 ? { type: 'null' } : { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }]));
    t.match(problem({ $defs, $ref: '#/$defs/d0' }, 'x'), /too long/);
    t.match(problem({ $defs, $ref: '#/$defs/d0' }, {}), /fits none/, 'objects are remembered');
  });
  within('a late tell-tale at every level', 3_000, () => {
    const branch = (kind: string) => ({ type: 'object', properties: { left: { $ref: '#' }, kind: { const: kind } } });
    let value: unknown = { kind: 'b' };
    for (let i = 0; i < 60; i++) value = { left: value, kind: 'b' };
    t.equal(problem({ anyOf: [branch('a'), branch('b')] }, value), null);
  });
  within('depth', 3_000, () => {
    t.equal(problem({ items: { $ref: '#' } }, JSON.parse('['.repeat(150) + ']'.repeat(150))), null);
    t.match(formatProblem(formatOf({ items: { $ref: '#' } }), '['.repeat(100_000) + ']'.repeat(100_000)), /too deeply/);
    t.equal(formatProblem({ type: 'json_object' }, '['.repeat(1_000_000)), 'it is not JSON');
  });
  within('a huge schema', 3_000, () => {
    t.match(refusal({ enum: Array.from({ length: 3_000_000 }, () => 0) }), { message: /256 KiB/ });
    t.match(refusal({ pattern: '('.repeat(100_000) }), { code: 'invalid_json_schema' });
    t.equal(refusal({ pattern: '((((()){9999}){9999}){9999}){9999}' }), null);
    t.equal(refusal({ anyOf: Array.from({ length: 5_000 }, () => ({ pattern: 'a{4000}' })) }), null);
    t.match(refusal({ anyOf: Array.from({ length: 5_000 }, () => ({ pattern: 'a{4000}' })) }, true), { code: 'unsupported_json_schema', message: /too large/ });
  });
  const fuel = new Fuel(10);
  t.throws(() => RegularExpression.of('a*b')!.matches(aaa, fuel), { message: 'more work than was allowed' });
  t.end();
});
