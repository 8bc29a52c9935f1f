// Tests where tool calls and reasoning are found in rendered prompts, and when recorded token IDs replace them. Uses
// chat templates of several model families.
import t from 'tap';
import { equalJson } from '../../src/generation/local/replay/json-equal.js';
import { readSection, sectionStart } from '../../src/generation/local/replay/call-section.js';
import { ReplayMarks } from '../../src/generation/local/replay/replay-marks.js';
import { WrittenItems } from '../../src/generation/local/replay/written-items.js';
import { PromptWriter } from '../../src/generation/local/prompt-writer.js';
import { findMarkers } from '../../src/generation/local/reasoning.js';
import { startersOf } from '../../src/generation/local/shield.js';
import { ChatTemplate } from '../../src/generation/local/template/chat-template.js';
import { findDialect } from '../../src/generation/local/tools/dialect.js';
import { keyOfCallId, packTokens, reasoningKey, unpackTokens } from '../../src/generation/replay/replay-item.js';
import type { Message, ToolCall } from '../../src/generation/types.js';

t.test('tokens are packed and unpacked', async (t) => {
  const ids = Int32Array.of(0, 1, 127, 128, 16_383, 16_384, 151_667, 2 ** 31 - 1);
  t.same(unpackTokens(packTokens(ids)), ids);
  t.same(unpackTokens(new Uint8Array()), new Int32Array());
  t.equal(unpackTokens(Uint8Array.of(1, 0x80)), null, 'cut off');
  t.equal(unpackTokens(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff)), null, 'too long');
  t.equal(unpackTokens(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x0f)), null, 'negative');
});

t.test('only IDs that this server creates have a key', async (t) => {
  const random = '0'.repeat(24);
  t.equal(keyOfCallId(`call_${random}`), keyOfCallId(`toolu_${random}`));
  for (const id of [`call_${random}0`, 'call_1', '', `x${random}`, `call_${random}\n`])
    t.equal(keyOfCallId(id), null, id);
});

t.test('arguments are compared as JSON values', async (t) => {
  for (const [one, other] of [
    ['{"a": 1, "b": [true, null]}', '{"b":[true,null],"a":1}'],
    ['{"a": "\\u00e9\\n"}', '{"a": "é\\u000a"}'],
    ['{"a": 1.0}', '{"a": 1}'],
    ['', '{}'],
    ['not JSON', 'not JSON'],
  ] as const)
    t.ok(equalJson(one, other), one);
  for (const [one, other] of [
    ['{"a": 1}', '{"a": 2}'],
    ['{"a": 1}', '{"a": "1"}'],
    ['{"a": 1}', '{"a": true}'],
    ['{"a": 1}', '{"a": 1, "b": null}'],
    ['{"a": 12345678901234567890}', '{"a": 12345678901234567891}'],
    ['[1, 2]', '[2, 1]'],
    ['{"a": {"b": 1}}', '{"a": {"b": 2}}'],
    ['{"a": 1', '{"a":1'],
  ] as const)
    t.notOk(equalJson(one, other), one);
});

