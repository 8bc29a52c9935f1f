// Tests compileGrammar() and passing its result to submit(): arguments, schema problems, and output that follows the
// grammar.
import t, { type Test } from 'tap';
import type { GrammarOptions } from '../../src/engine/addon-grammar-types.js';
import type { NativeChannel, SubmitOptions } from '../../src/engine/addon-types.js';
import { Engine } from '../../src/engine/engine.js';
import type { EngineEvent } from '../../src/engine/events.js';
import { cpuTime } from '../support/cpu-time.js';
import { loadStarter, promptOf, submitOptions } from './starter.js';

const options: GrammarOptions = {
  kind: 'json',
  strict: true,
  oneOfAsAnyOf: false,
  order: 'schema',
  whiteSpace: 'none',
};
const person = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 8 }, age: { type: 'integer', minimum: 0, maximum: 150 } },
  required: ['name', 'age'],
  additionalProperties: false,
};

function refusals(t: Test, call: (value: unknown) => unknown, cases: readonly (readonly [unknown, string])[]): void {
  for (const [value, message] of cases) t.throws(() => call(value), { name: 'TypeError', message }, message);
}

t.test('invalid grammar options are refused with a TypeError that names them', async (t) => {
  const engine = await loadStarter('grammar-arguments');
  t.teardown(() => engine.close());
  const compile = (more: unknown): unknown =>
    Reflect.apply(engine.compileGrammar, engine, [
      typeof more === 'object' && more !== null ? { ...options, ...more } : more,
    ]);
  refusals(t, compile, [
    [undefined, 'options must be an object, not undefined'],
    [
      { kind: 'xml' },
      "options.kind must be one of 'json_schema', 'json_object', 'json', 'regex', 'choice', 'grammar', 'lark', not a string",
    ],
    [{ kind: 'json_schema' }, 'options.schema must be a string, not undefined'],
    [
      { kind: 'json_schema', schema: 'x'.repeat(2 ** 20 + 1) },
      'options.schema has 1048577 bytes of UTF-8, more than 1048576',
    ],
    [{ kind: 'regex' }, 'options.pattern must be a string, not undefined'],
    [{ kind: 'regex', pattern: '' }, 'options.pattern is empty'],
    [{ kind: 'grammar' }, 'options.grammar must be a string, not undefined'],
    [{ kind: 'grammar', grammar: '' }, 'options.grammar is empty'],
    [{ kind: 'choice', choices: 'a' }, 'options.choices must be an array, not a string'],
    [{ kind: 'choice', choices: [] }, 'options.choices is empty'],
    [{ kind: 'choice', choices: ['a', ''] }, 'options.choices[1] is empty'],
    [{ kind: 'choice', choices: ['a', 1] }, 'options.choices[1] must be a string, not 1'],
    [{ suffix: 7 }, 'options.suffix must be a string, not 7'],
    [{ suffix: 'x'.repeat(1025) }, 'options.suffix has 1025 bytes of UTF-8, more than 1024'],
    [{ strict: 1 }, 'options.strict must be a boolean, not 1'],
    [{ oneOfAsAnyOf: null }, 'options.oneOfAsAnyOf must be a boolean, not null'],
    [{ order: 'none' }, "options.order must be one of 'schema', 'any', not a string"],
    [{ whiteSpace: '' }, "options.whiteSpace must be one of 'none', 'flexible', 'within', not a string"],
  ]);
});

t.test('schema problems are reported with their position', async (t) => {
  const engine = await loadStarter('grammar-problems');
  t.teardown(() => engine.close());
  const of = (more: Partial<GrammarOptions>) => engine.compileGrammar({ ...options, ...more });
  const schema = (value: unknown) =>
    of({ kind: 'json_schema', schema: typeof value === 'string' ? value : JSON.stringify(value) });
  t.match(await schema('{'), { grammar: null, problems: [{ kind: 'invalid', pointer: '' }] });
  t.match(await schema({ type: 'string', enum: [1] }), { grammar: null, problems: [{ kind: 'impossible' }] });
  const unsupported = { properties: { a: { type: 'array', uniqueItems: true } } };
  t.match(await schema(unsupported), {
    grammar: null,
    problems: [{ kind: 'unsupported', pointer: '/properties/a', keyword: 'uniqueItems' }],
  });
  const lenient = await of({ kind: 'json_schema', schema: JSON.stringify(unsupported), strict: false });
  t.ok(lenient.grammar, 'without strict, the unsupported keyword is ignored');
  t.match(lenient.problems, [{ kind: 'unsupported', keyword: 'uniqueItems' }]);
  t.match(await of({ kind: 'regex', pattern: '(' }), { grammar: null, problems: [{ kind: 'invalid' }] });
  t.match(await of({ kind: 'regex', pattern: '(a)\\1' }), { grammar: null, problems: [{ kind: 'unsupported' }] });
  t.match(await of({ kind: 'regex', pattern: '[^\\s\\S]' }), { grammar: null, problems: [{ kind: 'impossible' }] });
  t.match(await of({ kind: 'grammar', grammar: 'root ::= a' }), {
    grammar: null,
    problems: [{ kind: 'invalid', what: 'the grammar is invalid: line 1, column 10: undefined rule "a"' }],
  });
  t.match(await of({ kind: 'grammar', grammar: 'root ::= "(" root' }), {
    grammar: null,
    problems: [{ kind: 'impossible', what: /the rule "root" recurses without end/ }],
  });
  const good = await schema(person);
  t.same(good.problems, []);
  t.ok(good.grammar !== null && good.grammar.bytes > 100);
  t.throws(() => Reflect.construct(Object(good.grammar).constructor, []), {
    name: 'TypeError',
    message: /cannot be constructed/,
  });
});

