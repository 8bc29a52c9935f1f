// <minimax:tool_call>
// <invoke name="get_weather">
// <parameter name="location">San Francisco</parameter>
// </invoke>
// </minimax:tool_call>
//
// MiniMax M2: a section may contain several calls.
import type { SyntaxFamily, ToolSyntax } from './syntax.js';
import { TaggedCall, taggedSpelling, writeTagged, type Tags, type TagSpacing } from './tagged-call.js';
import { membersOf } from './call-arguments.js';

const OPEN = '<minimax:tool_call>',
  CLOSE = '</minimax:tool_call>';
const TAGS: Tags = {
  call: ['<invoke name="', '">'],
  parameter: ['<parameter name="', ['">'], ['">']],
  endParameter: '</parameter>',
  end: '</invoke>',
  closes: false,
  framed: false,
};
const SPACING: TagSpacing = { within: '', behind: '\n' };

const invoke = (tool: string): string => `\n<invoke name="${tool}">\n`;

export const MINIMAX: ToolSyntax = {
  name: 'minimax',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === '<' ? new TaggedCall(TAGS, tools, sink) : null),
  head: invoke,
  tail: TAGS.end,
  several: { next: invoke, end: `\n${CLOSE}` },
  spelling: (schema) => taggedSpelling(TAGS, SPACING, schema),
  write: (calls) =>
    `${OPEN}${calls.map((call) => invoke(call.name) + writeTagged(TAGS, SPACING, membersOf(call.arguments)) + TAGS.end).join('')}\n${CLOSE}`,
};

export const minimax: SyntaxFamily = {
  usual: MINIMAX,
  token: OPEN,
  recognize: ({ before, after, key }) =>
    /<minimax:tool_call>\s*<invoke name="$/.test(before) && /^">\s*<parameter name="$/.test(after.slice(0, key.at))
      ? MINIMAX
      : null,
};
