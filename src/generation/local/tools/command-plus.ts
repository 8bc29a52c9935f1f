// Action:
// ```json
// [
//     {
//         "tool_name": "get_weather",
//         "parameters": {...}
//     }
// ]```
//
// Command-R and Command-R+: a fenced JSON list after the word "Action:", which is not a special token.
import { JsonCall } from './json-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const WORD = 'Action:',
  FENCE = '```';

/** `behind`: the text between the word "Action:" and the list. */
function spaced(behind: string): ToolSyntax {
  const open = `${WORD}${behind}`;
  const entry = (tool: string): string => `\n    {\n        "tool_name": "${tool}",\n        "parameters":`;
  const tail = '\n    }',
    end = `\n]${FENCE}`;
  return {
    name: 'command-plus',
    open,
    close: FENCE,
    bare: false,
    separators: '[],',
    engineOpen: open,
    reader: (first, tools, sink) => (first === '{' ? new JsonCall(tools, sink, false) : null),
    head: (tool) => `[${entry(tool)}`,
    tail,
    several: { next: (tool) => `,${entry(tool)}`, end },
    write: (calls) => `${open}[${calls.map((call) => `${entry(call.name)} ${call.arguments}${tail}`).join(',')}${end}`,
  };
}

export const COMMAND_PLUS = spaced(`\n${FENCE}json\n`);

export const commandPlus: SyntaxFamily = {
  usual: COMMAND_PLUS,
  recognize({ before, after }) {
    const [, behind] = /Action:(\s*```json\s*)\[\s*\{\s*"tool_name": "$/.exec(before) ?? [];
    return behind === undefined || !/^",\s*"parameters":/.test(after) ? null : spaced(behind);
  },
};
