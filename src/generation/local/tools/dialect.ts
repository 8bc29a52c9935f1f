// Determines a model's tool-call syntax and whether its template supports tools. Runs once per loaded model.
import type { ChatTemplate } from '../template/chat-template.js';
import { writtenCall } from '../template/probe.js';
import { HERMES } from './hermes.js';
import type { ToolSyntax } from './syntax.js';
import { FAMILIES, SPOKEN } from './syntaxes.js';
import type { TemplateTool } from '../template/context.js';

export interface ToolDialect {
  readonly syntax: ToolSyntax;
  /** Whether the template shows tool definitions. If not, a system message does (describeTools()). */
  readonly showsTools: boolean;
  /** Whether the template shows past calls and their results in this syntax. If not, they are written as plain text. */
  readonly showsCalls: boolean;
}

/**
 * Determines the syntax from how the template renders a call. If there is no template, or if its rendering is unknown,
 * the syntax follows from the markers in the vocabulary. If the vocabulary contains no known markers, the most common
 * syntax is used.
 */
export function findDialect(template: ChatTemplate, hasToken: (spelling: string) => boolean): ToolDialect {
  const written = writtenCall(template);
  if (written !== null) {
    for (const family of FAMILIES) {
      const syntax = family.recognize(written);
      if (syntax !== null) return { syntax, showsTools: template.capabilities.tools, showsCalls: true };
    }
  }
  const spoken = SPOKEN.find(({ token }) => token !== undefined && hasToken(token));
  // A template that shows tools but no calls relies on the syntax that the model was trained on.
  return {
    syntax: spoken?.usual ?? HERMES,
    showsTools: spoken !== undefined && written === null && template.capabilities.tools,
    showsCalls: false,
  };
}

/**
 * Returns the description of the tools for the system prompt of models whose templates do not support tools. `tools`:
 * the tools, with control tokens escaped in the same way as in tools that are passed to a template.
 */
export function describeTools(tools: readonly TemplateTool[], syntax: ToolSyntax): string {
  const definitions = tools.map((tool) => JSON.stringify(tool.function)).join('\n');
  const example = syntax.write([{ name: 'tool-name', arguments: '{"argument-name": "value"}' }]);
  return (
    `# Tools\n\nYou can call these tools, each described by a JSON object on a line of its own:\n${definitions}\n\n` +
    `To call a tool, write its name and its arguments exactly like this, one such block for each call, and then end your turn:\n${example}\n\n` +
    'The results are given to you in the next message. Call a tool only if it helps; otherwise answer directly.'
  );
}
