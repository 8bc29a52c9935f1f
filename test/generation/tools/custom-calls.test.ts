// Forces an untrained model to call custom tools: every output that the model samples must match the tool's grammar, in
// every call syntax. The tests check the output without the grammar engine.
import t from 'tap';
import { Engine } from '../../../src/engine/engine.js';
import { customParameters, CustomInputReader } from '../../../src/generation/custom-tools.js';
import type { TextGrammar, ToolDefinition } from '../../../src/generation/types.js';
import { loadStarter } from '../../addon/starter.js';
import { forcedCall, syntaxes } from './forced-call.js';

t.setTimeout(300_000); // the machine may be busy

const custom = (name: string, grammar: Omit<TextGrammar, 'path'> | null): ToolDefinition => ({
  name,
  description: null,
  parameters: customParameters(grammar === null ? null : { ...grammar, path: '' }),
  strict: true,
  path: name,
  custom: { grammar: grammar === null ? null : { ...grammar, path: '' } },
});

const PATCH = `start: "*** Begin" LF change~1..2 "*** End" LF?
change: "add " name LF line~0..2 | "delete " name LF
name: /[a-z]{1,4}/
line: "+" /[^\\n]{0,5}/ LF
%import common.LF
`;
const isPatch = (text: string): boolean =>
  /^\*\*\* Begin\n(?:add [a-z]{1,4}\n(?:\+[^\n]{0,5}\n){0,2}|delete [a-z]{1,4}\n){1,2}\*\*\* End\n?$/u.test(text);

const NESTED = `start: "(" start ")" | "[" start "]" | "x"~1..3`;
function isNested(text: string): boolean {
  let inner = text;
  for (;;) {
    const less = /^\((.*)\)$/s.exec(inner)?.[1] ?? /^\[(.*)\]$/s.exec(inner)?.[1];
    if (less === undefined) return /^x{1,3}$/.test(inner);
    inner = less;
  }
}

const cases: [tool: ToolDefinition, fits: (text: string) => boolean][] = [
  [custom('patch', { syntax: 'lark', definition: PATCH }), isPatch],
  [custom('nest', { syntax: 'lark', definition: NESTED }), isNested],
  [
    custom('stamp', { syntax: 'regex', definition: '(?i:at )\\d\\d:[0-5]\\d( [^"\\\\]{1,3})?' }),
    (text) => /^at \p{Nd}{2}:[0-5]\p{Nd}( [^"\\]{1,3})?$/iu.test(text),
  ],
];

t.test('the input of a custom tool always matches its grammar', async (t) => {
  const native = await loadStarter('custom-calls');
  const engine = new Engine(native);
  t.teardown(() => engine.close());
  for (const [family, syntax] of syntaxes) {
    for (const [tool, fits] of cases) {
      let whole = 0;
      for (let seed = 0n; seed < 4n; seed++) {
        const { calls, text, reason } = await forcedCall(native, engine, syntax, {
          tools: [tool],
          seed,
          parallel: false,
          maxTokens: 150,
        });
        const [call] = calls;
        if (call === undefined || text.trim() !== '') {
          t.fail(`${family}, ${tool.name}, seed ${seed}: ${JSON.stringify({ calls, text, reason })}`);
          continue;
        }
        if (call.complete !== true) continue; // cut off by the token limit
        whole++;
        const read = new CustomInputReader();
        const input = read.add(call.json) + read.end(true);
        if (!fits(input)) t.fail(`${family}, ${tool.name}, seed ${seed}: ${JSON.stringify(input)}`);
      }
      t.ok(whole > 0, `${family}: ${tool.name}`);
    }
  }
});

t.test('an unusable grammar is rejected with the reason and the position', async (t) => {
  const native = await loadStarter('custom-refused');
  const engine = new Engine(native);
  t.teardown(() => engine.close());
  const [, syntax] = syntaxes[0]!;
  const refused = async (grammar: Omit<TextGrammar, 'path'>): Promise<unknown> => {
    const tool = { ...custom('bad', grammar), custom: { grammar: { ...grammar, path: 'tools[0].format.definition' } } };
    return forcedCall(native, engine, syntax, { tools: [tool], seed: 0n, parallel: false }).catch(
      (error: unknown) => error,
    );
  };
  t.match(await refused({ syntax: 'lark', definition: 'start: A' }), {
    status: 422,
    code: 'invalid_value',
    param: 'tools[0].format.definition',
    message: 'tools[0].format.definition: the grammar is invalid: line 1, column 8: undefined terminal "A".',
  });
  t.match(await refused({ syntax: 'regex', definition: '(a)\\1' }), {
    status: 422,
    code: 'invalid_value',
    param: 'tools[0].format.definition',
  });
});

t.test('decodes the input regardless of how the arguments are split into deltas', (t) => {
  const input = 'a "quoted"\n\\ \u00e9 \u{1f600} \u0001 end';
  const spellings = [
    JSON.stringify({ input }),
    `{ "input" : ${JSON.stringify(input)} }`,
    `{"input":"${[...input].map((c) => [...c].map((unit) => escaped(unit)).join('')).join('')}"}`,
  ];
  for (const json of spellings) {
    for (let size = 1; size <= json.length; size++) {
      const read = new CustomInputReader();
      let text = '';
      for (let at = 0; at < json.length; at += size) {
        const piece = read.add(json.slice(at, at + size));
        if (/[\ud800-\udbff]$/.test(piece)) t.fail('a piece ends within a character');
        text += piece;
      }
      text += read.end(true);
      if (text !== input) t.equal(text, input, `pieces of ${size}`);
    }
  }
  const cut = new CustomInputReader();
  t.equal(cut.add('{"input":"ab\\u00') + cut.end(false), 'ab', 'a call that was cut off keeps its whole characters');
  const other = new CustomInputReader();
  t.equal(other.add('{"text":1,"input":"x"}') + other.end(true), 'x', 'other members');
  const odd = new CustomInputReader();
  t.equal(odd.add('[1]') + odd.end(true), '[1]', 'arguments of another form are the input');
  t.end();
});

/** All UTF-16 units of a character as JSON escapes. */
function escaped(character: string): string {
  let text = '';
  for (let at = 0; at < character.length; at++) text += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
  return text;
}
