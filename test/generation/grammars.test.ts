// Tests which grammars are compiled for a request, and how problems reported by the compiler are handled.
import t from 'tap';
import type {
  CompiledGrammar,
  GrammarOptions,
  GrammarProblem,
  NativeGrammar,
} from '../../src/engine/addon-grammar-types.js';
import type { GrammarSettings } from '../../src/generation/generation-limits.js';
import { COMPILE_BUDGET_MS, compileGrammars } from '../../src/generation/local/grammars.js';
import { HERMES } from '../../src/generation/local/tools/hermes.js';
import { KIMI } from '../../src/generation/local/tools/kimi.js';
import { XML } from '../../src/generation/local/tools/xml.js';
import type { OutputFormat, ToolDefinition } from '../../src/generation/types.js';

const settings: GrammarSettings = { whiteSpace: 'compact', callWhiteSpace: 'flexible' };
const claimant = { organization: 1 };

/** A fake engine that records compile calls and reports the given problems. */
function compiler(answer: (options: GrammarOptions) => GrammarProblem[] = () => []): {
  compileGrammar(options: GrammarOptions): Promise<CompiledGrammar>;
  asked: GrammarOptions[];
} {
  const asked: GrammarOptions[] = [];
  return {
    asked,
    compileGrammar(options) {
      asked.push(options);
      const problems = answer(options);
      const refused = problems.some(({ kind }) => kind !== 'unsupported' || options.strict);
      return Promise.resolve({
        grammar: refused ? null : ({ bytes: asked.length } as NativeGrammar),
        problems,
        compileMs: 0,
      });
    },
  };
}

const schemaFormat = (strict: boolean): OutputFormat => ({
  type: 'json_schema',
  name: 'x',
  schema: { a: { not: {} } },
  strict,
  path: 'text.format.schema',
});
const tool = (name: string, strict = false, parameters: ToolDefinition['parameters'] = {}): ToolDefinition => ({
  name,
  description: null,
  parameters,
  strict,
  path: `tools.${name}`,
});
const problem = (kind: GrammarProblem['kind'], pointer = '/a', keyword = 'not'): GrammarProblem => ({
  kind,
  pointer,
  keyword,
  what: 'so it is',
});

t.test('compiles the grammars of formats and tools', async (t) => {
  const engine = compiler();
  const none = await compileGrammars(engine, { format: { type: 'text' }, tools: [] }, HERMES, settings, claimant);
  t.same([none.format, none.calls.size, engine.asked.length], [null, 0, 0]);
  const {
    format,
    calls,
    ignoredKeywords: leftOut,
  } = await compileGrammars(
    engine,
    { format: schemaFormat(true), tools: [tool('f', true), tool('g', false, null)] },
    HERMES,
    settings,
    claimant,
  );
  t.same([format, calls.get('f'), calls.get('g'), leftOut], [{ bytes: 1 }, { bytes: 2 }, { bytes: 3 }, []]);
  const common = { kind: 'json_schema', oneOfAsAnyOf: true, order: 'schema' };
  t.same(engine.asked, [
    { ...common, schema: '{"a":{"not":{}}}', strict: true, whiteSpace: 'none' },
    { ...common, schema: '{"type":"object"}', strict: true, whiteSpace: 'flexible', suffix: '}\n</tool_call>' },
    {
      ...common,
      schema: '{"type":"object","properties":{},"additionalProperties":false}',
      strict: false,
      whiteSpace: 'flexible',
      suffix: '}\n</tool_call>',
    },
  ]);
  const spaced = compiler();
  await compileGrammars(
    spaced,
    { format: schemaFormat(true), tools: [tool('f')] },
    HERMES,
    { whiteSpace: 'flexible', callWhiteSpace: 'flexible' },
    claimant,
  );
  t.same(
    spaced.asked.map(({ whiteSpace }) => whiteSpace),
    ['within', 'flexible'],
    "a response starts with its value; white space before a call's arguments is the model's choice",
  );
  const xml = compiler();
  const bound = await compileGrammars(
    xml,
    {
      format: { type: 'text' },
      tools: [tool('f', false, { properties: { a: { type: 'string' }, b: { type: 'integer' } } })],
    },
    XML,
    settings,
    claimant,
  );
  t.equal(bound.calls.size, 1, 'arguments that are not JSON are constrained in their own syntax');
  t.match(xml.asked, [
    {
      suffix: '</function>\n</tool_call>',
      spelling: {
        nameOpen: '<parameter=',
        textOpen: '>\n',
        kinds: [
          { name: 'a', kind: 'text' },
          { name: 'b', kind: 'json' },
        ],
        others: 'text',
      },
    },
  ]);
  const numbered = compiler();
  await compileGrammars(numbered, { format: { type: 'text' }, tools: [tool('f')] }, KIMI, settings, claimant);
  t.match(numbered.asked, [
    { suffix: '<|tool_call_end|>', lead: { letters: false, least: 1, most: 4, close: '<|tool_call_argument_begin|>' } },
  ]);
  for (const other of [
    { type: 'json_object' },
    { type: 'regex', pattern: 'a+', path: 'p' },
    { type: 'grammar', grammar: 'root ::= [a]', path: 'p' },
    { type: 'choice', choices: ['a', 'b'], path: 'p' },
  ] as const) {
    const one = compiler();
    t.ok((await compileGrammars(one, { format: other, tools: [] }, HERMES, settings, claimant)).format);
    t.match(one.asked, [
      {
        kind: other.type,
        strict: true,
        ...('pattern' in other
          ? { pattern: 'a+' }
          : 'grammar' in other
            ? { grammar: 'root ::= [a]' }
            : 'choices' in other
              ? { choices: ['a', 'b'] }
              : {}),
      },
    ]);
  }
});

