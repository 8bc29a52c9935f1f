// <tool_call>get_weather
// <arg_key>location</arg_key>
// <arg_value>San Francisco</arg_value>
// </tool_call>
//
// GLM 4.5 to 5; from 4.7 on without the line breaks.
import type { SyntaxFamily, ToolSyntax } from './syntax.js';
import { TaggedCall, taggedSpelling, writeTagged, type Tags, type TagSpacing } from './tagged-call.js';
import { membersOf } from './call-arguments.js';

const OPEN = '<tool_call>',
  CLOSE = '</tool_call>';
const NAMED = ['</arg_key>', '<arg_value>'];
const TAGS: Tags = {
  call: ['', null],
  parameter: ['<arg_key>', NAMED, NAMED],
  endParameter: '</arg_value>',
  end: CLOSE,
  closes: true,
  framed: false,
};

function glmSpaced(first: string, spacing: TagSpacing): ToolSyntax {
  const head = (tool: string): string => tool + first;
  return {
    name: 'glm',
    open: OPEN,
    close: CLOSE,
    bare: false,
    separators: '',
    engineOpen: OPEN,
    reader: (character, tools, sink) => (/[A-Za-z0-9_.-]/.test(character) ? new TaggedCall(TAGS, tools, sink) : null),
    head,
    tail: CLOSE,
    ...(first === '' ? { headApart: (tool: string) => `${tool}\n` } : {}),
    spelling: (schema) => taggedSpelling(TAGS, spacing, schema),
    write: (calls) =>
      calls
        .map((call) => OPEN + head(call.name) + writeTagged(TAGS, spacing, membersOf(call.arguments)) + CLOSE)
        .join('\n'),
  };
}

export const GLM = glmSpaced('\n', { within: '\n', behind: '\n' });

export const glm: SyntaxFamily = {
  usual: GLM,
  token: '<arg_key>',
  recognize({ before, after, key, value }) {
    const [, first] = /^(\s*)<arg_key>$/.exec(after.slice(0, key.at)) ?? [];
    const [, within] = /^<\/arg_key>(\s*)<arg_value>$/.exec(after.slice(key.end, value.at)) ?? [];
    const [, behind] = /^<\/arg_value>(\s*)<\/tool_call>/.exec(after.slice(value.end)) ?? [];
    if (!before.endsWith(OPEN) || first === undefined || within === undefined || behind === undefined) return null;
    return glmSpaced(first, { within, behind });
  },
};
