// <function=get_weather>{...}</function>      Functionary 3.1
//
// >>>get_weather                              Functionary 3.2
// {...}
//
// In 3.2, plain text has the recipient `all`. The prompt ends with the marker `>>>`, which is removed from the prompt
// if a tool may be called.
import { HeadedCall, headerOf, NAME } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<function=',
  CLOSE = '</function>';

const tagHeader = headerOf([new RegExp(`^(${NAME})`), '>']);

export const FUNCTIONARY: ToolSyntax = {
  name: 'functionary',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (/[A-Za-z0-9_.-]/.test(first) ? new HeadedCall(tagHeader, tools, sink) : null),
  head: (tool) => `${tool}>`,
  tail: CLOSE,
  write: (calls) => calls.map((call) => `${OPEN}${call.name}>${call.arguments}${CLOSE}`).join('\n'),
};

const TO = '>>>',
  ALL = 'all\n';

const lineHeader = headerOf([new RegExp(`^(${NAME})`), '\n']);

export const FUNCTIONARY_NAMED: ToolSyntax = {
  name: 'functionary-named',
  open: TO,
  close: '',
  bare: false,
  separators: '',
  answer: ALL,
  engineOpen: TO,
  reader: (first, tools, sink) => (/[A-Za-z0-9_.-]/.test(first) ? new HeadedCall(lineHeader, tools, sink) : null),
  head: (tool) => `${tool}\n`,
  tail: '',
  endsItself: true,
  write: (calls) => calls.map((call) => `${TO}${call.name}\n${call.arguments}`).join(''),
};

export const functionary: SyntaxFamily = {
  usual: FUNCTIONARY,
  recognize({ before, after, behind }) {
    if (before.endsWith(OPEN) && /^>\s*\{/.test(after) && /^\s*<\/function>/.test(behind)) return FUNCTIONARY;
    return before.endsWith(TO) && /^\n\s*\{/.test(after) ? FUNCTIONARY_NAMED : null;
  },
};

/**
 * Adjusts a prompt that ends with a recipient marker: removes the marker if the model may choose a recipient, otherwise
 * completes it with the recipient of plain text.
 */
export function withRecipient(
  prompt: string,
  { open, answer }: Pick<ToolSyntax, 'open' | 'answer'>,
  mayCall: boolean,
): string {
  if (answer === undefined || !prompt.endsWith(open)) return prompt;
  return mayCall ? prompt.slice(0, -open.length) : prompt + answer;
}
