// A request's tools: the supported ones, with the names that the model sees, and the types of the ignored ones. Pure.
import { apiError } from '../../shared/errors.js';
import { checkToolSchemas } from '../../generation/output-format.js';
import type { ToolChoice, ToolDefinition } from '../../generation/types.js';
import { toToolChoice, toToolDefinitions, type ToolInput } from '../tools.js';
import type { WireTool, WireToolChoice, WireToolName } from './resource.js';
import type { CreateEnvelope } from './schema.js';
import type { ToolEntry } from './schema-items.js';

/** Maximum number of functions across all namespaces. */
const MAX_FUNCTIONS = 1_024;

/** A tool's name from the client's point of view. */
export interface ToolName {
  name: string;
  namespace: string | null;
}

/** A list of tools with its path: `tools`, or an item that adds tools. */
export interface ToolList {
  path: string;
  tools: readonly ToolEntry[];
}

export interface ReadTools {
  definitions: ToolDefinition[];
  /** Maps the model's tool names to the client's, where they differ. */
  names: Map<string, ToolName>;
  /** The tools as listed in the resource. */
  wire: WireTool[];
  /** Types of the ignored tools, without duplicates. */
  ignored: string[];
}

/** Returns the name that the model sees. */
export const modelName = (name: string, namespace: string | null | undefined): string =>
  namespace ? `${namespace}__${name}` : name;

type FunctionEntry = Extract<ToolEntry, { type: 'function' }>;

const isFunction = (tool: { type: string }): tool is FunctionEntry => tool.type === 'function';
const isNamespace = (tool: { type: string }): tool is Extract<ToolEntry, { type: 'namespace' }> =>
  tool.type === 'namespace';

/** Throws ApiError 422 for invalid names or schemas, or too many tools. */
export function readTools(lists: readonly ToolList[]): ReadTools {
  const inputs: ToolInput[] = [];
  const read: ReadTools = { definitions: [], names: new Map(), wire: [], ignored: [] };
  const ignored = new Set<string>();
  const add = (
    { name, description, parameters, strict }: FunctionEntry,
    namespace: string | null,
    path: string,
  ): void => {
    const seen = modelName(name, namespace);
    if (namespace !== null) read.names.set(seen, { name, namespace });
    inputs.push({ path, name: seen, description, parameters, strict });
    read.wire.push({
      type: 'function',
      name,
      ...(namespace === null ? {} : { namespace }),
      description: description ?? null,
      parameters: parameters ?? null,
      strict: strict ?? null,
    });
    if (inputs.length > MAX_FUNCTIONS)
      throw apiError('array_too_long', `tools may have at most ${MAX_FUNCTIONS} functions in total.`, path);
  };
  for (const { path, tools } of lists) {
    tools.forEach((tool, index) => {
      if (isFunction(tool)) add(tool, null, `${path}[${index}]`);
      else if (!isNamespace(tool)) ignored.add(tool.type);
      else
        tool.tools.forEach((inner, at) => {
          if (isFunction(inner)) add(inner, tool.name, `${path}[${index}].tools[${at}]`);
          else ignored.add(inner.type);
        });
    });
  }
  read.definitions = toToolDefinitions(inputs);
  checkToolSchemas(read.definitions);
  read.ignored = [...ignored];
  return read;
}

/** Throws ApiError 422 tool_not_found or conflicting_parameters. */
export function readToolChoice(
  choice: CreateEnvelope['tool_choice'],
  tools: readonly ToolDefinition[],
): { internal: ToolChoice; wire: WireToolChoice } {
  if (choice == null) return { internal: toToolChoice(tools, null, null), wire: 'auto' };
  if (typeof choice === 'string') return { internal: toToolChoice(tools, choice, null), wire: choice };
  if ('tools' in choice) {
    const mode = choice.mode ?? 'auto';
    const names = choice.tools.map(({ type, name, namespace }) =>
      type === 'function' && name != null ? wireName(name, namespace) : notFound(),
    );
    return {
      internal: toToolChoice(
        tools,
        mode,
        names.map(({ name, namespace }) => modelName(name, namespace)),
      ),
      wire: { type: 'allowed_tools', mode, tools: names },
    };
  }
  if (!('name' in choice)) return notFound();
  const wire = wireName(choice.name, choice.namespace);
  return { internal: toToolChoice(tools, 'required', [modelName(wire.name, wire.namespace)]), wire };
}

function wireName(name: string, namespace: string | null | undefined): WireToolName {
  return { type: 'function', name, ...(namespace ? { namespace } : {}) };
}

function notFound(): never {
  throw apiError(
    'tool_not_found',
    'tool_choice names a tool that is not in tools or that is of an ignored type.',
    'tool_choice',
  );
}
