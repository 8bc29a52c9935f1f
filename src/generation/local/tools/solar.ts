// <|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>get_weather<|tool_call:args|>{...}<|tool_call:end|>
//
// Solar Open: a message of calls, each between markers of its own. An id stands before the name; where a call is bound it
// is a number.
import { HeadedCall, headerOf, NAME } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<|tool_call:begin|>', TOOL = '<|tool_call:name|>', ARGUMENTS = '<|tool_call:args|>', END = '<|tool_call:end|>';

const header = headerOf([/^[^<]{1,256}/, TOOL, new RegExp(`^(${NAME})`), ARGUMENTS]);

const head = (tool: string, number: number): string => `${number}${TOOL}${tool}${ARGUMENTS}`;

export const SOLAR: ToolSyntax = {
  name: 'solar', open: OPEN, close: '', bare: false, separators: '', skipped: [END], engineOpen: OPEN,
  reader: (_first, tools, sink) => new HeadedCall(header, tools, sink),
  head: (tool) => head(tool, 0),
  tail: END, endsItself: true,
  write: (calls) => calls.map((one, index) => OPEN + head(one.name, index) + one.arguments + END).join(''),
};

export const solar: SyntaxFamily = {
  usual: SOLAR, token: OPEN,
  recognize: ({ before, after }) => (/<\|tool_call:begin\|>[^<]+<\|tool_call:name\|>$/.test(before) && after.startsWith(ARGUMENTS) ? SOLAR : null),
};
