// Which way a model writes tool calls, and whether its template has a place for tools. Once per loaded model.
import type { ChatTemplate } from '../chat-template.js';
import { writtenCall, type WrittenCall } from '../template-probe.js';
import { ARGS, CALL_ID } from './named-call.js';
import { HERMES, LLAMA, MISTRAL, MISTRAL_NAMED, MISTRAL_NUMBERED, XML, type ToolSyntax } from './syntaxes.js';

export interface ToolDialect {
  readonly syntax: ToolSyntax;
  /** The template shows the tools' definitions in its own way. If not, a system message does (describe.ts). */
  readonly showsTools: boolean;
  /** The template shows past calls and their results in this syntax. If not, they become text. */
  readonly showsCalls: boolean;
}

/**
 * The template's own rendering of a call decides. A model without one, or with one in none of the known
 * ways, is asked to write calls as most models do.
 */
export function findDialect(template: ChatTemplate, hasToken: (spelling: string) => boolean): ToolDialect {
  const written = writtenCall(template);
  const syntax = written === null ? null : recognize(written);
  if (syntax !== null) return { syntax, showsTools: template.capabilities.tools, showsCalls: true };
  const spoken = !hasToken(HERMES.open) && hasToken(MISTRAL.open) ? MISTRAL : HERMES;
  return { syntax: spoken, showsTools: false, showsCalls: false };
}

const JSON_HEAD = /\{\s*"name":\s*"$/;
const JSON_TAIL = /^",\s*"(arguments|parameters)":/;

/** Behind the arguments: the end of the object, and what closes the call. */
const JSON_ENDS = { hermes: /^\s*\}\s*<\/tool_call>/, mistral: /^\s*\}\s*\]/, llama: /^\s*\}/ } as const;

function recognize({ turn, before, after, behind }: WrittenCall): ToolSyntax | null {
  if (/<tool_call>\s*<function=$/.test(before) && after.startsWith('>')) return XML;
  if (before.endsWith(MISTRAL.open) && after.startsWith(CALL_ID)) return MISTRAL_NUMBERED;
  if (before.endsWith(MISTRAL.open) && after.startsWith(ARGS)) return MISTRAL_NAMED;
  const head = JSON_HEAD.exec(before)?.[0];
  const tail = JSON_TAIL.exec(after)?.[0];
  if (head === undefined || tail === undefined) return null;
  const lead = before.slice(0, -head.length);
  const tailOf = (name: keyof typeof JSON_ENDS, usual: string | null): string | null => JSON_ENDS[name].exec(behind)?.[0] ?? usual;
  // The exact spacing is the one the model has learned.
  for (const syntax of [HERMES, MISTRAL]) {
    const opened = lead.lastIndexOf(syntax.open);
    const between = lead.slice(opened + syntax.open.length);
    if (opened === -1 || !/^\s*\[?\s*$/.test(between)) continue;
    return { ...syntax, head: (tool) => between + head + tool + tail, tail: tailOf(syntax === HERMES ? 'hermes' : 'mistral', syntax.tail) };
  }
  // Nothing in between: the call is the answer.
  return lead.trim() === turn.trim() ? { ...LLAMA, engineOpen: head, head: (tool) => tool + tail, tail: tailOf('llama', LLAMA.tail) } : null;
}
