// Tests every call syntax: it is recognized in the vendor's template; if the template renders several calls with
// awkward arguments, they parse back unchanged at every split; and every text that the engine's grammar allows parses
// as a call that matches its tool.
import t from 'tap';
import type { NativeGrammar } from '../../../src/engine/addon-grammar-types.js';
import type { NativeEngine } from '../../../src/engine/addon-types.js';
import { ChatTemplate } from '../../../src/generation/local/template/chat-template.js';
import { compileGrammars } from '../../../src/generation/local/grammars.js';
import { PromptWriter } from '../../../src/generation/local/prompt-writer.js';
import { callOptions } from '../../../src/generation/local/tools/call-options.js';
import { CallStream } from '../../../src/generation/local/tools/call-stream.js';
import { findDialect, describeTools } from '../../../src/generation/local/tools/dialect.js';
import type { ToolSyntax } from '../../../src/generation/local/tools/syntax.js';
import { findMarkers } from '../../../src/generation/local/reasoning.js';
import type { Message, ToolDefinition } from '../../../src/generation/types.js';
import { loadStarter } from '../../addon/starter.js';
import { templates } from './family-templates.js';

const never = (): boolean => false;

const families = Object.entries(templates).map(([family, source]) => {
  const template = new ChatTemplate(source, { bos: null, eos: null });
  const dialect = findDialect(template, never);
  return { family, source, template, dialect, syntax: dialect.syntax };
});

const definition = (name: string, parameters: ToolDefinition['parameters']): ToolDefinition => ({
  name,
  description: 'what it does',
  parameters,
  strict: true,
  path: `tools.${name}`,
});

const definitions: ToolDefinition[] = [
  definition('get_weather', {
    type: 'object',
    additionalProperties: false,
    required: ['location', 'days', 'unit', 'hourly', 'filter', 'tags', 'note'],
    properties: {
      location: { type: 'string' },
      days: { type: 'integer' },
      unit: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      hourly: { type: 'boolean' },
      filter: {
        type: 'object',
        additionalProperties: false,
        properties: { a: { type: 'array', items: { $ref: '#/$defs/entry' } }, empty: { type: 'string' } },
        required: ['a', 'empty'],
      },
      tags: { type: 'array', items: { type: ['string', 'number'] } },
      note: { $ref: '#/$defs/text' },
    },
    $defs: {
      entry: {
        type: 'object',
        properties: { b: { type: 'string' }, n: { type: 'integer' } },
        required: ['b', 'n'],
        additionalProperties: false,
      },
      text: { type: 'string' },
    },
  }),
  definition('get_time', null),
];
/** Empty, nested and schemaless objects and arrays; numbers at the limits of 64 bits. */
const store = definition('store', {
  type: 'object',
  required: [],
  properties: {
    data: { type: 'object' },
    list: { type: 'array' },
    rows: { type: 'array', items: { type: 'array', items: { type: ['integer', 'null'] } } },
    deep: {
      type: 'object',
      properties: { a: { type: 'object', properties: { b: { type: 'array', items: { type: 'object' } } } } },
    },
    most: { type: 'integer' },
    least: { type: 'integer' },
    tiny: { type: 'number' },
    no: { type: 'boolean' },
    lines: { type: 'string' },
    'odd-name.1': { type: 'string' },
    said: { type: ['string', 'null'] },
  },
});
const STORED =
  '{"data": {}, "list": [], "rows": [[], [1, null], [-9223372036854775808]], "deep": {"a": {"b": [{}, {"c": 18446744073709551615, "d": "e"}]}}, ' +
  '"most": 18446744073709551615, "least": -9223372036854775808, "tiny": -0.5e-10, "no": false, "lines": "\\\\n\\n\\r\\n \\t", "odd-name.1": "null", "said": "\\"5\\""}';

const callable = new Map([...definitions, store].map(({ name, parameters }) => [name, parameters]));

