// <tool_call>
// {"name": "get_weather", "arguments": {...}}
// </tool_call>
//
// Qwen, Hermes, Granite 4, and most others.
import { JsonCall } from './json-call.js';
import { jsonCall, type SyntaxFamily, type ToolSyntax } from './syntax.js';

const OPEN = '<tool_call>',
  CLOSE = '</tool_call>';

export const HERMES: ToolSyntax = {
  name: 'hermes',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '[],',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === '{' ? new JsonCall(tools, sink, false) : null),
  head: (tool) => `\n{"name": "${tool}", "arguments":`,
  tail: `}\n${CLOSE}`,
  write: (calls) =>
    calls.map((call) => `${OPEN}\n{"name": "${call.name}", "arguments": ${call.arguments}}\n${CLOSE}`).join('\n'),
};

export const hermes: SyntaxFamily = {
  usual: HERMES,
  token: OPEN,
  recognize(written) {
    const json = jsonCall(written);
    if (json === null) return null;
    const opened = json.lead.lastIndexOf(OPEN);
    const between = json.lead.slice(opened + OPEN.length);
    // The template may write additional text after the arguments. In the model's calls, this text is optional.
    const tail =
      /^\s*\}\s*<\/tool_call>/.exec(written.behind)?.[0] ?? (written.behind.includes(CLOSE) ? HERMES.tail : undefined);
    if (opened === -1 || between.trim() !== '' || tail === undefined) return null;
    return { ...HERMES, head: (tool) => between + json.head + tool + json.tail, tail };
  },
};
