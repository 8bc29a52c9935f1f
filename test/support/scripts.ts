// Scripts that tests share, and the output that a client should receive for each script. script-model.ts describes how
// to use the scripts.
import type { Piece, Script } from './script-plan.js';

/** A response after its markers are removed. Endless parts appear once. */
export interface Said {
  reasoning: string;
  content: string;
  /** `arguments` is the text exactly as the model wrote it. */
  calls: { name: string; arguments: string }[];
}

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

export const standardScripts = {
  /** Script A: plain text; the default. */
  A: ['Paris', ' is the', ' capital', ' of', ' France', '.'],

  /** Script B: a tool call marker spelled out as ordinary text; not a call. */
  B: ['To call, write ', '<tool', '_call>', ' and then', ' JSON.', ' Think with <th', 'ink>.'],

  /** Script C: text, then a call. */
  C: [
    'Before',
    ' it. ',
    '<tool_call>',
    '\n{"name": "get_we',
    'ather", "arguments": {"location": "Ly',
    'on"}}\n',
    '</tool_call>',
  ],

  /** Script D: one call with nested arguments, escapes, and characters split across tokens. */
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

  /** Script E: characters of two to four bytes, split mid-character across tokens. */
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

  /**
   * Script F: JSON in a code fence. The JSON is valid but does not match the test schema, so it cannot be generated
   * with that schema.
   */
  F: ['```js', 'on\n{"name": "Gr', 'ace", "age": 85}', '\n```', '\n'],

  /** Script H: reasoning, then text. */
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

  /** Script I: JSON that violates the test schema: `age` is a string, and a property is missing. */
  I: ['{"na', 'me": "Alan', '", "ag', 'e": "forty-', 'one"}'],

  /** Script J: valid JSON: {"name": string, "age": integer, "tags": string[]}. */
  J: ['{"', 'name":"Ad', 'a",', '"age":3', '6,"tags":["ma', 'th","engi', 'nes"]}'],

  /** Script K: reasoning, text and a call. */
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

  /** Script L: a story without end. */
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

  /** Script M: a call whose syntax would break if its arguments were not constrained by their schema. */
  M: [
    '<tool_call>',
    '\n{"name": "get_weather", "argu',
    'ments": {"location": Par',
    'is, }',
    ' oops',
    '\n',
    '</tool_call>',
  ],

  /** Script O: a call without arguments. */
  O: ['<tool_call>', '\n{"name": "get_', 'time", "arguments": {', '}}\n', '</tool_call>'],

  /** Script P: two calls in one response. */
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

  /** Script Q: a call whose arguments never end, for output token limits. */
  Q: [
    '<tool_call>',
    '\n{"name": "write_',
    'file", "arguments": {"path": "a.',
    'txt", "content": "',
    { repeat: ['line', ' of', ' text', ' and', ' another', '\\n'] },
  ],

  /** Script R: reasoning without end, for reasoning budgets. */
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

  /** Script S: "one two STOP three", split across tokens; contains a possible stop string. */
  S: ['one', ' two', ' ST', 'OP', ' three', ' STO', 'RE', ' four'],

  /** Script T: the response to a tool result. */
  T: ['It is', ' 14', ' degrees', ' in Paris', '.'],

  /** Script U: a call to a tool that the request does not offer. */
  U: ['<tool_call>', '\n{"name": "no_such', '_tool", "arguments": {"x": ', '1}}\n', '</tool_call>'],

  /** Script W: one call, split at unusual positions. */
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

  /** Script Z: empty output. */
  Z: [],
} as const satisfies Record<string, Script>;

const textOf = (piece: string | Uint8Array): Buffer => Buffer.from(piece as string);
const flat = (script: Script): Buffer =>
  Buffer.concat(
    script
      .flatMap((piece: Piece) => (typeof piece === 'object' && 'repeat' in piece ? piece.repeat : [piece]))
      .map(textOf),
  );

/** Returns a script's full text, markers included. */
export function spoken(script: Script): string {
  return flat(script).toString('utf8');
}

/**
 * Returns the expected output of a standard or custom script, without the whitespace around reasoning and between
 * calls.
 */
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