/** Quotes, line breaks, nested objects, 64-bit integers and empty values. */
const AWKWARD =
  '{"location": "a \\"q\\" \\\\ b\\n\\n\'c\' é 😀 <x> [1] {y}", "days": -9007199254740993123, "unit": null, "hourly": true, ' +
  '"filter": {"a": [{"b": "x\\ty", "n": 12345678901234567890}], "empty": ""}, "tags": ["", "7", 7, 1000], "note": ""}';

/** MiniMax M3's template leaves out null, and renders the string "7" like the number 7. */
const awkwardOf = (family: string): string =>
  family === 'minimax-m3' ? AWKWARD.replace('"7"', '"7 of 9"').replace('"unit": null', '"unit": "C"') : AWKWARD;

interface Told {
  calls: { name: string; text: string; complete: boolean }[];
  text: string;
}

function read(syntax: ToolSyntax, pieces: readonly string[]): Told {
  const told: Told = { calls: [], text: '' };
  const stream = new CallStream(syntax, callable, {
    started: (name) => told.calls.push({ name, text: '', complete: false }),
    arguments: (text) => {
      told.calls.at(-1)!.text += text;
    },
    finished: (complete) => {
      told.calls.at(-1)!.complete = complete;
    },
    text: (text) => {
      told.text += text;
    },
  });
  for (const piece of pieces) stream.push(piece);
  stream.end(true);
  return told;
}

/** Parses JSON and keeps numbers as their text. */
const exact = (json: string): unknown =>
  JSON.parse(
    json.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
      token.startsWith('"') ? token : `"number ${token}"`,
    ),
  );
const alike = (json: string): unknown => {
  const value = exact(json);
  return JSON.parse(
    JSON.stringify(value, (_, one: unknown) =>
      typeof one === 'string' && one.startsWith('number ') && one.length < 20 ? `number ${Number(one.slice(7))}` : one,
    ),
  );
};

const user: Message = { role: 'user', content: 'Weather?' };
const result = (id: string): Message => ({ role: 'tool', toolCallId: id, content: 'result-text' });

/** Returns the template's output for a message with these calls, starting at the first call marker. */
function writtenBy(
  { template, dialect, syntax, source }: (typeof families)[number],
  calls: { id: string; name: string; arguments: string }[],
  more: Partial<Extract<Message, { role: 'assistant' }>> = {},
): { whole: string; calls: string } {
  const writer = new PromptWriter(template, dialect, findMarkers(source, never), null);
  const message: Message = { role: 'assistant', content: '', toolCalls: calls, ...more };
  const { text: prompt } = writer.write(
    {
      messages: [user, message, ...calls.map(({ id }) => result(id))],
      tools: [],
      format: { type: 'text' },
      continueFinal: false,
      promptParam: 'messages',
    },
    { thinking: false },
  );
  const text =
    syntax.answer !== undefined && prompt.endsWith(syntax.open) ? prompt.slice(0, -syntax.open.length) : prompt;
  const from = Math.max(0, text.indexOf(syntax.bare ? '{"name"' : syntax.open));
  const parts = text
    .slice(from)
    .split(/<\|over\|>|<\|calls?\|>/)
    .filter((part) =>
      part.includes(syntax.bare ? '{"name"' : syntax.name === 'harmony' ? 'to=functions.' : syntax.open),
    );
  const begin = (part: string): number =>
    syntax.name === 'harmony' ? part.lastIndexOf(syntax.open) : part.indexOf(syntax.bare ? '{"name"' : syntax.open);
  return { whole: text, calls: parts.map((part) => part.slice(begin(part))).join(syntax.bare ? ';' : '') };
}

const names: Readonly<Record<string, string>> = {
  'glm-tight': 'glm',
  'hunyuan-tight': 'hunyuan',
  seed: 'xml',
  'gigachat-marked': 'gigachat',
};

t.test('recognizes the call syntax of every template', async (t) => {
  for (const { family, syntax, dialect } of families)
    t.same([syntax.name, dialect.showsTools, dialect.showsCalls], [names[family] ?? family, true, true], family);
});

