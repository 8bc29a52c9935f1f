// Describes the tools in the system text, for models whose templates do not support tools. Pure.
import type { TemplateTool } from '../template-context.js';
import type { ToolSyntax } from './syntax.js';

/** `tools`: shielded, as for a template. */
export function describeTools(tools: readonly TemplateTool[], syntax: ToolSyntax): string {
  const definitions = tools.map((tool) => JSON.stringify(tool.function)).join('\n');
  const example = syntax.write([{ name: 'tool-name', arguments: '{"argument-name": "value"}' }]);
  return (
    `# Tools\n\nYou can call these tools, each described by a JSON object on a line of its own:\n${definitions}\n\n` +
    `To call a tool, write its name and its arguments exactly like this, one such block for each call, and then end your turn:\n${example}\n\n` +
    'The results are given to you in the next message. Call a tool only if it helps; otherwise answer directly.'
  );
}
