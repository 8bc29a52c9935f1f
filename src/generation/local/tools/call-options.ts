// The engine's options for a request's tools: how calls start, which tools may be called, and whether a call is
// required. No side effects.
import type { NativeGrammar } from '../../../engine/addon-grammar-types.js';
import type { CallOptions } from '../../../engine/addon-types.js';
import { MAX_TOOLS } from '../../../config/tool-limit.js';
import type { GenerationRequest } from '../../types.js';
import type { CallableTools } from './call-reader.js';
import type { ToolSyntax } from './syntax.js';

type ToolRequest = Pick<GenerationRequest, 'tools' | 'toolChoice' | 'parallelToolCalls'>;

/** Returns the tools that the model may call in this request; empty if none. */
export function callableTools({
  tools,
  toolChoice: { mode, allowed },
}: Pick<ToolRequest, 'tools' | 'toolChoice'>): CallableTools {
  if (mode === 'none') return new Map();
  return new Map(
    tools
      .filter(({ name }) => allowed === null || allowed.includes(name))
      .map(({ name, parameters }) => [name, parameters]),
  );
}

/**
 * Returns null if the engine need not recognize or suppress any markers. `grammars`: the grammars of the tools'
 * arguments, by tool name. `keepsOut`: whether to suppress the markers if there are no tools.
 */
export function callOptions(
  request: ToolRequest,
  syntax: ToolSyntax,
  grammars: ReadonlyMap<string, NativeGrammar>,
  keepsOut = false,
): CallOptions | null {
  if (request.tools.length === 0 && (!keepsOut || syntax.open === '')) return null;
  const names = [...callableTools(request).keys()];
  const required = request.toolChoice.mode === 'required';
  if (names.length === 0)
    return { open: syntax.open, close: syntax.close, atStart: false, prefixes: [], required: false, forbidden: true };
  // A response that starts like a bare call is not necessarily a call, so its text is not constrained.
  const isFree = syntax.bare && !required;
  const binds = !isFree && names.every((name) => grammars.has(name));
  return {
    open: syntax.engineOpen,
    close: syntax.close,
    atStart: syntax.bare,
    prefixes: isFree ? [] : headsOf(names, syntax),
    ...(isFree ? {} : { grammars: names.map((name) => grammars.get(name) ?? null) }),
    ...(binds && syntax.several !== undefined
      ? { next: request.parallelToolCalls ? nextCalls(names, syntax.several) : [], end: syntax.several.end }
      : {}),
    ...(syntax.answer === undefined || required ? {} : { answer: syntax.answer }),
    ...(syntax.endsItself === true ? { endsItself: true } : {}),
    required,
    forbidden: false,
  };
}

/** If one head is a prefix of another, the engine would recognize only the shorter one. */
function headsOf(names: readonly string[], syntax: ToolSyntax): string[] {
  const heads = names.map((name) => syntax.head(name));
  const sorted = [...heads].sort();
  const isAmbiguous = sorted.some((head, index) => sorted[index + 1]?.startsWith(head) === true);
  return isAmbiguous && syntax.headApart !== undefined ? names.map((name) => syntax.headApart?.(name) ?? name) : heads;
}

function nextCalls(names: readonly string[], { next, numbered = 1 }: NonNullable<ToolSyntax['several']>): string[] {
  const rounds = Math.min(numbered, Math.max(1, Math.floor(MAX_TOOLS / names.length)));
  return Array.from({ length: rounds }, (_, round) => names.map((name) => next(name, round + 1))).flat();
}
