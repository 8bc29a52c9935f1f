// <｜DSML｜function_calls>
// <｜DSML｜invoke name="get_weather">
// <｜DSML｜parameter name="location" string="true">San Francisco</｜DSML｜parameter>
// </｜DSML｜invoke>
// </｜DSML｜function_calls>
//
// DeepSeek V3.2 and later. Each parameter's tag specifies whether the value is a string. All other values are JSON.
import type { SyntaxFamily, ToolSyntax } from './syntax.js';
import { TaggedCall, taggedSpelling, writeTagged, type Tags, type TagSpacing } from './tagged-call.js';
import { membersOf } from './call-arguments.js';

const MARK = '｜DSML｜';
const TAGS: Tags = {
  call: [`<${MARK}invoke name="`, '">'],
  parameter: [`<${MARK}parameter name="`, ['" string="true">'], ['" string="false">']],
  endParameter: `</${MARK}parameter>`,
  end: `</${MARK}invoke>`,
  closes: false,
  framed: false,
};
const SPACING: TagSpacing = { within: '', behind: '\n' };

const invoke = (tool: string): string => `\n<${MARK}invoke name="${tool}">\n`;

function dsmlOf(word: string): ToolSyntax {
  const open = `<${MARK}${word}>`,
    close = `</${MARK}${word}>`;
  return {
    name: 'dsml',
    open,
    close,
    bare: false,
    separators: '',
    // A single token may contain both the closing bracket and the line break after it.
    engineOpen: open.slice(0, -1),
    reader: (first, tools, sink) => (first === '<' ? new TaggedCall(TAGS, tools, sink) : null),
    head: (tool) => `>${invoke(tool)}`,
    tail: TAGS.end,
    several: { next: invoke, end: `\n${close}` },
    spelling: (schema) => taggedSpelling(TAGS, SPACING, schema),
    write: (calls) =>
      `${open}${calls.map((call) => invoke(call.name) + writeTagged(TAGS, SPACING, membersOf(call.arguments)) + TAGS.end).join('')}\n${close}`,
  };
}

export const DSML = dsmlOf('function_calls');

export const dsml: SyntaxFamily = {
  usual: DSML,
  token: MARK,
  recognize({ before }) {
    const [, word] = /<｜DSML｜(\w+)>\s*<｜DSML｜invoke name="$/.exec(before) ?? [];
    return word === undefined ? null : dsmlOf(word);
  },
};