t.test('several calls with awkward arguments parse back unchanged at every split', async (t) => {
  for (const one of families) {
    const awkward = awkwardOf(one.family);
    const calls = [
      { id: 'call_1', name: 'get_weather', arguments: awkward },
      { id: 'call_2', name: 'get_time', arguments: '{}' },
      { id: 'call_3', name: 'get_weather', arguments: awkward },
    ];
    const { whole, calls: text } = writtenBy(one, calls, { reasoning: 'thinking-text' });
    t.match(whole, /thinking-text/, `${one.family}: reasoning before calls`);
    t.equal(whole.split('result-text').length, 4, `${one.family}: results`);
    if (one.family === 'harmony')
      t.match(whole, '<|channel|>analysis<|message|>thinking-text<|end|>', 'reasoning is in its own channel');
    if (one.family === 'solar')
      t.match(whole, '<|begin|>assistant<|think|>thinking-text<|end|>', 'reasoning is in its own message');
    const told = read(one.syntax, [text]);
    t.same(
      told.calls.map(({ name, complete, text: json }) => ({ name, complete, json: alike(json) })),
      calls.map(({ name, arguments: json }) => ({ name, complete: true, json: alike(json) })),
      `${one.family}: ${text}`,
    );
    t.equal(told.text.trim(), '', one.family);
    const different: number[] = [];
    for (let at = 1; at < text.length; at++)
      if (JSON.stringify(read(one.syntax, [text.slice(0, at), text.slice(at)])) !== JSON.stringify(told))
        different.push(at);
    t.same(different, [], `${one.family}: split in two`);
    t.same(read(one.syntax, text.split('')), told, `${one.family}: character by character`);
  }
});

t.test('empty, nested and 64-bit arguments parse back unchanged', async (t) => {
  for (const one of families) {
    const { calls: text } = writtenBy(one, [{ id: 'call_1', name: 'store', arguments: STORED }]);
    for (const pieces of [
      [text],
      text.split(''),
      [one.syntax.write([{ name: 'store', arguments: STORED }]).replaceAll('<|call|>', '')],
    ]) {
      const told = read(one.syntax, pieces);
      t.same(
        told.calls.map(({ name, complete, text: json }) => [name, complete, alike(json)]),
        [['store', true, alike(STORED)]],
        `${one.family}: ${pieces[0]!}`,
      );
      t.equal(told.text.trim(), '', one.family);
    }
  }
});

t.test('parses output written without a template', async (t) => {
  for (const { family, syntax } of families) {
    const told = read(syntax, [
      syntax
        .write([
          { name: 'get_weather', arguments: awkwardOf(family) },
          { name: 'get_time', arguments: '{}' },
        ])
        .replaceAll('<|call|>', ''),
    ]);
    t.same(
      told.calls.map(({ name, text }) => [name, alike(text)]),
      [
        ['get_weather', alike(awkwardOf(family))],
        ['get_time', {}],
      ],
      family,
    );
    t.ok(
      describeTools([], syntax).includes(
        syntax.write([{ name: 'tool-name', arguments: '{"argument-name": "value"}' }]),
      ),
      family,
    );
  }
});

const auto = { tools: definitions, toolChoice: { mode: 'auto' as const, allowed: null }, parallelToolCalls: true };