/** Returns a chat template that renders calls in the given way. */
const templateOf = (call: string, begin = '', end = ''): string =>
  `{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}${begin}{% for c in m.tool_calls %}${call}{% endfor %}${end}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;

const SPECIALS = ['<|user|>', '<|assistant|>', '<|tool|>', '<|end|>', '<|system|>'];

/**
 * Tokenizes a text into one token per character. The token ID is the character's code point, so tokens can be decoded.
 */
const idsOf = (text: string): Int32Array => Int32Array.from([...text], (character) => character.codePointAt(0)!);
const decode = (ids: Int32Array): string => String.fromCodePoint(...ids);

interface Written {
  readonly source: string;
  /** The texts that the model generated. Keys are the ID of a section's first call, or the text of the reasoning. */
  readonly texts: Readonly<Record<string, string>>;
  readonly messages: Message[];
  readonly specials?: readonly string[];
}

/** Renders the prompt. Returns it with brackets around each replayed item, and the names of the items. */
function replayed({ source, texts, messages, specials = SPECIALS }: Written): { text: string; names: string[] } {
  const template = new ChatTemplate(source, { bos: null, eos: null });
  const markers = findMarkers(source, () => false);
  const writer = new PromptWriter(
    template,
    findDialect(template, () => false),
    markers,
    startersOf(specials),
  );
  const replays = new Map(
    Object.entries(texts).map(([name, text]) => [keyOfCallId(name) ?? reasoningKey(name), idsOf(text)]),
  );
  const tools = ['f', 'g'].map((name) => ({
    name,
    description: null,
    parameters: { type: 'object', properties: { a: { type: 'integer' }, s: { type: 'string' } } },
    strict: false,
    path: 'tools',
  }));
  const {
    replayed,
    texts: plain,
    guard,
  } = writer.write(
    { messages, tools, format: { type: 'text' }, continueFinal: false, promptParam: 'messages' },
    { thinking: true, replays },
    decode,
  );
  const character = String.fromCodePoint(guard);
  const text = (replayed?.texts ?? plain)
    .join('')
    .replace(
      new RegExp(`${character}{2}s(\\d+)${character}`, 'gu'),
      (_, at) => `«${decode(replayed!.items[Number(at)]!.ids)}»`,
    )
    .replaceAll(character, '');
  return { text, names: replayed?.items.map(({ name }) => name) ?? [] };
}

const ID = `call_${'0'.repeat(23)}1`;
const OTHER = `call_${'0'.repeat(23)}2`;
const call = (args: string, name = 'f', id = ID): ToolCall => ({ id, name, arguments: args });
const turn = (toolCalls: ToolCall[], more: object = {}): Message[] => [
  { role: 'user', content: 'Go.' },
  { role: 'assistant', content: '', toolCalls, ...more },
  ...toolCalls.map(({ id }): Message => ({ role: 'tool', content: '1', toolCallId: id })),
];

const HERMES = templateOf(
  '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>',
);

t.test('a call is replaced as a whole, in every syntax whose sections can be found', async (t) => {
  const cases: [name: string, source: string, written: string][] = [
    ['hermes', HERMES, '<tool_call>\n{"name": "f", "arguments": {"s":"x",  "a":1}}\n</tool_call>'],
    [
      'xml',
      templateOf(
        '<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>',
      ),
      '<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>',
    ],
    [
      'llama',
      templateOf('{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}'),
      '{"name": "f", "parameters": {"s":"x","a":1}}',
    ],
    [
      'mistral list',
      templateOf(
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}',
        '[TOOL_CALLS][',
        ']',
      ),
      '[TOOL_CALLS][{"name": "f", "arguments": {"s":"x", "a":1}}]',
    ],
    [
      'mistral',
      templateOf('[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}'),
      '[TOOL_CALLS]f[ARGS]{"s":"x","a":1}',
    ],
  ];
  for (const [name, source, written] of cases) {
    const { text, names } = replayed({
      source,
      texts: { [ID]: written },
      messages: turn([call('{"a": 1, "s": "x"}')]),
    });
    t.same(names, [ID], `${name}: ${text}`);
    t.match(text, `«${written}»<|end|>`, name);
    const edited = replayed({ source, texts: { [ID]: written }, messages: turn([call('{"a": 2, "s": "x"}')]) });
    t.same(edited.names, [], `${name}, edited: ${edited.text}`);
  }
});

/** Templates whose calls contain an ID or are messages of their own. `written`: a call as the model writes it. */
const WITH_IDS: readonly {
  name: string;
  source: string;
  written: (id: string, args: string) => string;
  ids: string[];
}[] = [
  {
    name: 'kimi, the ID of the call',
    source: withResults(
      '<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>',
      '<|tool_calls_section_begin|>',
      '<|tool_calls_section_end|>',
    ),
    written: (id, args) =>
      `<|tool_calls_section_begin|><|tool_call_begin|>${id}<|tool_call_argument_begin|>${args}<|tool_call_end|><|tool_calls_section_end|>`,
    ids: ['functions.f:7', 'functions.f:0'],
  },
  {
    name: 'kimi, the number in the message',
    source: withResults(
      '<|tool_call_begin|>functions.{{ c.function.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>',
      '<|tool_calls_section_begin|>',
      '<|tool_calls_section_end|>',
    ),
    written: (id, args) =>
      `<|tool_calls_section_begin|><|tool_call_begin|>${id}<|tool_call_argument_begin|>${args}<|tool_call_end|><|tool_calls_section_end|>`,
    ids: ['functions.f:0'],
  },
  {
    name: 'mistral',
    source: withResults(
      '{% if c.id | length != 9 %}{{ raise_exception("9 characters") }}{% endif %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}',
    ),
    written: (id, args) => `[TOOL_CALLS]f[CALL_ID]${id}[ARGS]${args}`,
    ids: ['a1B2c3D4e'],
  },
  {
    name: 'mistral list',
    source: withResults(
      '{% if c.id | length != 9 %}{{ raise_exception("9 characters") }}{% endif %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}',
      '[TOOL_CALLS] [',
      ']',
    ),
    written: (id, args) => `[TOOL_CALLS] [{"name": "f", "arguments": ${args}, "id": "${id}"}]`,
    ids: ['a1B2c3D4e'],
  },
  {
    name: 'solar',
    source: `${withResults(
      '<|tool_call:begin|>{{ c.id }}<|tool_call:name|>{{ c.function.name }}<|tool_call:args|>{{ c.function.arguments | tojson }}<|tool_call:end|>',
      '<|begin|>assistant<|tool_calls|>',
      '<|calls|>',
    )}{# <|begin|>assistant<|think|> <|begin|>assistant<|content|> #}`,
    written: (id, args) =>
      `<|begin|>assistant<|tool_calls|><|tool_call:begin|>${id}<|tool_call:name|>f<|tool_call:args|>${args}`,
    ids: ['x7Yk2', '0'],
  },
  {
    name: 'gpt-oss',
    source: `${withResults(
      '<|start|>assistant to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>{{ c.function.arguments | tojson }}<|call|>',
    )}{# <|channel|>analysis<|message|> <|channel|>final<|message|> #}`,
    written: (_id, args) =>
      `<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>${args}`,
    ids: ['none'],
  },
];

