// Reads the tools of a Messages request: the tools shown to the model, and the types of the omitted tools. No side
// effects.
import { apiError } from '../../shared/errors.js';
import { checkToolSchemas } from '../../generation/output-format.js';
import type { McpServer, McpTool } from '../../generation/mcp/types.js';
import type { ToolDefinition } from '../../generation/types.js';
import type { WebSearchOptions } from '../../generation/web-search/search-options.js';
import { isRecord } from '../entry-limits.js';
import { messagesMcp, readToolset, toTool, type McpPolicy, type Toolset } from '../mcp.js';
import { toToolDefinitions, type ToolInput } from '../tools.js';
import { isMessagesSearch, messagesSearch } from '../web-search.js';
import type { MessagesRequest, WireTool } from './schema.js';
import { clientTool, isToolSearch } from './vendor-tools.js';

export interface ReadTools {
  definitions: ToolDefinition[];
  /** Types of the omitted tools, without duplicates. */
  ignored: string[];
  /** Present if this server runs the request's web search tool. */
  webSearch?: WebSearchOptions;
  /** The MCP servers whose tools this server calls. */
  mcp: McpServer[];
  /** Paths of fields without effect. */
  ignoredFields: readonly string[];
}

export interface HostedPolicy {
  /** Whether this server runs web searches. */
  readonly webSearch?: boolean | undefined;
  /** Absent if this server uses no MCP servers. */
  readonly mcp?: McpPolicy;
  /** The values of the `anthropic-beta` header. */
  readonly betas?: readonly string[] | undefined;
}

/** `mcp_servers` requires a beta of this family. */
const MCP_BETA = /^mcp-client-\d{4}-\d{2}-\d{2}$/;

type CustomTool = Extract<WireTool, { input_schema: unknown }>;

const isCustom = (tool: WireTool): tool is CustomTool => 'input_schema' in tool && (tool.type ?? 'custom') === 'custom';

/** Throws ApiError 422 for invalid names or schemas, and for MCP servers that may not be used. */
export function readTools(
  { tools, messages, tool_choice: choice, mcp_servers: servers }: MessagesRequest,
  { webSearch: searches = false, mcp: policy, betas = [] }: HostedPolicy,
): ReadTools {
  const inputs: ToolInput[] = [];
  const ignored = new Set<string>();
  let webSearch: WebSearchOptions | undefined;
  const ignoredFields: string[] = [];
  const toolsets: Toolset[] = [];
  const isShown = shownTools(tools ?? [], messages, choice?.type === 'tool' ? choice.name : null);
  for (const [index, tool] of (tools ?? []).entries()) {
    const path = `tools[${index}]`;
    if (isCustom(tool)) {
      const { name, description, input_schema: parameters, strict } = tool;
      if (parameters['type'] !== 'object') {
        const typePath = `${path}.input_schema.type`;
        throw apiError('invalid_json_schema', `${typePath} must be "object".`, typePath);
      }
      if (isShown(tool))
        inputs.push({ path, schemaPath: `${path}.input_schema`, name, description, parameters, strict });
      continue;
    }
    const type = tool.type as string;
    if (searches && isMessagesSearch(type)) {
      const search = messagesSearch(tool, index);
      inputs.push(search.input);
      webSearch = search.options;
      ignoredFields.push(...search.ignored);
      continue;
    }
    if (policy !== undefined && type === 'mcp_toolset') {
      const toolset = readToolset(tool, index);
      toolsets.push(toolset);
      ignoredFields.push(...toolset.ignored);
      continue;
    }
    const known = clientTool({ ...tool, type });
    const { name } = tool as { name?: unknown };
    if (known === null || typeof name !== 'string') ignored.add(type);
    else inputs.push({ path, name, ...known });
  }
  const definitions = toToolDefinitions(inputs);
  checkToolSchemas(definitions);
  const hasServers = servers != null && !(Array.isArray(servers) && servers.length === 0);
  if (hasServers && policy === undefined) ignored.add('mcp_servers');
  if (hasServers && policy !== undefined && !betas.some((beta) => MCP_BETA.test(beta)))
    throw apiError(
      'unsupported_feature',
      'mcp_servers requires the header anthropic-beta: mcp-client-2025-04-04 or a later version of this beta.',
      'mcp_servers',
    );
  return {
    definitions,
    ignored: [...ignored],
    ignoredFields: [...new Set(ignoredFields)],
    mcp: policy === undefined ? [] : messagesMcp(servers, toolsets, policy, (name) => listedIn(messages, name)),
    ...(webSearch === undefined ? {} : { webSearch }),
  };
}

/** Returns the tools in the latest listing of an MCP server in the conversation, or null. */
function listedIn(messages: MessagesRequest['messages'], server: string): McpTool[] | null {
  for (const { content } of messages.toReversed()) {
    if (typeof content === 'string') continue;
    for (const block of content.toReversed()) {
      if (block.type !== 'mcp_tool_listing') continue;
      const { mcp_server_name: name, tools } = block as { mcp_server_name?: unknown; tools?: unknown };
      if (name === server && Array.isArray(tools)) return (tools as unknown[]).flatMap(listedTool);
    }
  }
  return null;
}

function listedTool(value: unknown): McpTool[] {
  if (!isRecord(value)) return [];
  const { name, description, input_schema: schema } = value;
  if (typeof name !== 'string' || name === '' || !isRecord(schema)) return [];
  return [toTool({ name, description: typeof description === 'string' ? description : null, input_schema: schema })];
}

/**
 * A deferred tool is shown after the conversation has referred to it. All deferred tools are shown if they could not be
 * found otherwise, because no other custom tool exists or the request relies on Anthropic's own tool search.
 */
function shownTools(
  tools: readonly WireTool[],
  messages: MessagesRequest['messages'],
  chosen: string | null,
): (tool: CustomTool) => boolean {
  const isDeferred = (tool: CustomTool): boolean => tool.defer_loading === true;
  if (tools.filter(isCustom).every(isDeferred)) return () => true;
  if (tools.some((tool) => !isCustom(tool) && isToolSearch(tool.type as string))) return () => true;
  const referred = new Set<string>(chosen === null ? [] : [chosen]);
  for (const { content } of messages) {
    if (typeof content === 'string') continue;
    for (const block of content) {
      if (block.type === 'tool_use') referred.add(block.name);
      if (block.type !== 'tool_result' || block.content == null || typeof block.content === 'string') continue;
      for (const inner of block.content) if (inner.type === 'tool_reference') referred.add(inner.tool_name);
    }
  }
  return (tool) => !isDeferred(tool) || referred.has(tool.name);
}
