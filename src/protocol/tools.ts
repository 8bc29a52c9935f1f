// Converts tool definitions and the tool choice from any format to the internal form, and runs the checks that all
// formats share (422). No side effects.
import { apiError } from '../shared/errors.js';
import type { JsonSchema, ToolChoice, ToolDefinition } from '../generation/types.js';

const NAME = /^[A-Za-z0-9_-]{1,128}$/;

/** A tool definition from any format, with its position in the request. */
export interface ToolInput {
  path: string; // tools[3].function
  namePath?: string; // `${path}.name` if absent
  schemaPath?: string; // `${path}.parameters` if absent
  name: string;
  description?: string | null | undefined;
  parameters?: JsonSchema | null | undefined;
  strict?: boolean | null | undefined;
  custom?: ToolDefinition['custom'];
}

/**
 * Throws ApiError invalid_tool_name or duplicate_tool_name. checkToolSchemas (generation/output-format) checks schemas
 * to the extent possible without compiling them; the engine compiles them later.
 */
export function toToolDefinitions(inputs: readonly ToolInput[]): ToolDefinition[] {
  const seen = new Set<string>();
  return inputs.map(({ path, namePath = `${path}.name`, schemaPath = `${path}.parameters`, name, ...rest }) => {
    if (!NAME.test(name))
      throw apiError('invalid_tool_name', `${namePath} must be 1 to 128 letters, digits, _ or -.`, namePath);
    if (seen.has(name))
      throw apiError('duplicate_tool_name', `${namePath}: this tool name is already in use.`, namePath);
    seen.add(name);
    return {
      name,
      description: rest.description ?? null,
      parameters: rest.parameters ?? null,
      strict: rest.strict === true,
      path: schemaPath,
      ...(rest.custom === undefined ? {} : { custom: rest.custom }),
    };
  });
}

/** A choice that names one tool requests exactly one call to it, regardless of the parallel-calls setting. */
export function namesOne(choice: string | { readonly type: string } | null | undefined): boolean {
  return typeof choice === 'object' && (choice?.type === 'function' || choice?.type === 'custom');
}

/**
 * `mode` null: the default, which is auto with tools and none without. `allowed`: the tool names listed by the client,
 * or null. Throws ApiError tool_not_found or conflicting_parameters.
 */
export function toToolChoice(
  tools: readonly ToolDefinition[],
  mode: ToolChoice['mode'] | null,
  allowed: readonly string[] | null,
): ToolChoice {
  for (const name of allowed ?? []) {
    if (!tools.some((tool) => tool.name === name))
      throw apiError('tool_not_found', 'tool_choice names a tool that is not in tools.', 'tool_choice');
  }
  if (tools.length === 0 || allowed?.length === 0) {
    if (mode !== 'required') return { mode: 'none', allowed: null };
    throw apiError(
      'conflicting_parameters',
      `tool_choice requires a tool call, but ${tools.length === 0 ? 'tools is empty' : 'no tool is allowed'}.`,
      'tool_choice',
    );
  }
  return { mode: mode ?? 'auto', allowed: allowed === null ? null : [...new Set(allowed)] };
}
