// A request's tools: the supported tools, with the names shown to the model, and the types of the ignored tools. No
// side effects.
import { apiError } from '../../shared/errors.js';
import { MAX_TOOLS } from '../../config/tool-limit.js';
import { checkToolSchemas } from '../../generation/output-format.js';
import type { McpChoice, McpServer, McpTool } from '../../generation/mcp/types.js';
import type { ToolChoice, ToolDefinition } from '../../generation/types.js';
import { customTool } from '../custom-tools.js';
import { checkServerCount, responsesMcp, type McpPolicy } from '../mcp.js';
import { toToolChoice, toToolDefinitions, type ToolInput } from '../tools.js';
import { isResponsesSearch, responsesSearch, type ReadSearch } from '../web-search.js';
import type { WireMcpChoice, WireTool, WireToolChoice, WireToolName } from './resource.js';
import type { CreateEnvelope } from './schema.js';
import type { ToolEntry } from './schema-items.js';

/** The client's name for a tool. */
export interface ToolName {
  name: string;
  namespace: string | null;
  /** Whether this is a custom tool, whose input is free text. */
  custom: boolean;
}

/** A list of tools and its path in the request: `tools`, or an item that adds tools. */
export interface ToolList {
  path: string;
  tools: readonly ToolEntry[];
}

export interface ReadTools {
  definitions: ToolDefinition[];
  /** Maps the model's tool names to the client's, for custom tools and tools in namespaces. */
  names: Map<string, ToolName>;
  /** The tools as listed in the resource. */
  wire: WireTool[];
  /** Types of the ignored tools, without duplicates. */
  ignored: string[];
  /** The web search that this server runs; null if none. */
  search: ReadSearch | null;
  /** The MCP servers whose tools this server calls. */
  mcp: McpServer[];
  /** Paths of fields of server-side tools that have no effect. */
  ignoredFields: string[];
}

/** Settings for the tools that this server runs. */
export interface HostedPolicy {
  /** Whether this server runs web searches. */
  searches: boolean;
  /** The request's maximum number of calls of such tools, or null. */
  maxCalls: number | null;
  /** Absent if this server uses no MCP servers. */
  mcp?: McpPolicy;
  /** Returns the tools that an MCP server has listed in the conversation, or null. */
  listed(label: string): readonly McpTool[] | null;
}

/** Returns the name shown to the model. */
export const modelName = (name: string, namespace: string | null | undefined): string =>
  namespace ? `${namespace}__${name}` : name;

type FunctionEntry = Extract<ToolEntry, { type: 'function' }>;
type CustomEntry = Extract<ToolEntry, { type: 'custom'; name: string }>;

const isServed = (tool: { type: string }): tool is FunctionEntry | CustomEntry =>
  tool.type === 'function' || tool.type === 'custom';
const isNamespace = (tool: { type: string }): tool is Extract<ToolEntry, { type: 'namespace' }> =>
  tool.type === 'namespace';

