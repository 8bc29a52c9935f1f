// Checks that the tables in docs/reference/structured-output.md match the compiler's behavior and the declared limits.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { loadStarter } from '../addon/starter.js';

const engine = await loadStarter('grammar-keywords');
t.teardown(() => engine.close());

type Probe = { schema: object; good: unknown; bad: unknown } | { refused: object };

const string = { type: 'string' },
  any = {};
const PROBES: Record<string, Probe[]> = {
  type: [
    { schema: { type: 'integer' }, good: 1, bad: 'x' },
    { schema: { type: ['null', 'string'] }, good: null, bad: 1 },
  ],
  nullable: [{ schema: { type: 'string', nullable: true }, good: null, bad: 1 }],
  enum: [{ schema: { enum: [1, 'a', { b: [null] }] }, good: { b: [null] }, bad: 'b' }],
  const: [{ schema: { const: 'a' }, good: 'a', bad: 'b' }],
  properties: [{ schema: { type: 'object', properties: { a: { type: 'null' } } }, good: { a: null }, bad: { a: 1 } }],
  required: [{ schema: { type: 'object', properties: { a: any }, required: ['a'] }, good: { a: 1 }, bad: {} }],
  additionalProperties: [
    { schema: { type: 'object', additionalProperties: false }, good: {}, bad: { a: 1 } },
    { schema: { type: 'object', additionalProperties: string }, good: { a: '' }, bad: { a: 1 } },
  ],
  patternProperties: [
    {
      schema: { type: 'object', patternProperties: { '^x': { type: 'integer' } } },
      good: { x1: 1, y: '' },
      bad: { x1: '' },
    },
  ],
  propertyNames: [
    { schema: { type: 'object', propertyNames: { pattern: '^[a-z]+$' } }, good: { abc: 1 }, bad: { A: 1 } },
  ],
  minProperties: [{ schema: { type: 'object', minProperties: 1 }, good: { a: 1 }, bad: {} }],
  maxProperties: [{ schema: { type: 'object', maxProperties: 1 }, good: { a: 1 }, bad: { a: 1, b: 1 } }],
  dependentRequired: [
    {
      schema: { type: 'object', properties: { a: any, b: any }, dependentRequired: { a: ['b'] } },
      good: { a: 1, b: 1 },
      bad: { a: 1 },
    },
  ],
  dependentSchemas: [
    {
      schema: { type: 'object', properties: { a: any, b: any }, dependentSchemas: { a: { required: ['b'] } } },
      good: { a: 1, b: 1 },
      bad: { a: 1 },
    },
  ],
  items: [
    { schema: { type: 'array', items: string }, good: ['a'], bad: [1] },
    { schema: { type: 'array', items: [string] }, good: ['a', 1], bad: [1] },
  ],
  prefixItems: [{ schema: { type: 'array', prefixItems: [string] }, good: ['a', 1], bad: [1] }],
  additionalItems: [
    {
      schema: {
        $schema: 'http://json-schema.org/draft-07/schema#',
        type: 'array',
        items: [string],
        additionalItems: false,
      },
      good: ['a'],
      bad: ['a', 1],
    },
  ],
  minItems: [{ schema: { type: 'array', minItems: 1 }, good: [1], bad: [] }],
  maxItems: [{ schema: { type: 'array', maxItems: 1 }, good: [1], bad: [1, 2] }],
  uniqueItems: [
    {
      schema: { type: 'array', items: { type: ['string', 'number'] }, uniqueItems: true },
      good: ['1', 1],
      bad: [1, 1],
    },
    { refused: { type: 'array', uniqueItems: true } },
  ],
  contains: [
    { schema: { type: 'array', contains: string }, good: [1, 'a', 2], bad: [1, 2] },
    { refused: { type: 'array', contains: string, prefixItems: [any] } },
    { refused: { type: 'array', contains: string, allOf: [{ contains: { type: 'null' } }] } },
  ],
  minContains: [{ schema: { type: 'array', contains: string, minContains: 2 }, good: ['a', 1, 'b'], bad: ['a', 1] }],
  maxContains: [
    { schema: { type: 'array', contains: string, maxContains: 1 }, good: [1, 'a'], bad: ['a', 'b'] },
    { refused: { type: 'array', contains: { uniqueItems: true }, maxContains: 1 } },
  ],
  minLength: [{ schema: { type: 'string', minLength: 2 }, good: '👋é', bad: '👋' }],
  maxLength: [{ schema: { type: 'string', maxLength: 1 }, good: '👋', bad: 'ab' }],
  pattern: [
    { schema: { type: 'string', pattern: '^(?=.*b)[abc]+$' }, good: 'abc', bad: 'ac' },
    { schema: { type: 'string', pattern: '^\\p{Extended_Pictographic}+$' }, good: '👋', bad: 'a' },
    { schema: { type: 'string', pattern: '^\\p{Lu}\\p{Ll}+$' }, good: 'Été', bad: 'été' },
    ...['(a)\\1', '(?<=a)b', '\\bword\\b', '\\p{Script=Greek}'].map((pattern) => ({
      refused: { type: 'string', pattern },
    })),
  ],
  format: [
    ...(
      [
        ['date', '2024-02-29', '2024-13-01'],
        ['time', '23:59:59Z', '24:00:00Z'],
        ['date-time', '2024-01-01T00:00:00Z', 'x'],
        ['duration', 'P1D', '1D'],
        ['duration', 'P1Y2M3DT4H5M6S', 'P1Y2D'],
        ['duration', 'PT36H', 'PT1H2S'],
        ['email', 'a@b.c', 'a@b'],
        ['hostname', 'a.b', '-'],
        ['hostname', `${'a.'.repeat(126)}a`, `${'a.'.repeat(126)}aa`],
        ['ipv4', '1.2.3.4', '1.2.3.256'],
        ['ipv6', '::1', ':1'],
        ['uuid', '123e4567-e89b-12d3-a456-426614174000', '1'],
        ['uri', 'https://x', 'x'],
        ['uri-reference', '/x', ' '],
        ['json-pointer', '/a', 'a'],
      ] as const
    ).map(([format, good, bad]) => ({ schema: { type: 'string', format }, good, bad })),
    ...['regex', 'idn-email', 'idn-hostname', 'uri-template'].map((format) => ({
      refused: { type: 'string', format },
    })),
  ],
  minimum: [{ schema: { type: 'number', minimum: 1.5 }, good: 1.5, bad: 1.4 }],
  maximum: [{ schema: { type: 'integer', maximum: 9 }, good: -9, bad: 10 }],
  exclusiveMinimum: [{ schema: { type: 'integer', exclusiveMinimum: 0 }, good: 1, bad: 0 }],
  exclusiveMaximum: [{ schema: { type: 'number', exclusiveMaximum: 0 }, good: -0.5, bad: 0 }],
  multipleOf: [
    { schema: { type: 'integer', multipleOf: 7 }, good: 49, bad: 50 },
    { schema: { type: 'number', multipleOf: 0.01 }, good: 1.25, bad: 1.255 },
    { refused: { type: 'number', multipleOf: 0.3 } },
  ],
  anyOf: [{ schema: { anyOf: [string, { type: 'null' }] }, good: null, bad: 1 }],
  oneOf: [
    { schema: { oneOf: [string, { type: 'null' }] }, good: 'a', bad: 1 },
    { schema: { oneOf: [{ type: 'integer' }, { type: 'number' }] }, good: 1, bad: 'a' },
    { schema: { oneOf: [string, { ...string, description: 'a path' }] }, good: 'a', bad: 1 },
  ],
  allOf: [{ schema: { allOf: [{ type: 'integer' }, { minimum: 3 }] }, good: 3, bad: 2 }],
  not: [
    { schema: { not: { type: 'string' } }, good: 1, bad: 'a' },
    {
      schema: { type: 'object', not: { properties: { a: string }, patternProperties: { b: string } } },
      good: { a: 1 },
      bad: { a: '' },
    },
    { schema: { type: 'array', not: { items: string } }, good: ['a', 1], bad: ['a'] },
    { schema: { type: 'array', not: { contains: string } }, good: [1], bad: [1, 'a'] },
    { refused: { type: 'array', not: { uniqueItems: true } } },
  ],
  if: [
    {
      schema: {
        type: 'object',
        properties: { a: { enum: [1, 2] }, b: any },
        required: ['a'],
        if: { properties: { a: { const: 1 } } },
        then: { required: ['b'] },
      },
      good: { a: 2 },
      bad: { a: 1 },
    },
    { refused: { if: { type: 'array', uniqueItems: true }, then: { maxItems: 1 } } },
  ],
  $ref: [
    {
      schema: { $ref: '#/$defs/a', $defs: { a: { type: 'array', items: { $ref: '#' } } } },
      good: [[], [[]]],
      bad: [1],
    },
    { refused: { $ref: 'https://example.com/schema.json' } },
  ],
  $defs: [{ schema: { $ref: '#/definitions/a', definitions: { a: string } }, good: 'a', bad: 1 }],
  $dynamicRef: [{ refused: { $dynamicRef: '#node' } }],
  unevaluatedProperties: [{ refused: { type: 'object', unevaluatedProperties: false } }],
  unevaluatedItems: [{ refused: { type: 'array', unevaluatedItems: false } }],
};

