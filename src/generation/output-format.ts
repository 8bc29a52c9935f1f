// What a client may demand of an answer's form, and whether an answer has it. The schemas of tools pass
// through here too. Event-loop thread only: the work is linear in the schema, and bounded for the answer.
//
// output-format/keywords.ts is the table of what is understood; compile-schema.ts reads schemas by it.
import { apiError } from '../errors.js';
import { compileSchema, MAX_ALL_PATTERN_CHARACTERS, type CompiledSchema } from './output-format/compile-schema.js';
import { problemWith } from './output-format/evaluate.js';
import { MAX_SCHEMA_CHARACTERS, sizeUpTo } from './output-format/schema-size.js';
import type { JsonSchema, OutputFormat, ToolDefinition } from './types.js';

/** Schemas of requests that still run; a request's schema is compiled once. */
const compiled = new WeakMap<JsonSchema, CompiledSchema>();

function compile(schema: JsonSchema, path: string): CompiledSchema {
  let known = compiled.get(schema);
  if (known === undefined) compiled.set(schema, (known = compileSchema(schema, path)));
  return known;
}

function checkSchema(schema: JsonSchema, path: string, strict: boolean): CompiledSchema {
  const result = compile(schema, path);
  const { unsupported } = result;
  if (strict && unsupported !== null) {
    const why = unsupported.why === '' ? '' : ` (${unsupported.why})`;
    throw apiError('unsupported_json_schema',
      `${unsupported.path}: the keyword ${JSON.stringify(unsupported.keyword)} is not supported in a strict schema${why}.`, unsupported.path);
  }
  return result;
}

/** Throws ApiError 422: invalid_json_schema, or unsupported_json_schema where strict, naming the path of the keyword. */
export function checkOutputFormat(format: OutputFormat): void {
  if (format.type === 'json_schema') checkSchema(format.schema, format.path, format.strict);
}

/** Schemas of all tools of a request together: reading them holds up everybody. */
const MAX_TOOL_CHARACTERS = 2 * 1024 * 1024;

/** The same for tools' parameters, which are objects; `paths[i]` is where the schema of tool i stands. */
export function checkToolSchemas(tools: readonly ToolDefinition[], paths: readonly string[]): void {
  let characters = 0;
  let patternCharacters = 0;
  tools.forEach(({ parameters, strict }, index) => {
    if (parameters === null) return;
    const path = paths[index] ?? `tools[${index}]`;
    const { root, ...ofThis } = checkSchema(parameters, path, strict);
    characters += ofThis.characters;
    patternCharacters += ofThis.patternCharacters;
    if (characters > MAX_TOOL_CHARACTERS) throw apiError('invalid_json_schema', `${path}: the schemas of all tools together are longer than ${MAX_TOOL_CHARACTERS / 1024} KiB.`, path);
    if (patternCharacters > MAX_ALL_PATTERN_CHARACTERS) throw apiError('invalid_json_schema', `${path}: the patterns of all tools together are longer than ${MAX_ALL_PATTERN_CHARACTERS} characters.`, path);
    if (root.types !== null && !root.types.includes('object')) throw apiError('invalid_json_schema', `${path}.type: a tool's arguments are an object.`, `${path}.type`);
  });
}

/** About the characters of a schema as compact JSON. */
export function schemaCharacters(schema: JsonSchema): number {
  return compiled.get(schema)?.characters ?? sizeUpTo(schema, MAX_SCHEMA_CHARACTERS);
}

/** Null if `text` is as demanded, else what is wrong with it, in words that quote none of it. */
export function formatProblem(format: OutputFormat, text: string): string | null {
  if (format.type === 'text') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'it is not JSON';
  }
  if (format.type === 'json_object') return typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'it is not a JSON object';
  return problemWith(value, compile(format.schema, format.path).root);
}
