// <function=get_weather>{...}</function>
//
// Functionary 3.1, and what Llama 3.1 was taught for tools of one's own: JSON between tags. With parameters in tags of
// their own, and around them a marker, it is xml.ts's.
import { HeadedCall, headerOf, NAME } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<function=', CLOSE = '</function>';

const header = headerOf([new RegExp(`^(${NAME})`), '>']);

export const FUNCTIONARY: ToolSyntax = {
  name: 'functionary', open: OPEN, close: CLOSE, bare: false, separators: '', engineOpen: OPEN,
  reader: (first, tools, sink) => (/[A-Za-z0-9_.-]/.test(first) ? new HeadedCall(header, tools, sink) : null),
  head: (tool) => `${tool}>`,
  tail: CLOSE,
  write: (calls) => calls.map((call) => `${OPEN}${call.name}>${call.arguments}${CLOSE}`).join('\n'),
};

export const functionary: SyntaxFamily = {
  usual: FUNCTIONARY,
  recognize: ({ before, after, behind }) => (before.endsWith(OPEN) && /^>\s*\{/.test(after) && /^\s*<\/function>/.test(behind) ? FUNCTIONARY : null),
};