async function grammarsOf(
  engine: NativeEngine,
  syntax: ToolSyntax,
  tools = definitions,
): Promise<ReadonlyMap<string, NativeGrammar>> {
  return (
    await compileGrammars(
      engine,
      { format: { type: 'text' }, tools },
      syntax,
      { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
      { organization: 1 },
    )
  ).calls;
}

t.test('a grammar allows the syntax that its model was trained on', async (t) => {
  const engine = await loadStarter('syntaxes-learned');
  t.teardown(() => engine.close());
  for (const one of families) {
    const { family, syntax } = one;
    const grammars = await grammarsOf(engine, syntax);
    for (const [name, json] of [
      ['get_weather', awkwardOf(family)],
      ['get_time', '{}'],
    ] as const) {
      const options = callOptions(
        { ...auto, tools: definitions.filter((tool) => tool.name === name) },
        syntax,
        grammars,
      );
      const { calls: text } = writtenBy(one, [{ id: 'call_1', name, arguments: json }]);
      // gpt-oss's template writes the parts of a call in a different order than the model. The end of a list is not
      // part of the grammar. A constrained call's id is a number.
      const learned =
        family === 'harmony'
          ? `${syntax.engineOpen}${syntax.head(name)}${json}`
          : family === 'solar'
            ? `${text.replace('call_1', '0')}<|calls|>`
            : text;
      const begin = syntax.engineOpen + syntax.head(name);
      t.ok(
        learned.startsWith(begin),
        `${family}: ${JSON.stringify(learned.slice(0, 80))} starts with ${JSON.stringify(begin)}`,
      );
      let body = learned.slice(begin.length).trimEnd();
      const end = options?.end ?? '';
      if (end !== '') {
        t.ok(body.endsWith(end), `${family}: ${JSON.stringify(body.slice(-40))} ends with ${JSON.stringify(end)}`);
        body = body.slice(0, -end.length);
      }
      // Without parameters, the template adds an empty line.
      if (family === 'dsml' && name === 'get_time') body = body.trimStart();
      // The grammar allows less consecutive whitespace than this template writes.
      if (family === 'command-plus') body = body.replace(/\n {17,}/g, '\n                ');
      if (family === 'mistral') body = body.replace(/, "id": "[^"]*"\}$/, '}');
      const next = grammars.get(name)!.follow(bytesOf(engine, body));
      t.equal(next?.accepts, true, `${family}, ${name}: ${JSON.stringify(body)}`);
    }
  }
});

/** In a grammar, special tokens are symbols of four bytes. */
function symbolsOf(engine: NativeEngine): [spelling: string, symbol: Buffer][] {
  return engine.info.specialTokens.map((spelling) => {
    const id = engine.findToken(spelling);
    return [spelling, Buffer.from([0xff, id >> 16, id >> 8, id])];
  });
}

function bytesOf(engine: NativeEngine, text: string): Uint8Array {
  let bytes = Buffer.from(text);
  for (const [spelling, symbol] of symbolsOf(engine)) {
    const [mark, found] = [symbol.toString('latin1'), Buffer.from(spelling).toString('latin1')];
    bytes = Buffer.from(bytes.toString('latin1').replaceAll(found, mark), 'latin1');
  }
  return bytes;
}

function textOf(engine: NativeEngine, bytes: readonly number[]): string {
  let text = Buffer.from(bytes).toString('latin1');
  for (const [spelling, symbol] of symbolsOf(engine))
    text = text.replaceAll(symbol.toString('latin1'), Buffer.from(spelling).toString('latin1'));
  return Buffer.from(text, 'latin1').toString();
}

/** A small seeded generator, so that failures are reproducible. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Generates a random text that the grammar allows and that tends to end after a while; null if it does not end. */
function someText(
  engine: NativeEngine,
  grammar: NativeGrammar,
  random: (below: number) => number,
  tempting: string,
  end: Buffer,
): string | null {
  const bytes: number[] = [];
  for (let round = 0; round < 3_000; round++) {
    const next = grammar.follow(Uint8Array.from(bytes));
    if (next === null) return null;
    const may = [...next.bytes];
    if (next.accepts && (may.length === 0 || random(4) === 0)) return textOf(engine, bytes);
    if (may.length === 0) return null;
    // Favors bytes that look like the start of an end marker and, more and more over time, bytes that end strings and
    // numbers. Sometimes writes the end marker itself, up to where the grammar stops it.
    const said = Buffer.from(bytes).toString('latin1');
    let begun = Math.min(end.length - 1, said.length);
    while (begun > 0 && !said.endsWith(end.slice(0, begun).toString('latin1'))) begun--;
    if (end.length > 0 && may.includes(end[begun]!) && random(2) === 0) {
      bytes.push(end[begun]!);
      continue;
    }
    const wanted = [
      ...Buffer.from(random(3) === 0 ? tempting : bytes.length > 60 ? '"</}]),>\n' : ' aZ9é"\\-.,{}[]<>\n:='),
    ].filter((byte) => may.includes(byte));
    bytes.push(wanted.length > 0 && random(20) > 0 ? wanted[random(wanted.length)]! : may[random(may.length)]!);
  }
  return '';
}

t.test('every text that the grammar allows parses as a call of the tool', async (t) => {
  const engine = await loadStarter('syntaxes-bound');
  t.teardown(() => engine.close());
  const schema = {
    type: 'object',
    additionalProperties: { type: 'string', maxLength: 3 },
    required: ['s', 'n', 'u', 'e', 'o'],
    maxProperties: 7,
    properties: {
      s: { type: 'string', maxLength: 60 },
      n: { type: 'integer' },
      u: { type: ['string', 'null'], maxLength: 5 },
      e: { enum: ['5', 'null', 'a"b', '</x'] },
      o: {
        type: 'object',
        properties: { x: { type: 'string', maxLength: 4 }, y: { type: ['string', 'integer'], maxLength: 2 } },
        required: ['x', 'y'],
        additionalProperties: false,
      },
      m: { anyOf: [{ type: 'integer' }, { type: 'string', maxLength: 3 }] },
      b: { type: 'boolean' },
      z: { $ref: '#/$defs/z' },
    },
    $defs: { z: { type: 'array', items: { type: 'boolean' }, maxItems: 2 } },
  };
  const wrong: string[] = [];
  let whole = 0;
  for (const { family, syntax } of families) {
    const grammar = (await grammarsOf(engine, syntax, [definition('f', schema)])).get('f')!;
    const tools = new Map([['f', schema]]);
    const random = randomOf(5);
    const { textEnd = '', stringMark = '' } = syntax.spelling?.(schema) ?? {};
    const ends = textEnd || stringMark;
    const closing = syntax.tail + (syntax.several?.end ?? '');
    for (let round = 0; round < 12; round++) {
      const body = someText(
        engine,
        grammar,
        random,
        closing + '<>/',
        round % 2 === 0 ? Buffer.from(ends) : Buffer.alloc(0),
      );
      if (body === '') continue; // the text became too long
      whole++;
      if (body === null) {
        wrong.push(`${family}: the grammar reached a dead end`);
        continue;
      }
      const text = syntax.engineOpen + syntax.head('f') + body + (syntax.several?.end ?? '');
      let json = '';
      let finished: boolean | null = null;
      let other = '';
      const stream = new CallStream(syntax, tools, {
        started: () => {},
        arguments: (piece) => {
          json += piece;
        },
        finished: (complete) => {
          finished = complete;
        },
        text: (piece) => {
          other += piece;
        },
      });
      stream.push(text);
      stream.end(true);
      if (finished !== true || other.trim() !== '' || !fits(json))
        wrong.push(`${family}: ${JSON.stringify(text)} as ${json} ${String(finished)} ${JSON.stringify(other)}`);
    }
  }
  t.same(wrong, []);
  t.ok(whole > families.length * 6, `${whole} complete texts`);
});

/** Returns whether the types of the arguments match the schema of the test above. */
function fits(json: string): boolean {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(json) as Record<string, unknown>;
  } catch {
    return false;
  }
  const { s, n, u, e, o, m, b, z, ...others } = value;
  const length = (text: unknown, most: number): boolean => typeof text === 'string' && [...text].length <= most;
  const inner = o as { x?: unknown; y?: unknown };
  return (
    length(s, 60) &&
    Number.isInteger(n) &&
    (u === null || length(u, 5)) &&
    ['5', 'null', 'a"b', '</x'].includes(e as string) &&
    typeof o === 'object' &&
    length(inner.x, 4) &&
    (Number.isInteger(inner.y) || length(inner.y, 2)) &&
    (m === undefined || Number.isInteger(m) || length(m, 3)) &&
    (b === undefined || typeof b === 'boolean') &&
    (z === undefined || Array.isArray(z)) &&
    Object.values(others).every((text) => length(text, 3))
  );
}
