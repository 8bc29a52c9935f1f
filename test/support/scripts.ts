// The scripts tests share, and what a client should see of each. How to use them: script-model.ts.
import type { Piece, Script } from './script-plan.js';

/** What an answer is once its markers are taken out. Endless parts stand once. */
export interface Said {
  reasoning: string;
  content: string;
  /** `arguments` is the text as the model wrote it. */
  calls: { name: string; arguments: string }[];
}

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

export const standardScripts = {
  /** Plain text; the default. */
  A: ['Paris', ' is the', ' capital', ' of', ' France', '.'],

  /** A literal marker, spelled out: text, no call. */
  B: ['To call, write ', '<tool', '_call>', ' and then', ' JSON.', ' Think with <th', 'ink>.'],

  /** A call behind a text. */
  C: [
    'Before',
    ' it. ',
    '<tool_call>',
    '\n{"name": "get_we',
    'ather", "arguments": {"location": "Ly',
    'on"}}\n',
    '</tool_call>',
  ],

  /** One call with nested arguments, escapes and characters split over tokens. */
  D: [
    '<tool_call>',
    '\n{"name": "save_note',
    '", "arguments": {"te',
    'xt": "Zo',
    bytes(0xc3),
    bytes(0xab, 0x20, 0x73, 0x61, 0x79, 0x73),
    ' \\"hi',
    '\\" \\u00e9',
    '\\',
    'n}]{',
    bytes(0xf0, 0x9f),
    bytes(0x91, 0x8b, 0x22),
    ', "n": [1, 2',
    '.50, {"a": nu',
    'll}], "deep": {"b": {"c',
    '": ""}}}}',
    '\n',
    '</tool_call>',
  ],

  /** Characters of two to four bytes, split over tokens in the middle. */
  E: [
    'Gr',
    bytes(0xc3),
    bytes(0xbc, 0xc3),
    bytes(0x9f, 0x65),
    ', ',
    bytes(0xe4, 0xb8),
    bytes(0x96, 0xe7),
    bytes(0x95, 0x8c),
    '! ',
    bytes(0xf0),
    bytes(0x9f, 0x91),
    bytes(0x8b, 0xf0, 0x9f),
    bytes(0x8f, 0xbd, 0x20),
    bytes(0xf0, 0x9f, 0x87),
    bytes(0xab, 0xf0, 0x9f, 0x87),
    bytes(0xb7, 0x2e),
  ],

  /** JSON in a code fence: right in itself, and not what a schema asks for (under one, it cannot be said). */
  F: ['```js', 'on\n{"name": "Gr', 'ace", "age": 85}', '\n```', '\n'],

  /** Reasoning, then text. */
  H: [
    '<think>',
    '\nThe user',
    ' wants a',
    ' number',
    '. Six',
    ' times seven',
    '.\n',
    '</think>',
    '\n\n',
    'Forty',
    '-two',
    '!',
  ],

  /** JSON in the wrong form: age is a text, and a property is missing. */
  I: ['{"na', 'me": "Alan', '", "ag', 'e": "forty-', 'one"}'],

  /** JSON: {"name": string, "age": integer, "tags": string[]}. */
  J: ['{"', 'name":"Ad', 'a",', '"age":3', '6,"tags":["ma', 'th","engi', 'nes"]}'],

  /** Reasoning, text and a call. */
  K: [
    '<think>',
    '\nI need',
    ' the weather',
    ' first.',
    '\n',
    '</think>',
    '\n\n\n',
    'Let me',
    ' look.',
    '\n\n',
    '<tool_call>',
    '\n{"na',
    'me": "get_',
    'weather", "arg',
    'uments": {"loca',
    'tion": "Oslo"}',
    '}\n',
    '</tool_call>',
  ],

  /** A story without end. */
  L: [
    'Once',
    ' upon a time',
    {
      repeat: [
        ' there was',
        ' a model',
        ' that told',
        ' a story',
        ' of',
        ' a machine',
        ' that',
        ' never came',
        ' to an end',
        ',',
        ' and in it',
      ],
    },
  ],

  /** A call whose syntax would break, were its arguments not held to their schema. */
  M: [
    '<tool_call>',
    '\n{"name": "get_weather", "argu',
    'ments": {"location": Par',
    'is, }',
    ' oops',
    '\n',
    '</tool_call>',
  ],

  /** A call without arguments. */
  O: ['<tool_call>', '\n{"name": "get_', 'time", "arguments": {', '}}\n', '</tool_call>'],

  /** Two calls at once. */
  P: [
    '<tool_call>',
    '\n{"',
    'name',
    '": "get_weather", "ar',
    'guments',
    '": {"location": "Par',
    'is"}}',
    '\n',
    '</tool_call>',
    '\n ',
    '<tool_call>',
    '\n{"n',
    'ame": "get_weather", "arguments":',
    ' {"location": "Ro',
    'me"}}\n',
    '</tool_call>',
  ],

  /** A call whose arguments never end: for output caps. */
  Q: [
    '<tool_call>',
    '\n{"name": "write_',
    'file", "arguments": {"path": "a.',
    'txt", "content": "',
    { repeat: ['line', ' of', ' text', ' and', ' another', '\\n'] },
  ],

  /** Reasoning without end: for budgets. */
  R: [
    '<think>',
    '\nHmm',
    { repeat: [', let', ' me', ' think', ' about', ' it', ' once', ' more', '.'] },
    '</think>',
    ' \n\n',
    'Fine',
    ', it is',
    ' seven.',
  ],

  /** Something that may be a stop string, split over tokens: "one two STOP three". */
  S: ['one', ' two', ' ST', 'OP', ' three', ' STO', 'RE', ' four'],

  /** The answer after a tool's result. */
  T: ['It is', ' 14', ' degrees', ' in Paris', '.'],

  /** A call of a tool that nobody offered. */
  U: ['<tool_call>', '\n{"name": "no_such', '_tool", "arguments": {"x": ', '1}}\n', '</tool_call>'],

  /** One call, cut into odd pieces. */
  W: [
    '<tool_call>',
    '\n',
    '{"',
    'na',
    'me"',
    ': "',
    'get',
    '_weath',
    'er',
    '", ',
    '"arguments"',
    ': {',
    '"loc',
    'ation',
    '": "P',
    'aris',
    '"',
    '}}',
    '\n',
    '</tool_call>',
  ],

  /** Nothing at all. */
  Z: [],
} as const satisfies Record<string, Script>;

