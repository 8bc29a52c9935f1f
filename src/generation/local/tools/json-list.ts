// [TOOL_CALLS][{"name": "get_weather", "arguments": {...}}, ...]
//
// One list behind a marker, as Mistral's models up to the second generation of its tokenizers, Granite 3, Nemotron 2,
// Phi-4 and Apriel write it; the markers differ.
import { HeadedCall } from './headed-call.js';
import { JsonCall } from './json-call.js';
import { mistralHeader } from './mistral.js';
import { jsonCall, type SyntaxFamily, type ToolSyntax } from './syntax.js';

/** Without a close marker the list goes on to the end of the turn. */
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
    // Whatever a model's template shows, its weights may know the other way too.
    reader: (first, tools, sink) => {
      if (first === '{') return new JsonCall(tools, sink, false);
      return name === 'mistral' ? new HeadedCall(mistralHeader, tools, sink) : null;
    },
    head: (tool) => `[{"name": "${tool}", "arguments":`,
    tail: '}',
    several: { next: (tool) => `, {"name": "${tool}", "arguments":`, end: `]${close}` },
    write: (calls) =>
      `${open}[${calls.map((call) => `{"name": "${call.name}", "arguments": ${call.arguments}}`).join(', ')}]${close}`,
  };
}

const SYNTAXES = MARKERS.map(([name, open, close]) => listIn(name, open, close));

/** Mistral's. */
export const MISTRAL = SYNTAXES[0] as ToolSyntax;

/** By what only one of them has in its vocabulary. */
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
      // An id may stand behind the arguments: it need not.
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
