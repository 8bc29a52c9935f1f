// <|tool_call_start|>[get_weather(location="San Francisco", days=3), get_time()]<|tool_call_end|>
//
// LFM2: a list of Python calls.
import { LooseCall, type Notation } from './loose-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';
import { membersOf } from './call-arguments.js';

const OPEN = '<|tool_call_start|>',
  CLOSE = '<|tool_call_end|>';
const NOTATION: Notation = {
  before: '',
  open: '(',
  close: ')',
  assign: '=',
  quotes: [
    { mark: '"', escapes: true },
    { mark: "'", escapes: true },
  ],
};

export const PYTHONIC: ToolSyntax = {
  name: 'pythonic',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '[],',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (/[A-Za-z0-9_.-]/.test(first) ? new LooseCall(NOTATION, tools, sink) : null),
  head: (tool) => `[${tool}(`,
  // Python also supports double quotes and JSON's escapes.
  spelling: () => ({
    nameOpen: '',
    textOpen: '=',
    jsonOpen: '=',
    valueClose: '',
    separator: ', ',
    textEnd: '',
    stringMark: '',
    nested: false,
    python: true,
    kinds: [],
    others: 'json',
  }),
  tail: ')',
  several: { next: (tool) => `, ${tool}(`, end: `]${CLOSE}` },
  write: (calls) => `${OPEN}[${calls.map((call) => `${call.name}(${inPython(call.arguments)})`).join(', ')}]${CLOSE}`,
};

const WORDS: ReadonlyMap<string, string> = new Map([
  ['true', 'True'],
  ['false', 'False'],
  ['null', 'None'],
]);

function inPython(args: string): string {
  return [...membersOf(args)]
    .map(([name, { text, isString }]) => `${name}=${isString ? JSON.stringify(text) : (WORDS.get(text) ?? text)}`)
    .join(', ');
}

export const pythonic: SyntaxFamily = {
  usual: PYTHONIC,
  token: OPEN,
  recognize: ({ before, after }) => (before.endsWith(`${OPEN}[`) && after.startsWith('(') ? PYTHONIC : null),
};