/** Like templateOf(), but results show the ID of their call. */
function withResults(call: string, begin = '', end = ''): string {
  return templateOf(call, begin, end).replace(
    '{{ m.content }}',
    '{% if m.role == "tool" %}[{{ m.tool_call_id }}]{% endif %}{{ m.content }}',
  );
}

t.test('a call with an ID, or in a message of its own, is replaced with the ID that the model chose', async (t) => {
  for (const { name, source, written, ids } of WITH_IDS) {
    for (const id of ids) {
      const text = written(id, '{"s":"x",  "a":1}');
      const texts = { [ID]: text };
      const unedited = replayed({ source, texts, messages: turn([call('{"a": 1, "s": "x"}')]) });
      t.same(unedited.names, [ID], `${name}: ${unedited.text}`);
      t.ok(unedited.text.includes(`«${text}»`), `${name}: ${unedited.text}`);
      if (name !== 'gpt-oss') t.ok(unedited.text.includes(`[${id}]1`), `the result has the ID, ${unedited.text}`);

      const forgotten = replayed({ source, texts: {}, messages: turn([call('{"a": 1, "s": "x"}')]) });
      for (const [what, messages] of [
        ['arguments', turn([call('{"a": 2, "s": "x"}')])],
        ['name', turn([call('{"a": 1, "s": "x"}', 'g')])],
      ] as const) {
        const edited = replayed({ source, texts, messages });
        t.same(edited.names, [], `${name}, edited ${what}`);
        t.equal(edited.text, replayed({ source, texts: {}, messages }).text, `${name}, edited ${what}`);
      }
      t.notMatch(forgotten.text, '«', name);
      if (name !== 'gpt-oss' && id.length > 1 && id !== 'functions.f:0')
        t.notOk(forgotten.text.includes(id), `${name}, forgotten: ${forgotten.text}`);
    }
  }
});

t.test('an edited or forgotten call does not change the other calls of a conversation', async (t) => {
  for (const { name, source, written, ids } of WITH_IDS) {
    const [id = ''] = ids;
    const one = written(id, '{"a":1}');
    const texts = { [ID]: one, [OTHER]: written('functions.f:0', '{"a":2}').replace('[functions.f:0]', '[0]') };
    const messages = (second: string): Message[] => [...turn([call('{"a": 1}')]), ...turn([call(second, 'f', OTHER)])];
    const alone = replayed({ source, texts: { [ID]: one }, messages: messages('{"a": 2}') });
    t.same(alone.names, [ID], `${name}, the second is forgotten: ${alone.text}`);
    const edited = replayed({ source, texts, messages: messages('{"a": 3}') });
    t.equal(edited.text, alone.text.replace(/("a": ?)2/, '$13'), `${name}, the second is edited`);
    const start = alone.text.slice(0, alone.text.indexOf('»') + 1);
    t.ok(replayed({ source, texts: { [ID]: one }, messages: turn([call('{"a": 1}')]) }).text.startsWith(start), name);
  }
});

