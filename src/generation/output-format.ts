// Checks an output format and tool schemas as far as possible without compiling them, mainly their size. The engine's
// compiler checks the schemas themselves (grammars.ts). Event-loop thread only.
import { apiError } from '../shared/errors.js';
import type { JsonSchema, OutputFormat, ToolDefinition } from './types.js';

export const MAX_SCHEMA_CHARACTERS = 256 * 1024;
/** The sizes of running requests' schemas, remembered so that each schema is measured only once. */
const measured = new WeakMap<JsonSchema, number>();

/** Returns the approximate length of the schema as compact JSON. Stops counting once the limit is exceeded. */
export function schemaCharacters(schema: JsonSchema): number {
  let characters = measured.get(schema);
  if (characters === undefined) measured.set(schema, (characters = sizeUpTo(schema, MAX_SCHEMA_CHARACTERS)));
  return characters;
}

function checkLength(schema: JsonSchema, path: string): number {
  const characters = schemaCharacters(schema);
  if (characters > MAX_SCHEMA_CHARACTERS)
    throw apiError(
      'invalid_json_schema',
      `${path}: the schema is longer than ${MAX_SCHEMA_CHARACTERS / 1024} KiB.`,
      path,
    );
  return characters;
}

export const MAX_PATTERN_CHARACTERS = 16 * 1024;
export const MAX_GRAMMAR_CHARACTERS = 64 * 1024;
export const MAX_CHOICES = 4_096;
/** Maximum number of characters in a single choice, and in all choices together. */
export const MAX_CHOICE_CHARACTERS = 16 * 1024,
  MAX_ALL_CHOICE_CHARACTERS = 256 * 1024;

/** Whether a grammar is in GBNF, where every rule contains "::=", or in Lark's notation. */
export const isGbnf = (grammar: string): boolean => grammar.includes('::=');

/** Throws ApiError 422 invalid_json_schema or invalid_value. */
export function checkOutputFormat(format: OutputFormat): void {
  if (format.type === 'json_schema') checkLength(format.schema, format.path);
  if (format.type !== 'choice') return;
  const characters = format.choices.reduce((sum, choice) => sum + choice.length, 0);
  if (characters > MAX_ALL_CHOICE_CHARACTERS)
    throw apiError(
      'invalid_value',
      `${format.path}: the choices are longer than ${MAX_ALL_CHOICE_CHARACTERS / 1024} KiB in total.`,
      format.path,
    );
}

/** Limit for the schemas of all of a request's tools, because writing and compiling them takes time. */
const MAX_TOOL_CHARACTERS = 2 * 1024 * 1024;

/** Requires tool arguments to be objects. Throws ApiError 422 invalid_json_schema. */
export function checkToolSchemas(tools: readonly ToolDefinition[]): void {
  let characters = 0;
  for (const { parameters, path } of tools) {
    if (parameters === null) continue;
    characters += checkLength(parameters, path);
    if (characters > MAX_TOOL_CHARACTERS)
      throw apiError(
        'invalid_json_schema',
        `${path}: the tool schemas are longer than ${MAX_TOOL_CHARACTERS / 1024} KiB in total.`,
        path,
      );
    if (parameters['type'] === undefined || [parameters['type']].flat().includes('object')) continue;
    throw apiError(
      'invalid_json_schema',
      `${path}.type must be "object", because tool arguments are objects.`,
      `${path}.type`,
    );
  }
}

/**
 * Returns null if `text` has the requested format, as far as this can be checked without the schema. Otherwise, returns
 * the problem, without quoting the text.
 */
export function formatProblem(format: OutputFormat, text: string): string | null {
  if (format.type !== 'json_object' && format.type !== 'json_schema') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'it is not valid JSON';
  }
  return format.type === 'json_schema' || (typeof value === 'object' && value !== null && !Array.isArray(value))
    ? null
    : 'it is not a JSON object';
}

/**
 * Returns the approximate length of a schema as JSON text, without building the text. Stops counting once `limit` is
 * exceeded. Iterative, so that deep schemas cannot overflow the stack.
 */
function sizeUpTo(root: unknown, limit: number): number {
  const open: unknown[] = [root];
  let size = 0;
  while (open.length > 0 && size <= limit) {
    const value = open.pop();
    if (typeof value === 'string') size += value.length + 2;
    else if (typeof value !== 'object' || value === null) size += 4;
    else if (Array.isArray(value)) {
      size += 1 + Math.max(1, value.length);
      // Every item takes at least one character, so the items need not be collected if their number already exceeds the
      // limit.
      if (size <= limit) for (const item of value) open.push(item);
    } else {
      size += 2;
      for (const key in value) {
        size += key.length + 4;
        if (size > limit) break;
        open.push((value as Record<string, unknown>)[key]);
      }
    }
  }
  return size;
}