t.test('the keyword table in the docs matches the grammar compiler', async (t) => {
  const text = readFileSync(join(packageRoot, 'docs', 'reference', 'structured-output.md'), 'utf8');
  const table = /<!-- keywords -->\n([^]*?)<!-- \/keywords -->/.exec(text)?.[1] ?? '';
  const rows = new Map(
    [...table.matchAll(/^\| `(\$?\w+)` \| (yes|partly|no) \|/gm)].map(([, keyword, level]) => [
      keyword as string,
      level as string,
    ]),
  );
  t.same([...rows.keys()].sort(), Object.keys(PROBES).sort(), 'every keyword in the table has test schemas');
  const compile = (schema: object, strict: boolean) =>
    engine.compileGrammar({
      kind: 'json_schema',
      schema: JSON.stringify(schema),
      strict,
      oneOfAsAnyOf: true,
      order: 'schema',
      whiteSpace: 'none',
    });
  for (const [keyword, level] of rows) {
    const probes = PROBES[keyword] ?? [];
    const kinds = new Set(probes.map((probe) => ('refused' in probe ? 'no' : 'yes')));
    t.same(
      [...kinds].sort(),
      level === 'partly' ? ['no', 'yes'] : [level],
      `${keyword}: the test schemas match the documented support`,
    );
    for (const probe of probes) {
      if ('refused' in probe) {
        const { grammar, problems } = await compile(probe.refused, true);
        t.match(
          [grammar, problems],
          [null, [{ kind: 'unsupported', keyword }]],
          `${keyword}: ${JSON.stringify(probe.refused)} is refused`,
        );
        const loose = await compile(probe.refused, false);
        t.ok(
          loose.grammar !== null && loose.problems.some((problem) => problem.keyword === keyword),
          `${keyword}: ignored and reported without strict`,
        );
        continue;
      }
      const { grammar, problems } = await compile(probe.schema, true);
      const accepts = (value: unknown): boolean =>
        grammar?.follow(Buffer.from(JSON.stringify(value)))?.accepts === true;
      t.same(
        [problems, accepts(probe.good), accepts(probe.bad)],
        [[], true, false],
        `${keyword}: ${JSON.stringify(probe.schema)}`,
      );
    }
  }
});

