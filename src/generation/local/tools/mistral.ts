// [TOOL_CALLS]get_weather[ARGS]{...}
// [TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{...}
//
// Mistral's newer models: each call has its own marker, with or without an ID.
import { HeadedCall, headerOf, NAME, type Header } from './headed-call.js';
import { JsonCall } from './json-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '[TOOL_CALLS]',
  ARGS = '[ARGS]',
  CALL_ID = '[CALL_ID]';

const plain = headerOf([new RegExp(`^(${NAME})`), ARGS]);
const numbered = headerOf([new RegExp(`^(${NAME})`), CALL_ID, /^[^[]{0,256}/, ARGS]);

/** Accepts a header with or without an ID. */
export function mistralHeader(text: string): Header {
  const header = plain(text);
  return header === null ? numbered(text) : header;
}

export const MISTRAL_NAMED: ToolSyntax = {
  name: 'mistral-named',
  open: OPEN,
  close: '',
  bare: false,
  separators: '[],',
  engineOpen: OPEN,
  reader: (first, tools, sink) =>
    first === '{' ? new JsonCall(tools, sink, false) : new HeadedCall(mistralHeader, tools, sink),
  head: (tool) => `${tool}${ARGS}`,
  tail: '',
  endsItself: true,
  write: (calls) => calls.map((call) => `${OPEN}${call.name}${ARGS}${call.arguments}`).join(''),
};

export const MISTRAL_NUMBERED: ToolSyntax = {
  ...MISTRAL_NAMED,
  name: 'mistral-numbered',
  head: (tool) => `${tool}${CALL_ID}`,
  lead: { letters: true, least: 9, most: 9, close: ARGS },
  callId: /\[CALL_ID\]([A-Za-z0-9]{9})\[ARGS\]$/,
};

export const mistral: SyntaxFamily = {
  usual: MISTRAL_NAMED,
  recognize({ before, after }) {
    if (!before.endsWith(OPEN)) return null;
    return after.startsWith(CALL_ID) ? MISTRAL_NUMBERED : after.startsWith(ARGS) ? MISTRAL_NAMED : null;
  },
};
