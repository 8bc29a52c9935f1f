// <tool_calls:opensource>
// <tool_call:opensource>get_weather<tool_sep:opensource>
// <arg_key:opensource>location</arg_key:opensource>
// <arg_value:opensource>San Francisco</arg_value:opensource>
// </tool_call:opensource>
// </tool_calls:opensource>
//
// Hy3: a section may contain several calls. The suffix of the marker names differs between checkpoints. Hy4 has neither
// line breaks nor the marker after the tool's name.
import type { SyntaxFamily, ToolSyntax } from './syntax.js';
import { TaggedCall, taggedSpelling, writeTagged, type Tags } from './tagged-call.js';
import { membersOf } from './call-arguments.js';

interface Spaces {
  readonly between: string;
  readonly first: string;
  readonly within: string;
  readonly behind: string;
}

function hunyuanOf(suffix: string, separated: boolean, { between, first, ...spacing }: Spaces): ToolSyntax {
  const tag = (name: string): string => `<${name}${suffix}>`;
  const [open, close] = [tag('tool_calls'), tag('/tool_calls')];
  const named = [tag('/arg_key'), tag('arg_value')];
  const tags: Tags = {
    call: [tag('tool_call'), separated ? tag('tool_sep') : null],
    parameter: [tag('arg_key'), named, named],
    endParameter: tag('/arg_value'),
    end: tag('/tool_call'),
    closes: false,
    framed: false,
  };
  const lead = between + tag('tool_call');
  const behindName = (separated ? tag('tool_sep') : '') + first;
  const head = (tool: string): string => lead + tool + behindName;
  const end = between + close;
  return {
    name: 'hunyuan',
    open,
    close,
    bare: false,
    separators: '',
    engineOpen: open,
    reader: (character, tools, sink) => (character === '<' ? new TaggedCall(tags, tools, sink) : null),
    head,
    tail: tags.end,
    ...(behindName === '' ? { headApart: (tool: string) => `${lead}${tool}\n` } : {}),
    several: { next: head, end },
    spelling: (schema) => taggedSpelling(tags, spacing, schema),
    write: (calls) =>
      open +
      calls.map((call) => head(call.name) + writeTagged(tags, spacing, membersOf(call.arguments)) + tags.end).join('') +
      end,
  };
}

const LINES: Spaces = { between: '\n', first: '\n', within: '\n', behind: '\n' };

export const HUNYUAN = hunyuanOf('', true, LINES);

export const hunyuan: SyntaxFamily = {
  usual: HUNYUAN,
  token: '<tool_sep>',
  recognize({ before, after, key, value }) {
    const [, suffix = '', between] = /<tool_calls(:[\w-]+)?>(\s*)<tool_call\1>$/.exec(before) ?? [];
    if (between === undefined) return null;
    const [, separator, first] =
      new RegExp(`^(<tool_sep${suffix}>)?(\\s*)<arg_key${suffix}>$`).exec(after.slice(0, key.at)) ?? [];
    const [, within] =
      new RegExp(`^</arg_key${suffix}>(\\s*)<arg_value${suffix}>$`).exec(after.slice(key.end, value.at)) ?? [];
    const [, behind] =
      new RegExp(`^</arg_value${suffix}>(\\s*)</tool_call${suffix}>\\s*</tool_calls${suffix}>`).exec(
        after.slice(value.end),
      ) ?? [];
    if (first === undefined || within === undefined || behind === undefined) return null;
    return hunyuanOf(suffix, separator !== undefined, { between, first, within, behind });
  },
};
