// Converts the tools of an Ollama request, and finds the fields of a request that have no effect. No side effects.
import { checkToolSchemas } from '../../generation/output-format.js';
import type { ToolDefinition } from '../../generation/types.js';
import { toToolDefinitions } from '../tools.js';
import type { ChatFields } from './schema.js';

/** Throws the ApiErrors of the shared tool and schema checks. */
export function toTools(tools: ChatFields['tools']): ToolDefinition[] {
  const definitions = toToolDefinitions(
    (tools ?? []).map((tool, index) => ({ path: `tools[${index}].function`, ...tool.function })),
  );
  checkToolSchemas(definitions);
  return definitions;
}
