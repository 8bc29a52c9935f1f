// <|tool_call>call:get_weather{days:3,location:<|"|>San Francisco<|"|>}<tool_call|>
//
// Gemma 4: names have no quotes, and strings are enclosed in markers.
import { parseObject } from './call-arguments.js';
import { LooseCall, type Notation } from './loose-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<|tool_call>',
  CLOSE = '<tool_call|>',
  CALL = 'call:',
  MARK = '<|"|>';
const NOTATION: Notation = {
  before: CALL,
  open: '{',
  close: '}',
  assign: ':',
  quotes: [
    { mark: MARK, escapes: false },
    { mark: '"', escapes: true },
  ],
};

export const GEMMA: ToolSyntax = {
  name: 'gemma',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === 'c' ? new LooseCall(NOTATION, tools, sink) : null),
  head: (tool) => `${CALL}${tool}{`,
  spelling: () => ({
    nameOpen: '',
    textOpen: ':',
    jsonOpen: ':',
    valueClose: '',
    separator: ',',
    textEnd: '',
    stringMark: MARK,
    nested: true,
    python: false,
    kinds: [],
    others: 'json',
  }),
  tail: `}${CLOSE}`,
  write: (calls) => calls.map((call) => `${OPEN}${CALL}${call.name}${inNotation(call.arguments)}${CLOSE}`).join(''),
};

/** Converts JSON text: strings are enclosed in markers, names lose their quotes, and everything else stays the same. */
function inNotation(json: string): string {
  if (parseObject(json) === null) return `{arguments:${MARK}${json}${MARK}}`;
  return json.replace(
    /("(?:[^"\\]|\\.)*")(\s*:)?|\s+/g,
    (_whole, text: string | undefined, colon: string | undefined) => {
      if (text === undefined) return '';
      const value = JSON.parse(text) as string;
      return colon === undefined ? MARK + value + MARK : `${value}:`;
    },
  );
}

export const gemma: SyntaxFamily = {
  usual: GEMMA,
  token: OPEN,
  recognize: ({ before, after }) => (before.endsWith(OPEN + CALL) && after.startsWith('{') ? GEMMA : null),
};
