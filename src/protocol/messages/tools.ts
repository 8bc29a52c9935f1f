// Reads the tools of a Messages request: the tools that the model sees, and the types of the tools that are left out.
// No side effects.
import { apiError } from '../../shared/errors.js';
import { checkToolSchemas } from '../../generation/output-format.js';
import type { ToolDefinition } from '../../generation/types.js';
import type { WebSearchOptions } from '../../generation/web-search/search-options.js';
import { toToolDefinitions, type ToolInput } from '../tools.js';
import { isMessagesSearch, messagesSearch } from '../web-search.js';
import type { MessagesRequest, WireTool } from './schema.js';
import { clientTool, isToolSearch } from './vendor-tools.js';

export interface ReadTools {
  definitions: ToolDefinition[];
  /** Types of the tools that were left out, without duplicates. */
  ignored: string[];
  /** Present if this server runs the request's web search tool. */
  webSearch?: WebSearchOptions;
  /** Paths of fields without effect. */
  ignoredFields: readonly string[];
}

type CustomTool = Extract<WireTool, { input_schema: unknown }>;

const isCustom = (tool: WireTool): tool is CustomTool => 'input_schema' in tool && (tool.type ?? 'custom') === 'custom';

/** `searches`: whether this server runs web searches. Throws ApiError 422 for invalid names or schemas. */
export function readTools({ tools, messages, tool_choice: choice }: MessagesRequest, searches: boolean): ReadTools {
  const inputs: ToolInput[] = [];
  const ignored = new Set<string>();
  let webSearch: WebSearchOptions | undefined;
  let ignoredFields: readonly string[] = [];
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
      ignoredFields = search.ignored;
      continue;
    }
    const known = clientTool({ ...tool, type });
    const { name } = tool as { name?: unknown };
    if (known === null || typeof name !== 'string') ignored.add(type);
    else inputs.push({ path, name, ...known });
  }
  const definitions = toToolDefinitions(inputs);
  checkToolSchemas(definitions);
  return { definitions, ignored: [...ignored], ignoredFields, ...(webSearch === undefined ? {} : { webSearch }) };
}

/**
 * A deferred tool is shown after the conversation has referred to it. All deferred tools are shown if nothing on this
 * server could find them: no other custom tool exists, or the request relies on Anthropic's own tool search.
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
