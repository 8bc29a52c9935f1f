// Determines a model's tool-call syntax and whether its template supports tools. Runs once per loaded model.
import type { ChatTemplate } from '../chat-template.js';
import { writtenCall } from '../template-probe.js';
import { HERMES } from './hermes.js';
import type { ToolSyntax } from './syntax.js';
import { FAMILIES, SPOKEN } from './syntaxes.js';

export interface ToolDialect {
  readonly syntax: ToolSyntax;
  /** Whether the template shows tool definitions. If not, a system message does (describe.ts). */
  readonly showsTools: boolean;
  /** Whether the template shows past calls and their results in this syntax. If not, they become text. */
  readonly showsCalls: boolean;
}

/**
 * The template's own rendering of a call decides. Without a template, or with an unknown rendering, the syntax is that
 * of the markers in the vocabulary, or else the most common one.
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
  // A template that shows tools but no calls relies on the syntax that the model was trained with.
  return {
    syntax: spoken?.usual ?? HERMES,
    showsTools: spoken !== undefined && written === null && template.capabilities.tools,
    showsCalls: false,
  };
}
