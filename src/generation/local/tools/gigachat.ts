// <|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "get_weather", "arguments": {...}}      GigaChat 3
// <|function_call|>{"name": "get_weather", "arguments": {...}}                                  GigaChat 3.1
//
// A call ends the turn.
import { JsonCall } from './json-call.js';
import { jsonCall, type SyntaxFamily, type ToolSyntax } from './syntax.js';

/** `spaced`: text between the marker and the call. */
function behind(open: string, spaced: string): ToolSyntax {
  return {
    name: 'gigachat',
    open,
    close: '',
    bare: false,
    separators: '',
    engineOpen: open,
    reader: (first, tools, sink) => (first === '{' ? new JsonCall(tools, sink, false) : null),
    head: (tool) => `${spaced}{"name": "${tool}", "arguments":`,
    tail: '}',
    endsItself: true,
    write: (calls) =>
      calls.map((call) => `${open}${spaced}{"name": "${call.name}", "arguments": ${call.arguments}}`).join(''),
  };
}

const SYNTAXES = [behind('<|message_sep|>\n\nfunction call<|role_sep|>', '\n'), behind('<|function_call|>', '')];
export const [GIGACHAT] = SYNTAXES as [ToolSyntax];

export const gigachat: SyntaxFamily = {
  usual: GIGACHAT,
  recognize(written) {
    const json = jsonCall(written);
    if (json === null) return null;
    for (const syntax of SYNTAXES) {
      const opened = json.lead.lastIndexOf(syntax.open);
      const between = json.lead.slice(opened + syntax.open.length);
      if (opened === -1 || between.trim() !== '') continue;
      return {
        ...syntax,
        head: (tool) => between + json.head + tool + json.tail,
        tail: /^\s*\}/.exec(written.behind)?.[0] ?? syntax.tail,
      };
    }
    return null;
  },
};
