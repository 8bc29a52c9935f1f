// The input formats of custom tools in requests. No side effects.
import { z } from 'zod';
import { customParameters } from '../generation/custom-tools.js';
import { MAX_GRAMMAR_CHARACTERS, MAX_PATTERN_CHARACTERS } from '../generation/output-format.js';
import type { TextGrammar } from '../generation/types.js';
import type { ToolInput } from './tools.js';

const lark = z.object({
  syntax: z.literal('lark'),
  definition: z.string().min(1).max(MAX_GRAMMAR_CHARACTERS),
});
const regex = z.object({
  syntax: z.literal('regex'),
  definition: z.string().min(1).max(MAX_PATTERN_CHARACTERS),
});
export const customGrammar = z.discriminatedUnion('syntax', [lark, regex]);
/** In the Responses API, the grammar's fields are not nested in a separate object. */
const flat = { type: z.literal('grammar') };
export const flatCustomGrammar = z.discriminatedUnion('syntax', [lark.extend(flat), regex.extend(flat)]);

/** Converts a custom tool's name, description and grammar to a tool definition. */
export function customTool(
  { name, description }: { name: string; description?: string | null | undefined },
  grammar: TextGrammar | null,
  path: string,
): ToolInput {
  return { path, name, description, parameters: customParameters(grammar), strict: true, custom: { grammar } };
}