t.test('reports problems of schemas and patterns with their location', async (t) => {
  const outcome = (kind: GrammarProblem['kind'], format: OutputFormat = schemaFormat(true)) =>
    compileGrammars(
      compiler(() => [problem(kind)]),
      { format, tools: [] },
      HERMES,
      settings,
      claimant,
    );
  const param = 'text.format.schema.a.not';
  await t.rejects(outcome('unsupported'), {
    status: 422,
    code: 'unsupported_json_schema',
    param,
    message: `${param}: the keyword "not" at "/a" is not supported in a strict schema: so it is.`,
  });
  await t.rejects(outcome('too_large'), { code: 'unsupported_json_schema', param });
  await t.rejects(outcome('invalid'), { code: 'invalid_json_schema', param });
  await t.rejects(outcome('impossible'), { code: 'invalid_json_schema', param });
  await t.rejects(outcome('invalid', { type: 'regex', pattern: '(', path: 'response_format.pattern' }), {
    code: 'invalid_value',
    param: 'response_format.pattern',
  });
  await t.rejects(outcome('unsupported', { type: 'regex', pattern: '(?<=a)', path: 'response_format.pattern' }), {
    code: 'unsupported_value',
  });
  t.same(
    (await outcome('unsupported', schemaFormat(false))).ignoredKeywords,
    [param],
    'in a non-strict schema the keyword is ignored and reported',
  );
  const tools = [tool('f'), tool('g', true)];
  await t.rejects(
    compileGrammars(
      compiler(({ strict }) => (strict ? [problem('unsupported', '')] : [])),
      { format: { type: 'text' }, tools },
      HERMES,
      settings,
      claimant,
    ),
    { code: 'unsupported_json_schema', param: 'tools.g.not' },
  );
});

t.test('many tools of one organization do not delay another', async (t) => {
  const asked: string[] = [];
  const engine = {
    async compileGrammar({ schema }: GrammarOptions): Promise<CompiledGrammar> {
      asked.push(JSON.stringify(schema).includes('theirs') ? 'theirs' : 'ours');
      await new Promise((resolve) => setImmediate(resolve));
      return { grammar: { bytes: 1 } as NativeGrammar, problems: [], compileMs: 0 };
    },
  };
  const many = Array.from({ length: 30 }, (_, index) => tool(`f${index}`));
  const flood = Array.from({ length: 4 }, () =>
    compileGrammars(engine, { format: { type: 'text' }, tools: many }, HERMES, settings, { organization: 1 }),
  );
  const one = compileGrammars(
    engine,
    { format: { type: 'text' }, tools: [tool('g', false, { title: 'theirs' })] },
    HERMES,
    settings,
    { organization: 2 },
  );
  await one;
  t.ok(asked.length < 12, `${asked.length} of 121 grammars were compiled before the other organization's`);
  await Promise.all(flood);
  t.equal(asked.length, 121);
});

t.test(
  'an organization that has used more than its share of the compile threads waits, and no other does',
  async (t) => {
    const engine = {
      compileGrammar: (): Promise<CompiledGrammar> =>
        Promise.resolve({
          grammar: { bytes: 1 } as NativeGrammar,
          problems: [],
          compileMs: COMPILE_BUDGET_MS / 2 + 20,
        }),
    };
    const compile = (organization: number): Promise<unknown> =>
      compileGrammars(engine, { format: schemaFormat(true), tools: [] }, HERMES, settings, { organization });
    await compile(7);
    await compile(7);
    let waited = true;
    const third = compile(7).then(() => waited);
    await compile(8);
    waited = false;
    t.equal(await third, false, 'another organization came first, and the job did not fail');
  },
);

t.test('stops compiling when the client disconnects', async (t) => {
  const controller = new AbortController();
  const engine = compiler(() => {
    controller.abort(new Error('gone'));
    return [];
  });
  await t.rejects(
    compileGrammars(engine, { format: schemaFormat(true), tools: [tool('f'), tool('g')] }, HERMES, settings, {
      organization: 1,
      signal: controller.signal,
    }),
    { message: 'gone' },
  );
  t.equal(engine.asked.length, 1, 'the remaining grammars are not compiled');
});

t.test("a client's schema cannot use the engine's internal keywords", async (t) => {
  const parameters = { type: 'object', properties: { a: { type: 'string', ['\u0001lark']: 'start: "a"' } } };
  await t.rejects(
    compileGrammars(
      compiler(),
      { format: { type: 'text' }, tools: [tool('f', true, parameters)] },
      HERMES,
      settings,
      claimant,
    ),
    { status: 422, code: 'invalid_json_schema', param: 'tools.f' },
  );
  const inText = { type: 'object', properties: { a: { const: '\u0001lark' } } };
  await compileGrammars(
    compiler(),
    { format: { type: 'text' }, tools: [tool('f', true, inText)] },
    HERMES,
    settings,
    claimant,
  );
  t.pass('the character may occur in a value');
});