t.test('submit accepts only grammars of its own engine', async (t) => {
  const engine = await loadStarter('grammar-submit');
  const other = await loadStarter('grammar-submit-other');
  t.teardown(() => Promise.all([engine.close(), other.close()]));
  const channel: NativeChannel = engine.open(() => {});
  const base = submitOptions(promptOf(engine));
  const own = (await engine.compileGrammar(options)).grammar;
  const foreign = (await other.compileGrammar(options)).grammar;
  const submit = (more: object): unknown => Reflect.apply(channel.submit, channel, [{ ...base, ...more }]);
  const calls = {
    open: '<tool_call>',
    close: '</tool_call>',
    atStart: false,
    prefixes: ['\n'],
    required: false,
    forbidden: false,
  };
  refusals(t, (format) => submit({ format }), [
    [{}, 'options.format must be a NativeGrammar, not an object'],
    ['json', 'options.format must be a NativeGrammar, not a string'],
    [Object.create(Object.getPrototypeOf(own)), 'options.format must be a NativeGrammar, not an object'],
    [engine, 'options.format must be a NativeGrammar, not an object'],
    [foreign, 'options.format is a grammar of another engine'],
  ]);
  refusals(t, (grammars) => submit({ calls: { ...calls, grammars } }), [
    [own, 'options.calls.grammars must be an array, not an object'],
    [[], 'options.calls.grammars must have one entry for each of prefixes'],
    [[1], 'options.calls.grammars[0] must be a NativeGrammar, not 1'],
    [[foreign], 'options.calls.grammars[0] is a grammar of another engine'],
  ]);
  for (const fine of [
    { format: own },
    { format: null },
    { calls: { ...calls, grammars: [null] } },
    { calls: { ...calls, grammars: [own] }, format: own },
  ])
    t.doesNotThrow(() => submit(fine));
  channel.close();
});

t.test('output follows its format', async (t) => {
  const native = await loadStarter('grammar-answers');
  const engine = new Engine(native);
  t.teardown(() => engine.close());
  const answer = (more: Partial<SubmitOptions>): Promise<{ text: string; reason: string }> =>
    new Promise((resolve, reject) => {
      let text = '';
      engine.generate({ ...submitOptions(promptOf(native)), maxTokens: 200, ...more }, (event: EngineEvent) => {
        if (event.type === 'text') text += event.text;
        if (event.type === 'failed') reject(new Error(event.message));
        if (event.type === 'finished') resolve({ text, reason: event.reason });
      });
    });
  const { grammar } = await engine.compileGrammar({ ...options, kind: 'json_schema', schema: JSON.stringify(person) });
  for (let seed = 0n; seed < 10n; ++seed) {
    const { text, reason } = await answer({ format: grammar, seed, temperature: 1.5 });
    t.equal(reason, 'end_of_turn');
    const value: unknown = JSON.parse(text);
    t.match(value, { name: String, age: Number });
  }
  const choice = await engine.compileGrammar({ ...options, kind: 'choice', choices: ['yes', 'no'] });
  t.match((await answer({ format: choice.grammar })).text, /^(yes|no)$/);
  const regex = await engine.compileGrammar({ ...options, kind: 'regex', pattern: '[A-Z]{3}-\\d{2}' });
  t.match((await answer({ format: regex.grammar })).text, /^[A-Z]{3}-\d{2}$/);
  const rules = await engine.compileGrammar({
    ...options,
    kind: 'grammar',
    grammar: 'root ::= "(" root ")" | [a-z]{1,3}',
  });
  for (let seed = 0n; seed < 5n; ++seed) {
    const { text } = await answer({ format: rules.grammar, seed, temperature: 1.5 });
    const depth = text.lastIndexOf('(') + 1;
    t.match(text.slice(depth, text.length - depth), /^[a-z]{1,3}$/);
    t.equal(text.slice(text.length - depth), ')'.repeat(depth), 'every opening parenthesis is closed');
  }
});

t.test('compiling many hostile schemas is bounded in time and does not block the event loop', async (t) => {
  const engine = await loadStarter('grammar-hostile');
  t.teardown(() => engine.close());
  const deep = '{"not":'.repeat(100) + '{}' + '}'.repeat(100);
  const wide = JSON.stringify({
    allOf: Array.from({ length: 40 }, (_, i) => ({
      anyOf: [{ minLength: i }, { required: [`a${i}`] }, { pattern: `a${i}.*b{3,90}` }],
    })),
  });
  const patterns = Array.from({ length: 16 }, (_, i) =>
    JSON.stringify({
      type: 'string',
      allOf: [
        { pattern: `(a|b)*a(a|b){${12 + i}}$` },
        { pattern: `^(.*x.*y.*z){${i + 1},60}$` },
        { not: { pattern: `(ab|ba)*c{${i},4000}` } },
      ],
    }),
  );
  let longest = 0,
    last = performance.now();
  const watch = setInterval(() => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }, 5);
  const begun = performance.now();
  const spent = cpuTime();
  const results = await Promise.all(
    [deep, wide, ...patterns].map((schema, i) =>
      engine.compileGrammar({ ...options, kind: 'json_schema', schema, suffix: String(i) }),
    ),
  );
  clearInterval(watch);
  t.comment(
    `${results.length} schemas in ${Math.round(performance.now() - begun)} ms, ${results.filter((r) => r.grammar !== null).length} compiled, event loop blocked for at most ${Math.round(longest)} ms`,
  );
  t.ok(spent() < 18 * 3000, `${spent().toFixed()} ms of CPU time`);
});