/** Throws ApiError 422 for invalid names or schemas, or too many tools. */
export function readTools(lists: readonly ToolList[], { searches, maxCalls, mcp, listed }: HostedPolicy): ReadTools {
  const inputs: ToolInput[] = [];
  const read: ReadTools = {
    definitions: [],
    names: new Map(),
    wire: [],
    ignored: [],
    search: null,
    mcp: [],
    ignoredFields: [],
  };
  const ignored = new Set<string>();
  const found: { tool: ToolEntry; list: string; index: number }[] = []; // web search tools; only one is used
  const add = (
    tool: FunctionEntry | CustomEntry,
    namespace: string | null,
    path: string,
    about: string | null = null,
  ): void => {
    const { name, description } = tool;
    const custom = tool.type === 'custom';
    const seen = modelName(name, namespace);
    if (namespace !== null || custom) read.names.set(seen, { name, namespace, custom });
    const head = { name, ...(namespace === null ? {} : { namespace }), description: description ?? null };
    const shown = about === null ? description : `${namespace}: ${about}${description ? `\n\n${description}` : ''}`;
    if (custom) {
      const format = tool.format ?? { type: 'text' };
      const grammar = format.type === 'text' ? null : { ...format, path: `${path}.format.definition` };
      inputs.push(customTool({ name: seen, description: shown }, grammar, path));
      read.wire.push({ type: 'custom', ...head, format });
    } else {
      const { parameters, strict } = tool;
      inputs.push({ path, name: seen, description: shown, parameters, strict });
      read.wire.push({ type: 'function', ...head, parameters: parameters ?? null, strict: strict ?? null });
    }
    if (inputs.length > MAX_TOOLS)
      throw apiError('array_too_long', `tools may have at most ${MAX_TOOLS} tools in total.`, path);
  };
  for (const { path, tools } of lists) {
    tools.forEach((tool, index) => {
      if (isServed(tool)) add(tool, null, `${path}[${index}]`);
      else if (searches && found.length === 0 && isResponsesSearch(tool.type)) found.push({ tool, list: path, index });
      else if (mcp !== undefined && tool.type === 'mcp') {
        const { server, wire, ignored: fields } = responsesMcp(tool, { list: path, index }, mcp, listed);
        read.mcp.push(server);
        checkServerCount(read.mcp);
        read.wire.push(wire);
        read.ignoredFields.push(...fields);
      } else if (!isNamespace(tool)) ignored.add(tool.type);
      else {
        // The namespace's description is shown once, with its first tool.
        let about = tool.description || null;
        tool.tools.forEach((inner, at) => {
          if (!isServed(inner)) {
            ignored.add(inner.type);
            return;
          }
          add(inner, tool.name, `${path}[${index}].tools[${at}]`, about);
          about = null;
        });
      }
    });
  }
  for (const { tool, ...at } of found) {
    read.search = responsesSearch(tool, at, new Set(inputs.map(({ name }) => name)), maxCalls);
    inputs.push(read.search.input);
    read.ignoredFields.push(...read.search.ignored);
    read.wire.push(wireSearchTool(tool.type, read.search));
  }
  read.definitions = toToolDefinitions(inputs);
  checkToolSchemas(read.definitions);
  read.ignored = [...ignored];
  return read;
}

const wireSearchTool = (
  type: string,
  { options: { allowedDomains, blockedDomains } }: ReadSearch,
): Extract<WireTool, { search_context_size: string }> => ({
  type,
  filters:
    allowedDomains === null && blockedDomains.length === 0
      ? null
      : {
          allowed_domains: allowedDomains,
          ...(blockedDomains.length === 0 ? {} : { blocked_domains: blockedDomains }),
        },
  search_context_size: 'medium',
  user_location: null,
});

/** Labels of the MCP servers in a list of tools. */
export const mcpLabels = (tools: readonly ToolEntry[]): string[] =>
  tools.flatMap((tool) =>
    tool.type === 'mcp' && 'server_label' in tool && typeof tool.server_label === 'string' ? [tool.server_label] : [],
  );

interface ReadChoice {
  /** Excludes the tools of MCP servers. */
  internal: ToolChoice;
  wire: WireToolChoice;
  /** Includes the tools of MCP servers. */
  mcp: McpChoice;
}

