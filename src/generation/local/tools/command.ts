// <|START_ACTION|>[
//     {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {...}}
// ]<|END_ACTION|>
//
// Command-R7B and Command-A.
import { JsonCall } from './json-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<|START_ACTION|>',
  CLOSE = '<|END_ACTION|>';

const entry = (tool: string, number: number): string =>
  `{"tool_call_id": "${number}", "tool_name": "${tool}", "parameters":`;

export const COMMAND: ToolSyntax = {
  name: 'command',
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '[],',
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === '{' ? new JsonCall(tools, sink, false) : null),
  head: (tool) => `[\n    ${entry(tool, 0)}`,
  tail: '}',
  several: { next: (tool, number) => `,\n    ${entry(tool, number)}`, numbered: 4, end: `\n]${CLOSE}` },
  write: (calls) =>
    `${OPEN}[\n${calls.map((call, index) => `    ${entry(call.name, index)} ${call.arguments}}`).join(',\n')}\n]${CLOSE}`,
};

export const command: SyntaxFamily = {
  usual: COMMAND,
  token: OPEN,
  recognize: ({ before, after }) =>
    /<\|START_ACTION\|>\[\s*\{\s*"tool_call_id": "[^"]*", "tool_name": "$/.test(before) &&
    /^", "parameters":/.test(after)
      ? COMMAND
      : null,
};
