// What a client may demand of an answer's form, and whether an answer has it. The schemas of tools pass
// through here too. Event-loop thread only.
import type { OutputFormat, ToolDefinition } from './types.js';

/** Throws ApiError 422: invalid_json_schema, or unsupported_json_schema where strict, naming the path of the keyword. */
export function checkOutputFormat(_format: OutputFormat): void {
}

/** The same for tools' parameters; `paths[i]` is where the schema of tool i stands. */
export function checkToolSchemas(_tools: readonly ToolDefinition[], _paths: readonly string[]): void {
}

/** Null if `text` is as demanded, else what is wrong with it, in words that quote none of it. */
export function formatProblem(_format: OutputFormat, _text: string): string | null {
  return null;
}