/** Throws ApiError 422 tool_not_found or conflicting_parameters. */
export function readToolChoice(
  choice: CreateEnvelope['tool_choice'],
  read: Pick<ReadTools, 'definitions' | 'search' | 'mcp'>,
): ReadChoice {
  if (read.mcp.length === 0) {
    const own = ownToolChoice(choice, read);
    return { ...own, mcp: { mode: own.internal.mode, allowed: null } };
  }
  // The servers' tools are not known yet. They are checked once they are known (McpToolSet.choice).
  const internal: ToolChoice = { mode: read.definitions.length === 0 ? 'none' : 'auto', allowed: null };
  const none = { names: [], tools: [] };
  if (choice == null || typeof choice === 'string') {
    const mode = choice ?? 'auto';
    return { internal: mode === 'none' ? { mode, allowed: null } : internal, wire: mode, mcp: { mode, allowed: null } };
  }
  if (!('tools' in choice)) {
    const wire = choice.type === 'mcp' ? mcpChoice(choice, read.mcp) : null;
    if (wire !== null)
      return { internal, wire, mcp: { mode: 'required', allowed: { ...none, tools: [toolOf(wire)] } } };
    const own = ownToolChoice(choice, read);
    return { ...own, mcp: { mode: own.internal.mode, allowed: { ...none, names: own.internal.allowed ?? [] } } };
  }
  const mode = choice.mode ?? 'auto';
  const allowed: { names: string[]; tools: { label: string; name: string | null }[] } = { names: [], tools: [] };
  const wires = choice.tools.map((entry) => {
    if (entry.type === 'mcp') {
      const wire = mcpChoice(entry, read.mcp);
      allowed.tools.push(toolOf(wire));
      return wire;
    }
    const { internal: own, wire } = ownToolChoice({ ...choice, mode: 'auto', tools: [entry] }, read);
    allowed.names.push(...(own.allowed ?? []));
    return (wire as Extract<WireToolChoice, { tools: unknown }>).tools[0]!;
  });
  return { internal, wire: { type: 'allowed_tools', mode, tools: wires }, mcp: { mode, allowed } };
}

const toolOf = ({ server_label: label, name }: WireMcpChoice): { label: string; name: string | null } => ({
  label,
  name: name ?? null,
});

function mcpChoice(choice: object, servers: readonly McpServer[]): WireMcpChoice {
  const { server_label: label, name } = choice as { server_label?: unknown; name?: unknown };
  if (typeof label !== 'string' || !servers.some((server) => server.label === label)) return notFound();
  return { type: 'mcp', server_label: label, ...(typeof name === 'string' ? { name } : {}) };
}

function ownToolChoice(
  choice: CreateEnvelope['tool_choice'],
  { definitions: tools, search }: Pick<ReadTools, 'definitions' | 'search'>,
): { internal: ToolChoice; wire: WireToolChoice } {
  const isSearch = ({ type }: { type: string }): boolean => search !== null && isResponsesSearch(type);
  if (choice == null) return { internal: toToolChoice(tools, null, null), wire: 'auto' };
  if (typeof choice === 'string') return { internal: toToolChoice(tools, choice, null), wire: choice };
  if ('tools' in choice) {
    const mode = choice.mode ?? 'auto';
    const entries = choice.tools.map((entry): { wire: WireToolName | { type: string }; name: string } => {
      const { type, name, namespace } = entry;
      if (search !== null && isSearch(entry)) return { wire: { type }, name: search.options.name };
      if ((type !== 'function' && type !== 'custom') || name == null) return notFound();
      const wire = wireName(type, name, namespace);
      checkType(wire, tools);
      return { wire, name: modelName(name, namespace) };
    });
    return {
      internal: toToolChoice(
        tools,
        mode,
        entries.map(({ name }) => name),
      ),
      wire: { type: 'allowed_tools', mode, tools: entries.map(({ wire }) => wire) },
    };
  }
  if (!('name' in choice) || choice.type === 'mcp') {
    if (search === null || !isSearch(choice)) return notFound();
    return { internal: toToolChoice(tools, 'required', [search.options.name]), wire: { type: choice.type } };
  }
  const wire = wireName(choice.type, choice.name, choice.namespace);
  checkType(wire, tools);
  return { internal: toToolChoice(tools, 'required', [modelName(wire.name, wire.namespace)]), wire };
}

function wireName(type: WireToolName['type'], name: string, namespace: string | null | undefined): WireToolName {
  return { type, name, ...(namespace ? { namespace } : {}) };
}

/** Throws ApiError 422 tool_not_found if the tool with this name has a different type. */
function checkType({ type, name, namespace }: WireToolName, tools: readonly ToolDefinition[]): void {
  const seen = modelName(name, namespace);
  const found = tools.find((tool) => tool.name === seen);
  if (found !== undefined && (found.custom !== undefined) !== (type === 'custom')) notFound();
}

function notFound(): never {
  throw apiError(
    'tool_not_found',
    'tool_choice names a tool that is not in tools or that is of an ignored type.',
    'tool_choice',
  );
}
