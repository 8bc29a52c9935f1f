// <function name="get_weather"><param name="location">San Francisco</param></function>
//
// MiniCPM5: each call is a separate section. Values that contain markup are enclosed in <![CDATA[ ]]>.
import type { SyntaxFamily, ToolSyntax } from './syntax.js';
import { TaggedCall, taggedSpelling, writeTagged, type Tags, type TagSpacing } from './tagged-call.js';
import { membersOf } from './call-arguments.js';

const OPEN = '<function',
  CLOSE = '</function>',
  NAME = 'name="',
  CDATA = '<![CDATA[',
  END_CDATA = ']]>';
const TAGS: Tags = {
  call: [NAME, '">'],
  parameter: ['<param name="', ['">'], ['">']],
  endParameter: '</param>',
  end: CLOSE,
  closes: true,
  framed: false,
  wrapped: [CDATA, END_CDATA],
};
const SPACING: TagSpacing = { within: '', behind: '' };

const head = (tool: string): string => ` ${NAME}${tool}">`;

function write({ name, arguments: json }: { readonly name: string; readonly arguments: string }): string {
  const members = [...membersOf(json)].map(
    ([member, { text, isString }]): [string, { text: string; isString: boolean }] => [
      member,
      { text: /[<&\n]/.test(text) ? CDATA + text + END_CDATA : text, isString },
    ],
  );
  return OPEN + head(name) + writeTagged(TAGS, SPACING, new Map(members)) + CLOSE;
}

export const MINICPM: ToolSyntax = {
  name: 'minicpm',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === NAME[0] ? new TaggedCall(TAGS, tools, sink) : null),
  head,
  tail: CLOSE,
  spelling: (schema) => taggedSpelling(TAGS, SPACING, schema),
  write: (calls) => calls.map(write).join('\n'),
};

export const minicpm: SyntaxFamily = {
  usual: MINICPM,
  token: OPEN,
  recognize: ({ before, after, key, value }) =>
    before.endsWith(OPEN + head('').slice(0, -2)) &&
    after.slice(0, key.at) === '"><param name="' &&
    after.slice(key.end, value.at) === '">' &&
    after.slice(value.end).startsWith('</param></function>')
      ? MINICPM
      : null,
};
