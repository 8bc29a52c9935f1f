// The response resource and its output items. All fields are always present, because validators and typed clients
// require them. No side effects.
import type { McpError } from '../../generation/mcp/types.js';
import type { OutputFormat } from '../../generation/types.js';
import type { ResponseStatus } from '../../storage/response-store.js';
import type { WireMcpTool } from '../mcp.js';
import type { Usage } from '../usage.js';
import type { PromptCacheDiagnostics } from './diagnostics.js';

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

export interface WireLogprob {
  token: string;
  logprob: number;
  bytes: number[];
}
export interface WireTokenLogprob extends WireLogprob {
  top_logprobs: WireLogprob[];
}

export interface OutputTextPart {
  type: 'output_text';
  text: string;
  annotations: never[];
  logprobs: WireTokenLogprob[];
}

export interface MessageItem {
  id: string;
  type: 'message';
  status: ItemStatus;
  role: 'assistant';
  content: OutputTextPart[];
}
export interface FunctionCallItem {
  id: string;
  type: 'function_call';
  status: ItemStatus;
  call_id: string;
  name: string;
  namespace?: string;
  arguments: string;
}
export interface CustomToolCallItem {
  id: string;
  type: 'custom_tool_call';
  status: ItemStatus;
  call_id: string;
  name: string;
  namespace?: string;
  input: string;
}
export interface ReasoningItem {
  id: string;
  type: 'reasoning';
  status: ItemStatus;
  summary: { type: 'summary_text'; text: string }[];
  content?: { type: 'reasoning_text'; text: string }[];
  encrypted_content?: string;
}
/** A summary that replaces all items before it. */
export interface CompactionItem {
  id: string;
  type: 'compaction';
  encrypted_content: string;
}
export interface WebSearchItem {
  id: string;
  type: 'web_search_call';
  status: 'in_progress' | 'completed' | 'failed';
  action: {
    type: 'search';
    query: string;
    queries: string[];
    sources?: { type: 'url'; url: string }[];
  };
  results?: { title: string; url: string; text: string }[];
}
/** The tools of an MCP server that are offered to the model. */
export interface McpListItem {
  id: string;
  type: 'mcp_list_tools';
  server_label: string;
  tools: { name: string; description: string | null; input_schema: object; annotations: object | null }[];
  /** Why the server's tools could not be listed. */
  error?: string;
}
/** A call of an MCP tool that this server has run. */
export interface McpCallItem {
  id: string;
  type: 'mcp_call';
  status: 'in_progress' | 'completed' | 'incomplete' | 'failed';
  server_label: string;
  name: string;
  arguments: string;
  approval_request_id: string | null;
  output: string | null;
  error: McpError | null;
}
/** A call of an MCP tool that runs when the client approves it. */
export interface McpApprovalRequestItem {
  id: string;
  type: 'mcp_approval_request';
  server_label: string;
  name: string;
  arguments: string;
}
export type OutputItem =
  | MessageItem
  | FunctionCallItem
  | CustomToolCallItem
  | ReasoningItem
  | CompactionItem
  | WebSearchItem
  | McpListItem
  | McpCallItem
  | McpApprovalRequestItem;

export type WireTool =
  | ({ name: string; namespace?: string; description: string | null } & (
      | { type: 'function'; parameters: object | null; strict: boolean | null }
      | { type: 'custom'; format: WireCustomFormat }
    ))
  | {
      type: string; // web_search or one of its versions
      filters: { allowed_domains: readonly string[] | null; blocked_domains?: readonly string[] } | null;
      search_context_size: 'medium';
      user_location: null;
    }
  | WireMcpTool;
export type WireCustomFormat = { type: 'text' } | { type: 'grammar'; syntax: 'lark' | 'regex'; definition: string };

export interface WireToolName {
  type: 'function' | 'custom';
  name: string;
  namespace?: string;
}
/** All tools of an MCP server, or one of them. */
export interface WireMcpChoice {
  type: 'mcp';
  server_label: string;
  name?: string;
}
export type WireToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | WireToolName
  | { type: string } // web search
  | WireMcpChoice
  | { type: 'allowed_tools'; mode: 'auto' | 'required'; tools: (WireToolName | WireMcpChoice | { type: string })[] };

export type WireFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | { type: 'json_schema'; name: string; description: string | null; schema: object; strict: boolean };

/** The request fields that the response resource repeats. */
export interface ResourceEcho {
  background: boolean;
  instructions: string | null;
  model: string;
  previous_response_id: string | null;
  conversation: { id: string } | null;
  tools: WireTool[];
  tool_choice: WireToolChoice;
  parallel_tool_calls: boolean;
  max_tool_calls: number | null;
  max_output_tokens: number | null;
  temperature: number;
  top_p: number;
  presence_penalty: number;
  frequency_penalty: number;
  top_logprobs: number;
  truncation: 'auto' | 'disabled';
  text: { format: WireFormat; verbosity?: 'low' | 'medium' | 'high' };
  reasoning: { effort: string | null; summary: 'auto' | 'concise' | 'detailed' | null };
  store: boolean;
  metadata: Record<string, string>;
  safety_identifier: string | null;
  prompt_cache_key: string | null;
  user: string | null;
}

export interface WireUsage {
  input_tokens: number;
  input_tokens_details: { cached_tokens: number; cache_write_tokens: number };
  output_tokens: number;
  output_tokens_details: { reasoning_tokens: number };
  total_tokens: number;
}

export interface ResponseResource extends ResourceEcho {
  id: string;
  object: 'response';
  created_at: number; // seconds
  completed_at: number | null;
  status: ResponseStatus;
  error: { code: 'server_error' | 'rate_limit_exceeded'; message: string } | null;
  incomplete_details: { reason: 'max_output_tokens' } | null;
  output: OutputItem[];
  service_tier: 'default';
  usage: WireUsage | null;
  /** Present if the client requested a comparison and the generation has started. */
  prompt_cache_diagnostics?: PromptCacheDiagnostics;
  /** Present if web searches were run. */
  tool_usage?: WireToolUsage;
}

export interface WireToolUsage {
  image_gen: object;
  web_search: { num_requests: number };
}

/** Returns the resource for a response that starts now. */
export function newResource(id: string, createdAt: number, echo: ResourceEcho): ResponseResource {
  const { background, instructions, model, previous_response_id, ...rest } = echo;
  return {
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: null,
    status: background ? 'queued' : 'in_progress',
    background,
    error: null,
    incomplete_details: null,
    instructions,
    model,
    previous_response_id,
    output: [],
    ...rest,
    service_tier: 'default',
    usage: null,
  };
}

export function wireUsage(usage: Usage): WireUsage {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens, cache_write_tokens: 0 },
    output_tokens: usage.completionTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: usage.promptTokens + usage.completionTokens,
  };
}

/** Clients expect counts for all tools, even for tools that this server does not provide. */
export const wireToolUsage = (searches: number): WireToolUsage => ({
  image_gen: {
    input_tokens: 0,
    input_tokens_details: { image_tokens: 0, text_tokens: 0 },
    output_tokens: 0,
    total_tokens: 0,
  },
  web_search: { num_requests: searches },
});

export function wireFormat(format: OutputFormat, description: string | null): WireFormat {
  if (format.type === 'text' || format.type === 'json_object') return format;
  if (format.type !== 'json_schema')
    throw new Error(`the responses format does not support text.format of type ${format.type}`);
  return { type: 'json_schema', name: format.name ?? '', description, schema: format.schema, strict: format.strict };
}
