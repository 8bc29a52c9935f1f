// Checks of a demanded output format and of tools' schemas that need no compiler: their size above all.
// What the schemas say, the engine's compiler decides (grammars.ts). Event-loop thread only.
import { apiError } from '../shared/errors.js';
import { MAX_SCHEMA_CHARACTERS, sizeUpTo } from './schema-size.js';
import type { JsonSchema, OutputFormat, ToolDefinition } from './types.js';

/** Schemas of requests that still run; a request's schema is measured once. */
const measured = new WeakMap<JsonSchema, number>();

/** About how many characters a schema has as compact JSON. Stops counting once it is too long. */
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
/** Of one, and of all together. */
export const MAX_CHOICE_CHARACTERS = 16 * 1024,
  MAX_ALL_CHOICE_CHARACTERS = 256 * 1024;

/** Throws ApiError 422: invalid_json_schema, invalid_value. */
export function checkOutputFormat(format: OutputFormat): void {
  if (format.type === 'json_schema') checkLength(format.schema, format.path);
  if (format.type !== 'choice') return;
  const characters = format.choices.reduce((sum, choice) => sum + choice.length, 0);
  if (characters > MAX_ALL_CHOICE_CHARACTERS)
    throw apiError(
      'invalid_value',
      `${format.path}: the choices together are longer than ${MAX_ALL_CHOICE_CHARACTERS / 1024} KiB.`,
      format.path,
    );
}

/** Schemas of all tools of a request together: writing and compiling them takes time. */
const MAX_TOOL_CHARACTERS = 2 * 1024 * 1024;

/** Tools' arguments are objects. Throws ApiError 422 invalid_json_schema. */
export function checkToolSchemas(tools: readonly ToolDefinition[]): void {
  let characters = 0;
  for (const { parameters, path } of tools) {
    if (parameters === null) continue;
    characters += checkLength(parameters, path);
    if (characters > MAX_TOOL_CHARACTERS)
      throw apiError(
        'invalid_json_schema',
        `${path}: the schemas of all tools together are longer than ${MAX_TOOL_CHARACTERS / 1024} KiB.`,
        path,
      );
    if (parameters['type'] === undefined || [parameters['type']].flat().includes('object')) continue;
    throw apiError('invalid_json_schema', `${path}.type: a tool's arguments are an object.`, `${path}.type`);
  }
}

/** Null if `text` is as demanded, as far as that is seen without the schema; else what is wrong with it, in words that quote none of it. */
export function formatProblem(format: OutputFormat, text: string): string | null {
  if (format.type !== 'json_object' && format.type !== 'json_schema') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'it is not JSON';
  }
  return format.type === 'json_schema' || (typeof value === 'object' && value !== null && !Array.isArray(value))
    ? null
    : 'it is not a JSON object';
}