t.test('the second of two calls with the same ID gets another ID', async (t) => {
  const { source, written } = WITH_IDS.find(({ name }) => name === 'mistral')!;
  const texts = { [ID]: written('a1B2c3D4e', '{"a":1}'), [OTHER]: written('a1B2c3D4e', '{"a":2}') };
  const messages = [...turn([call('{"a": 1}')]), ...turn([call('{"a": 2}', 'f', OTHER)])];
  const { text, names } = replayed({ source, texts, messages });
  t.same(names, [ID], text);
  t.match(text, '[CALL_ID]c00000001[ARGS]', 'the second call keeps the number of this server');
  t.match(text, '[c00000001]1');
  const numbered = { [ID]: written('c00000001', '{"a":1}') };
  const shown = replayed({ source, texts: numbered, messages }).text;
  t.match(shown, '[CALL_ID]c00000002[ARGS]', 'a number that the model has used is skipped');
});

t.test('a call that is not found in the prompt keeps the number of this server', async (t) => {
  const { source, written } = WITH_IDS.find(({ name }) => name === 'mistral')!;
  const other = source.replace('[ARGS]', '[ARGS]{% if c.function.arguments.a == 2 %}!{% endif %}');
  const texts = { [ID]: written('a1B2c3D4e', '{"a":1}'), [OTHER]: written('b1B2c3D4e', '{"a":2}') };
  const messages = [...turn([call('{"a": 1}')]), ...turn([call('{"a": 2}', 'f', OTHER)])];
  const { text, names } = replayed({ source: other, texts, messages });
  t.same(names, [ID], text);
  t.match(text, '[a1B2c3D4e]1');
  t.match(text, '[CALL_ID]c00000001[ARGS]!{"a": 2}');
  t.match(text, '[c00000001]1');
});

t.test('a template that rejects an ID or a mark is rendered as usual', async (t) => {
  const source = HERMES.replace(
    '{{ c.function.name }}',
    '{% if c.function.name | length > 3 and c.function.name.endswith("f") %}{{ raise_exception("long") }}{% endif %}{{ c.function.name }}',
  );
  const texts = { [ID]: '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>' };
  const { text, names } = replayed({ source, texts, messages: turn([call('{"a": 1}')]) });
  t.same(names, []);
  t.match(text, '{"name": "f", "arguments": {"a": 1}}');
});

t.test('a template that rejects an ID still gets the items that need none', async (t) => {
  const { source, written } = WITH_IDS.find(({ name }) => name === 'mistral')!;
  const strict = source.replace('[ARGS]', '[ARGS]{% if "a1B2c3D4e" in c.id %}{{ raise_exception("ID") }}{% endif %}');
  t.not(strict, source);
  const texts = { [ID]: written('a1B2c3D4e', '{"a":1}'), [OTHER]: written('c00000001', '{"a":2}') };
  const messages = [...turn([call('{"a": 1}')]), ...turn([call('{"a": 2}', 'f', OTHER)])];
  t.same(replayed({ source: strict, texts, messages }).names, [OTHER]);
});

t.test('a section with several calls is replaced only if all of them are equal', async (t) => {
  const source = templateOf(
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}',
    '[TOOL_CALLS][',
    ']',
  );
  const texts = { [ID]: '[TOOL_CALLS][{"name": "f", "arguments": {"a":1}}, {"name": "g", "arguments": {}}]' };
  const both = [call('{"a": 1}'), call('{}', 'g', OTHER)];
  t.same(replayed({ source, texts, messages: turn(both) }).names, [ID]);
  t.same(replayed({ source, texts, messages: turn(both.slice(0, 1)) }).names, [], 'one is missing');
  t.same(replayed({ source, texts, messages: turn([both[0]!, call('{"a": 1}', 'g', OTHER)]) }).names, []);
  t.same(replayed({ source, texts, messages: turn([...both, call('{}', 'f', 'call_x')]) }).names, [], 'one more');
});

t.test('a template that shows more than the model wrote is not changed', async (t) => {
  const source = templateOf(
    '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}\n</tool_call>',
  );
  const texts = { [ID]: '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>' };
  t.same(replayed({ source, texts, messages: turn([call('{"a": 1}')]) }).names, []);
  const named = `{% macro note(name) %}{{ '!' if name == 'f' }}{% endmacro %}${HERMES.replace('</tool_call>', '</tool_call>{{ note(c.function.name) }}')}`;
  const { text, names } = replayed({ source: named, texts, messages: turn([call('{"a": 1}')]) });
  t.same(names, [], 'a text after the call depends on its name');
  t.match(text, '</tool_call>!');
});

