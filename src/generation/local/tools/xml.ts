// <tool_call>
// <function=get_weather>
// <parameter=location>
// San Francisco
// </parameter>
// </function>
// </tool_call>
//
// Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5; Seed-OSS with different markers.
import { JsonCall } from './json-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';
import { TaggedCall, taggedSpelling, writeTagged, type Tags, type TagSpacing } from './tagged-call.js';
import { membersOf } from './call-arguments.js';

const FUNCTION = '<function=',
  PARAMETER = '<parameter=',
  END_PARAMETER = '</parameter>',
  END_FUNCTION = '</function>';

function xmlWithin(
  open: string,
  framed: boolean,
  spaces: { head: string; first: string; behind: string; end: string },
): ToolSyntax {
  const close = `</${open.slice(1)}`;
  const tags: Tags = {
    call: [FUNCTION, '>'],
    parameter: [PARAMETER, ['>'], ['>']],
    endParameter: END_PARAMETER,
    end: END_FUNCTION,
    closes: false,
    framed,
  };
  const spacing: TagSpacing = { within: '', behind: spaces.behind };
  const head = (tool: string): string => `${spaces.head}${FUNCTION}${tool}>${spaces.first}`;
  const tail = `${END_FUNCTION}${spaces.end}${close}`;
  return {
    name: 'xml',
    open,
    close,
    bare: false,
    separators: '',
    engineOpen: open,
    reader: (first, tools, sink) =>
      first === '<' ? new TaggedCall(tags, tools, sink) : first === '{' ? new JsonCall(tools, sink, false) : null,
    head,
    tail,
    spelling: (schema) => taggedSpelling(tags, spacing, schema),
    write: (calls) =>
      calls
        .map((call) => open + head(call.name) + writeTagged(tags, spacing, membersOf(call.arguments)) + tail)
        .join('\n'),
  };
}

export const XML = xmlWithin('<tool_call>', true, { head: '\n', first: '\n', behind: '\n', end: '\n' });

export const xml: SyntaxFamily = {
  usual: XML,
  recognize({ before, after, key, value }) {
    const [, open, head] = /(<(?:[a-z]+:)?tool_call>)(\s*)<function=$/.exec(before) ?? [];
    const [, first] = /^>(\s*)<parameter=$/.exec(after.slice(0, key.at)) ?? [];
    if (open === undefined || head === undefined || first === undefined) return null;
    const [opened, frame] = /^>(\n?)$/.exec(after.slice(key.end, value.at)) ?? [];
    const [ended, behind, end] = /^\n?<\/parameter>(\s*)<\/function>(\s*)<\//.exec(after.slice(value.end)) ?? [];
    if (opened === undefined || ended === undefined) return null;
    return xmlWithin(open, frame === '\n', { head, first, behind: behind ?? '', end: end ?? '' });
  },
};
