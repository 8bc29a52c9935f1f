// [TOOL_CALLS][{"name": "get_weather", "arguments": {...}}, ...]
//
// One list after a marker. Used by Mistral's models up to the second generation of its tokenizers, Granite 3, Nemotron
// 2, Phi-4 and Apriel, with different markers.
import { HeadedCall } from './headed-call.js';
import { JsonCall } from './json-call.js';
import { mistralHeader } from './mistral.js';
import { jsonCall, type SyntaxFamily, type ToolSyntax } from './syntax.js';

/** If there is no close marker, the list extends to the end of the turn. */
const MARKERS: readonly (readonly [name: string, open: string, close: string])[] = [
  ['mistral', '[TOOL_CALLS]', ''],
  ['nemotron', '<TOOLCALL>', '</TOOLCALL>'],
  ['phi', '<|tool_call|>', '<|/tool_call|>'],
  ['granite', '<|tool_call|>', ''],
  ['granite', '<tool_call>', ''],
  ['apriel', '<tool_calls>', '</tool_calls>'],
];

function listIn(name: string, open: string, close: string): ToolSyntax {
  return {
    name,
    open,
    close,
    bare: false,
    separators: '[],',
    engineOpen: open,
    // The model may use either syntax, regardless of which one the template shows.
    reader: (first, tools, sink) => {
      if (first === '{') return new JsonCall(tools, sink, false);
      return name === 'mistral' ? new HeadedCall(mistralHeader, tools, sink) : null;
    },
    callId: /"id":"([\w.:-]{1,64})"/,
    head: (tool) => `[{"name": "${tool}", "arguments":`,
    tail: '}',
    several: { next: (tool) => `, {"name": "${tool}", "arguments":`, end: `]${close}` },
    write: (calls) =>
      `${open}[${calls.map((call) => `{"name": "${call.name}", "arguments": ${call.arguments}}`).join(', ')}]${close}`,
  };
}

const SYNTAXES = MARKERS.map(([name, open, close]) => listIn(name, open, close));

/** Mistral's markers. */
export const MISTRAL = SYNTAXES[0] as ToolSyntax;

/** Each syntax is recognized by a token that only its models' vocabularies contain. */
export const spokenLists: readonly Pick<SyntaxFamily, 'usual' | 'token'>[] = [
  { usual: MISTRAL, token: MISTRAL.open },
  { usual: SYNTAXES[1] as ToolSyntax, token: '<TOOLCALL>' },
  { usual: SYNTAXES[2] as ToolSyntax, token: '<|/tool_call|>' },
  { usual: SYNTAXES[3] as ToolSyntax, token: '<|tool_call|>' },
];

export const jsonList: SyntaxFamily = {
  usual: MISTRAL,
  recognize(written) {
    const json = jsonCall(written);
    if (json === null) return null;
    for (const syntax of SYNTAXES) {
      const opened = json.lead.lastIndexOf(syntax.open);
      const between = json.lead.slice(opened + syntax.open.length);
      if (opened === -1 || !/^\s*\[\s*$/.test(between)) continue;
      // An ID may follow the arguments; it is optional.
      const [ends, first, last] = /^(\s*\})?[^\]]*?(\s*\]\s*)/.exec(written.behind) ?? [];
      if (ends === undefined || last === undefined || !written.behind.startsWith(syntax.close, ends.length)) continue;
      return {
        ...syntax,
        head: (tool) => between + json.head + tool + json.tail,
        tail: first ?? '}',
        several: {
          next: (tool) => `, ${json.head}${tool}${json.tail}`,
          end: syntax.close === '' ? last.trimEnd() : last + syntax.close,
        },
      };
    }
    return null;
  },
};