t.test('the limits table in the docs matches the declared limits', (t) => {
  const text = readFileSync(join(packageRoot, 'docs', 'reference', 'structured-output.md'), 'utf8');
  const table = /<!-- limits -->\n([^]*?)<!-- \/limits -->/.exec(text)?.[1] ?? '';
  const rows = [...table.matchAll(/^\| `(\w+)` \| ([\d,]+) \|/gm)].map(
    ([, name, value]) => [name as string, Number(value?.replaceAll(',', ''))] as const,
  );
  t.ok(rows.length >= 9);
  const sources = ['grammar.h', 'grammar_cache.h', 'grammar_compiler.cc', 'engine.h'].map((file) =>
    readFileSync(fileIn('native', file), 'utf8'),
  );
  sources.push(readFileSync(fileIn('src', 'grammars.ts'), 'utf8'));
  for (const [name, value] of rows) {
    const declared = sources.flatMap((source) => [
      ...source.matchAll(new RegExp(`\\b${name} = ([\\d'_]+)(?: << (\\d+))?\\s*[,;]`, 'g')),
    ]);
    t.same(
      declared.map(([, number, shift]) => Number(number?.replaceAll(/['_]/g, '')) * 2 ** Number(shift ?? 0)),
      [value],
      name,
    );
  }
  t.end();
});

function fileIn(folder: string, name: string): string {
  const found = readdirSync(join(packageRoot, folder), { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith(`/${name}`),
  );
  if (found.length !== 1) throw new Error(`${found.length} files ${name} in ${folder}`);
  return join(packageRoot, folder, found[0] as string);
}
