// <|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>get_weather
// <|tool_call:args|>{...}<|tool_call:end|>      (all on one line)
//
// Solar Open: a message of calls, each between its own markers; it ends the turn. An ID precedes the name and is a
// number in constrained calls. message-parts.ts handles all other messages.
import { HeadedCall, headerOf, NAME } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<|begin|>assistant<|tool_calls|>',
  CALLS = '<|calls|>';
const BEGIN = '<|tool_call:begin|>',
  TOOL = '<|tool_call:name|>',
  ARGUMENTS = '<|tool_call:args|>',
  END = '<|tool_call:end|>';

const header = headerOf([BEGIN, /^[^<]{1,256}/, TOOL, new RegExp(`^(${NAME})`), ARGUMENTS]);

const head = (tool: string, number: number): string => `${BEGIN}${number}${TOOL}${tool}${ARGUMENTS}`;

export const SOLAR: ToolSyntax = {
  name: 'solar',
  open: OPEN,
  close: '',
  bare: false,
  separators: '',
  skipped: [END, CALLS],
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === '<' ? new HeadedCall(header, tools, sink) : null),
  head: (tool) => head(tool, 0),
  tail: END,
  callId: /^<\|tool_call:begin\|>([\w.:-]{1,64})<\|tool_call:name\|>/,
  several: { next: head, numbered: 4, end: CALLS },
  write: (calls) => OPEN + calls.map((one, index) => head(one.name, index) + one.arguments + END).join(''),
};

export const solar: SyntaxFamily = {
  usual: SOLAR,
  token: BEGIN,
  recognize: ({ before, after }) =>
    /<\|tool_calls\|><\|tool_call:begin\|>[^<]+<\|tool_call:name\|>$/.test(before) && after.startsWith(ARGUMENTS)
      ? SOLAR
      : null,
};
