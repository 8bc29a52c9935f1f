// ]<]minimax[>[<tool_call>
// ]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>San Francisco]<]minimax[>[</city>]<]minimax[>[</invoke>
// ]<]minimax[>[</tool_call>
//
// MiniMax M3: a section may contain several calls. Nested arguments are in tags too (nested-tags.ts).
import { NestedTagCall, nestedHead, nestedSpelling, nestedTail, writeNested } from './nested-tags.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const MARK = ']<]minimax[>[';
const OPEN = `${MARK}<tool_call>`,
  CLOSE = `${MARK}</tool_call>`;

const head = (tool: string): string => `\n${nestedHead(MARK, tool)}`;
const tail = nestedTail(MARK);

export const MINIMAX_M3: ToolSyntax = {
  name: 'minimax-m3',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === MARK[0] ? new NestedTagCall(MARK, tools, sink) : null),
  head,
  tail,
  several: { next: head, end: `\n${CLOSE}` },
  spelling: () => nestedSpelling(MARK),
  write: (calls) =>
    `${OPEN}${calls.map((call) => head(call.name) + writeNested(MARK, call.arguments) + tail).join('')}\n${CLOSE}`,
};

export const minimaxM3: SyntaxFamily = {
  usual: MINIMAX_M3,
  token: MARK,
  recognize: ({ before, after, key, value }) =>
    before.endsWith(`${OPEN}\n${MARK}<invoke name="`) &&
    after.slice(0, key.at) === `">${MARK}<` &&
    after.slice(key.end, value.at) === '>'
      ? MINIMAX_M3
      : null,
};
