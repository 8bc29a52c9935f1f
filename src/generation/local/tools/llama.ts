// {"name": "get_weather", "parameters": {...}}
//
// Llama 3.x: the call is the whole response. Its marker is optional. It is a control token, so it does not appear in
// the content.
import { JsonCall } from './json-call.js';
import { jsonCall, type SyntaxFamily, type ToolSyntax } from './syntax.js';

const BARE_HEAD = '{"name": "';

export const LLAMA: ToolSyntax = {
  name: 'llama',
  open: '<|python_tag|>',
  close: '',
  bare: true,
  separators: ';,',
  engineOpen: BARE_HEAD,
  reader: (first, tools, sink) => (first === '{' ? new JsonCall(tools, sink, true) : null),
  head: (tool) => `${tool}", "parameters":`,
  tail: '}',
  write: (calls) => calls.map((call) => `${BARE_HEAD}${call.name}", "parameters": ${call.arguments}}`).join('; '),
};

export const llama: SyntaxFamily = {
  usual: LLAMA,
  recognize(written) {
    const json = jsonCall(written);
    // No other text may precede the call, because the call is the whole response.
    if (json === null || json.lead.trim() !== written.turn.trim()) return null;
    return {
      ...LLAMA,
      engineOpen: json.head,
      head: (tool) => tool + json.tail,
      tail: /^\s*\}/.exec(written.behind)?.[0] ?? LLAMA.tail,
    };
  },
};
