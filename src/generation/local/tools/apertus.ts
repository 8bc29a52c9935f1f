// <|tools_prefix|>[{"get_weather": {...}}, {"get_time": {}}]<|tools_suffix|>
//
// Apertus: a list of objects. The only member of each is named after the tool.
import { HeadedCall, headerOf, NAME } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<|tools_prefix|>',
  CLOSE = '<|tools_suffix|>';

const header = headerOf(['{', /^\s*/, '"', new RegExp(`^(${NAME})`), '"', /^\s*/, ':']);

/** `list`: the text before the first call's name, including the brace and the quote. `colon`: the text after a name. */
function spaced(list: string, colon: string): ToolSyntax {
  const call = list.slice(list.indexOf('{'));
  return {
    name: 'apertus',
    open: OPEN,
    close: CLOSE,
    bare: false,
    separators: '[],}',
    engineOpen: OPEN,
    reader: (first, tools, sink) => (first === '{' ? new HeadedCall(header, tools, sink) : null),
    head: (tool) => `${list}${tool}${colon}`,
    tail: '}',
    several: { next: (tool) => `, ${call}${tool}${colon}`, end: `]${CLOSE}` },
    write: (calls) => `${OPEN}[${calls.map((one) => `{"${one.name}": ${one.arguments}}`).join(', ')}]${CLOSE}`,
  };
}

export const APERTUS = spaced('[{"', '":');

export const apertus: SyntaxFamily = {
  usual: APERTUS,
  token: OPEN,
  recognize({ before, after }) {
    const [, list] = /<\|tools_prefix\|>(\s*\[\s*\{\s*")$/.exec(before) ?? [];
    const [colon] = /^"\s*:/.exec(after) ?? [];
    return list === undefined || colon === undefined ? null : spaced(list, colon);
  },
};