t.test('text of a client that looks like a call is never replaced', async (t) => {
  const written = '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>';
  const shown = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';
  for (const specials of [SPECIALS, [...SPECIALS, '<tool_call>', '</tool_call>']]) {
    const messages: Message[] = [
      { role: 'user', content: shown },
      { role: 'assistant', content: shown, toolCalls: [call(`{"a": 1}`)] },
      { role: 'tool', content: shown, toolCallId: ID },
      { role: 'user', content: shown },
    ];
    const { text } = replayed({ source: HERMES, texts: { [ID]: written }, messages, specials });
    const expected = `<|user|>${shown}<|end|><|assistant|>${shown}«${written}»<|end|><|tool|>${shown}<|end|><|user|>${shown}<|end|><|assistant|>`;
    t.equal(text.slice(-expected.length), expected);
  }
});

t.test('arguments may contain markers and guards', async (t) => {
  const args = JSON.stringify({ s: '</tool_call>\ufdd0<|end|><tool_call>' });
  const written = `<tool_call>\n{"name": "f","arguments":${args}}\n</tool_call>`;
  const specials = [...SPECIALS, '<tool_call>', '</tool_call>'];
  const { text } = replayed({ source: HERMES, texts: { [ID]: written }, messages: turn([call(args)]), specials });
  t.match(text, `«${written}»<|end|>`);
});

t.test('tokens that decode to something else are not used', async (t) => {
  const messages = turn([call('{"a": 1}')]);
  for (const text of [
    '<tool_call>\n{"name": "g", "arguments": {"a":1}}\n</tool_call>',
    '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call> and more',
    'before <tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>',
    'nothing',
    '',
  ])
    t.same(replayed({ source: HERMES, texts: { [ID]: text }, messages }).names, [], text);
});

t.test('the time and memory for a message with many calls grow in proportion to their number', async (t) => {
  const ids = (count: number): string[] =>
    Array.from({ length: count }, (_, nth) => `call_${String(nth).padStart(24, '0')}`);
  const toolCalls = ids(20_000).map((id) => call('{}', 'f', id));
  const options = { guard: 0xe000, replays: new Map(), decode };
  const before = process.memoryUsage().heapUsed;
  const marks = new ReplayMarks({
    ...options,
    request: { messages: [{ role: 'assistant', content: '', toolCalls }], tools: [], promptParam: 'messages' },
  });
  const used = process.memoryUsage().heapUsed - before;
  t.equal(marks.call(toolCalls[0]!), '');
  t.ok(used < 50e6, `${used} bytes`);

  const args = JSON.stringify({ s: '<|user|>'.repeat(100) });
  const written = `<tool_call>\n{"name": "f","arguments":${args}}\n</tool_call>`;
  const timeOf = (count: number): number => {
    const messages = turn(ids(count).map((id) => call(args, 'f', id)));
    const from = performance.now();
    const { names } = replayed({
      source: HERMES,
      texts: Object.fromEntries(ids(count).map((id) => [id, written])),
      messages,
    });
    t.equal(names.length, count);
    return performance.now() - from;
  };
  timeOf(200);
  const few = timeOf(200);
  const many = timeOf(2_000);
  t.ok(many < 40 * few, `${few} ms for 200 calls, ${many} ms for 2,000`);
});

t.test('an ID that occurs twice is replayed once', async (t) => {
  const texts = { [ID]: '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>' };
  const messages = [...turn([call('{"a": 1}')]), ...turn([call('{"a": 1}')])];
  t.same(replayed({ source: HERMES, texts, messages }).names, [ID]);
});

t.test('reasoning is replaced with its markers', async (t) => {
  const messages = turn([call('{}')], { reasoning: 'I think.' });
  const texts = { 'I think.': '<think>I think.</think>' };
  const { text, names } = replayed({ source: HERMES, texts, messages });
  t.match(text, '«<think>I think.</think>»\n\n');
  t.same(names, ['messages[1].reasoning']);
  t.same(replayed({ source: HERMES, texts: { 'I think.': '<think>I thought.</think>' }, messages }).names, []);
  t.same(replayed({ source: HERMES, texts, messages: turn([call('{}')], { reasoning: 'I think!' }) }).names, []);
});