const textOf = (piece: string | Uint8Array): Buffer => Buffer.from(piece as string);
const flat = (script: Script): Buffer =>
  Buffer.concat(
    script
      .flatMap((piece: Piece) => (typeof piece === 'object' && 'repeat' in piece ? piece.repeat : [piece]))
      .map(textOf),
  );

/** What a script says word for word, markers included. */
export function spoken(script: Script): string {
  return flat(script).toString('utf8');
}

/** Of a standard script, or one of your own: white space around reasoning and between calls is not part of the answer. */
export function said(script: keyof typeof standardScripts | Script): Said {
  let rest = spoken(typeof script === 'string' ? standardScripts[script] : script);
  let reasoning = '';
  if (rest.startsWith('<think>')) {
    const close = rest.indexOf('</think>');
    reasoning = rest.slice('<think>'.length, close);
    rest = rest.slice(close + '</think>'.length);
  }
  const calls: Said['calls'] = [];
  return {
    reasoning: reasoning.trim(),
    content: rest
      .replace(/<tool_call>\s*(\{.*?\})\s*<\/tool_call>/gs, (_, call: string) => {
        const name = /^\{"name": "([^"]*)", "arguments": /.exec(call);
        if (name !== null) calls.push({ name: name[1]!, arguments: call.slice(name[0].length, -1) });
        return '';
      })
      .trim(),
    calls,
  };
}
