// <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0
// <|tool_call_argument_begin|>{...}<|tool_call_end|><|tool_calls_section_end|>      (all on one line)
//
// Kimi K2. A call's ID consists of the tool's name and a number that counts the calls in the conversation.
import { HeadedCall, headerOf, NAME } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<|tool_calls_section_begin|>',
  CLOSE = '<|tool_calls_section_end|>';
const CALL = '<|tool_call_begin|>',
  ARGUMENTS = '<|tool_call_argument_begin|>',
  END = '<|tool_call_end|>';

const header = headerOf([CALL, /^\s*(?:functions\.)?/, new RegExp(`^(${NAME})`), /^(?::\d*)?\s*/, ARGUMENTS]);

export const KIMI: ToolSyntax = {
  name: 'kimi',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '',
  skipped: [END],
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === '<' ? new HeadedCall(header, tools, sink) : null),
  head: (tool) => `${CALL}functions.${tool}:`,
  lead: { letters: false, least: 1, most: 4, close: ARGUMENTS },
  tail: END,
  callId: new RegExp(`^<\\|tool_call_begin\\|>(functions\\.${NAME}:\\d{1,9})<\\|tool_call_argument_begin\\|>$`),
  several: { next: (tool) => `${CALL}functions.${tool}:`, end: CLOSE },
  write: (calls) =>
    `${OPEN}${calls.map((call, index) => `${CALL}functions.${call.name}:${index}${ARGUMENTS}${call.arguments}${END}`).join('')}${CLOSE}`,
};

export const kimi: SyntaxFamily = {
  usual: KIMI,
  token: OPEN,
  recognize: ({ before }) =>
    /<\|tool_calls_section_begin\|><\|tool_call_begin\|>functions\.$/.test(before) ? KIMI : null,
};