t.test('reads complete sections only', async (t) => {
  const template = new ChatTemplate(HERMES, { bos: null, eos: null });
  const { syntax } = findDialect(template, () => false);
  const tools = new Map([['f', null]]);
  const text = 'x <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call> y';
  const start = sectionStart(text, 0, syntax);
  t.match(readSection(text, start, syntax, tools), {
    end: text.length - 2,
    calls: [{ name: 'f', arguments: '{"a": 1}' }],
  });
  t.match(readSection(text.slice(0, -8), start, syntax, tools), { end: null, callsEnd: text.length - 15 });
  t.equal(readSection(text.slice(0, 40), start, syntax, tools), null);
  t.equal(readSection(text, 0, syntax, tools), null);
});

t.test('collects the items of an output', async (t) => {
  const { syntax } = findDialect(new ChatTemplate(HERMES, { bos: null, eos: null }), () => false);
  const markers = findMarkers(HERMES, () => false);
  const tools = new Map([['f', null]]);
  /**
   * Returns the recorded items of an output. `tokens`: the text of each token. `reasoning`, `calls`: what the client
   * received.
   */
  const collected = (
    tokens: readonly (string | Uint8Array)[],
    received: { reasoning?: string; calls?: string[] },
    opened: number[] = [],
  ): { kind: string; index?: number; text: string }[] => {
    const bytes = [...tokens.map((token) => (typeof token === 'string' ? Buffer.from(token) : token))];
    const engine = { tokenBytes: (id: number): Uint8Array => bytes[id] ?? Buffer.from('<think>') };
    const items = new WrittenItems(engine, { calls: { syntax, tools }, markers, opened: Int32Array.from(opened) });
    items.tokens(0, [...tokens.keys()]);
    const { reasoning = '', calls = [] } = received;
    if (reasoning !== '')
      items.event({ type: 'text', choice: 0, section: 'reasoning', text: reasoning, tokens: 1, logprobs: null });
    for (const [index, text] of calls.entries()) {
      items.event({ type: 'call_started', choice: 0, index, name: 'f', tokens: 1 });
      items.event({ type: 'call_arguments', choice: 0, index, text, tokens: 1 });
      items.event({ type: 'call_finished', choice: 0, index, complete: true, tokens: 1 });
    }
    return items.take(0).map((item) => ({
      kind: item.kind,
      ...(item.kind === 'call' ? { index: item.index } : {}),
      text: Buffer.concat([...item.ids].map(engine.tokenBytes)).toString(),
    }));
  };
  const HEAD = ['<tool_call>', '\n{"name": "f", "arg', 'uments": '];
  const whole = [...HEAD, '{"a":', '1}}\n', '</tool_call>'];
  const calls = ['{"a":1}'];
  const item = { kind: 'call', index: 0, text: whole.join('') };
  t.same(collected([...whole, '<|end|>'], { calls }), [item]);
  t.same(collected(['Let me see.', '\n', ...whole], { calls }), [item], 'after text');
  t.same(collected([...whole, '\n', ...whole], { calls: [...calls, ...calls] }), [item, { ...item, index: 1 }]);
  t.same(
    collected(whole.slice(0, -1), { calls }),
    [{ ...item, text: whole.slice(0, -1).join('') }],
    'ended before the closing marker, within a token',
  );
  t.same(collected(['x<tool_call>', ...whole.slice(1)], { calls }), [], 'the first token has other text');
  t.same(collected([...whole.slice(0, -1), '</tool_call>x'], { calls }), [], 'the last token has other text');
  t.same(collected(whole, { calls: ['{"a":2}'] }), [], 'the client received something else');
  t.same(collected(whole, {}), [], 'the client received no call');
  t.same(collected([Uint8Array.of(0xff), ...whole], { calls }), [], 'invalid UTF-8');
  t.same(collected([Uint8Array.of(0xc3), Uint8Array.of(0xa9), ...whole], { calls }), [item], 'a split character');
  const thought = ['<think>', '\nHm.', '\n</think>'];
  const block = { kind: 'reasoning', text: thought.join('') };
  t.same(collected([...thought, '\n\n', ...whole], { reasoning: 'Hm.', calls }), [block, item]);
  t.same(
    collected([...thought.slice(1), ...whole], { reasoning: 'Hm.', calls }, [99]),
    [block, item],
    'opened by the prompt',
  );
  t.same(collected(thought.slice(0, 2), { reasoning: 'Hm.' }), [], 'the reasoning does not end');
  t.same(collected([...thought, ...thought], { reasoning: 'Hm.\nHm.' }), [], 'reasoning in several messages');
});
