// Which way a model writes tool calls, and whether its template has a place for tools. Once per loaded model.
import type { ChatTemplate } from '../chat-template.js';
import { writtenCall } from '../template-probe.js';
import { HERMES } from './hermes.js';
import type { ToolSyntax } from './syntax.js';
import { FAMILIES, SPOKEN } from './syntaxes.js';

export interface ToolDialect {
  readonly syntax: ToolSyntax;
  /** The template shows the tools' definitions in its own way. If not, a system message does (describe.ts). */
  readonly showsTools: boolean;
  /** The template shows past calls and their results in this syntax. If not, they become text. */
  readonly showsCalls: boolean;
}

/**
 * The template's own rendering of a call decides. A model without one, or with one in none of the known
 * ways, writes calls as its vocabulary has markers for, or else is asked to do it as most models do.
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
  // One that shows tools but no calls tells the model to write them as it has learned.
  return {
    syntax: spoken?.usual ?? HERMES,
    showsTools: spoken !== undefined && written === null && template.capabilities.tools,
    showsCalls: false,
  };
}
