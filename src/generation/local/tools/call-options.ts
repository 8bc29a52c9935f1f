// What the engine has to know of a request's tools: how calls begin, which may, and whether one must. Pure.
import type { CallOptions, NativeGrammar } from '../../../engine/addon-types.js';
import type { GenerationRequest } from '../../types.js';
import type { CallableTools } from './call-reader.js';
import type { ToolSyntax } from './syntaxes.js';

type ToolRequest = Pick<GenerationRequest, 'tools' | 'toolChoice'>;

/** The tools this request lets the model call; empty if none. */
export function callableTools({ tools, toolChoice: { mode, allowed } }: ToolRequest): CallableTools {
  if (mode === 'none') return new Map();
  return new Map(tools.filter(({ name }) => allowed === null || allowed.includes(name)).map(({ name, parameters }) => [name, parameters]));
}

/** Null without tools. `grammars`: of the tools' arguments, by name. */
export function callOptions(request: ToolRequest, syntax: ToolSyntax, grammars: ReadonlyMap<string, NativeGrammar>): CallOptions | null {
  if (request.tools.length === 0) return null;
  const names = [...callableTools(request).keys()];
  const required = request.toolChoice.mode === 'required';
  if (names.length === 0) return { open: syntax.open, close: syntax.close, atStart: false, prefixes: [], required: false, forbidden: true };
  // An answer that happens to begin like a bare call may be no call at all: nothing is forced upon it.
  const isFree = syntax.bare && !required;
  return {
    open: syntax.engineOpen, close: syntax.close, atStart: syntax.bare,
    prefixes: isFree ? [] : names.map((name) => syntax.head(name)),
    ...(isFree ? {} : { grammars: names.map((name) => grammars.get(name) ?? null) }),
    required, forbidden: false,
  };
}
