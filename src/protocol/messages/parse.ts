// Converts a Messages request to a GenerationRequest, or throws the appropriate ApiError. No side effects. There are
// two stages, between which the caller looks up the model: JSON structure and returned thinking blocks (400), then
// content (422).
import { isDeepStrictEqual } from 'node:util';
import type { ErrorCode } from '../../shared/error-codes.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { checkOutputFormat } from '../../generation/output-format.js';
import type { McpChoice, McpServer } from '../../generation/mcp/types.js';
import type { ServedModel } from '../../generation/served-models.js';
import { inOrder, seenBy, type Seen } from '../../generation/thoughts.js';
import type { GenerationRequest, OutputFormat, ToolChoice, ToolDefinition } from '../../generation/types.js';
import { withAllThinking } from '../context/clear-thinking.js';
import type { ContextEdits } from '../context/edits.js';
import { toSampling } from '../fields.js';
import { constrainedFormat } from '../constraints.js';
import { ineffectiveInMessages } from '../ineffective.js';
import { refuseSamplers } from '../samplers.js';
import { mcpServerNames, type McpPolicy } from '../mcp.js';
import { toToolChoice } from '../tools.js';
import { validateInSlices } from '../validate-in-slices.js';
import { isRecord } from '../entry-limits.js';
import { validate } from '../validation.js';
import { overlong } from './bounds.js';
import { countTokensSchema, messageSchema, messagesRequestSchema, type MessagesRequest } from './schema.js';
import { readContextEdits } from './context-management.js';
import { isThinking, openThinkingBlocks, thinkingSettings, type ThinkingPolicy } from './thinking.js';
import { toMessages, toTurns } from './conversation.js';
import { readTools } from './tools.js';

export interface ParsedMessages {
  model: string;
  /**
   * Runs the checks that follow the model lookup. `model`: the name and aliases of the model that was found. Throws
   * ApiError 422.
   */
  content(model?: ModelNames): MessagesGeneration;
}

export type ModelNames = Pick<ServedModel, 'name' | 'asked'>;

export interface MessagesGeneration {
  request: GenerationRequest;
  stream: boolean;
  /** If false, thinking is returned only in encrypted form, in its signature. */
  visibleThinking: boolean;
  userId: string | null;
  /** Null if the request has no `context_management`. */
  edits: ContextEdits | null;
  /** The ID of the message whose prompt is compared with this request's prompt; null if none. */
  comparedId: string | null;
  ignored: string[]; // fields without effect
  ignoredTools: string[]; // types of tools that were left out
}

export interface ParsePolicy extends ThinkingPolicy {
  /** Whether this server runs web searches. */
  webSearch?: boolean | undefined;
  /** Absent if this server uses no MCP servers. */
  mcp?: McpPolicy;
  /** The values of the `anthropic-beta` header, if any. */
  betas?: readonly string[] | undefined;
}

/** Validates the entries of a large request in slices, ahead of parseMessages(), which reports any errors. */
export function validateMessagesInSlices(body: unknown): Iterator<unknown> | null {
  if (!isRecord(body) || !Array.isArray(body['messages']) || overlong(body) !== null) return null;
  return validateInSlices(messageSchema, body['messages']);
}

/**
 * `purpose` is 'count' for /v1/messages/count_tokens. Throws ApiError 400 for a body that is not a valid messages
 * request.
 */
export function parseMessages(body: unknown, policy: ParsePolicy, purpose: 'generate' | 'count'): ParsedMessages {
  const tooLong = overlong(body);
  if (tooLong !== null) throw tooLong;
  if (purpose === 'count') {
    const result = validate(countTokensSchema, body);
    return parsed(result.ok ? result.value : result, body, policy, {
      maxTokens: result.ok ? (result.value.max_tokens ?? null) : null,
      stream: false,
      generates: false,
    });
  }
  const result = validate(messagesRequestSchema, body);
  return parsed(
    result.ok ? result.value : result,
    body,
    policy,
    result.ok
      ? { maxTokens: result.value.max_tokens, stream: result.value.stream === true, generates: true }
      : NO_OUTPUT,
  );
}

/** Fields that control the output. `maxTokens`: null if the request sets no limit. */
interface Output {
  maxTokens: number | null;
  stream: boolean;
  generates: boolean;
}
const NO_OUTPUT: Output = { maxTokens: null, stream: false, generates: false };

type Invalid = Extract<ReturnType<typeof validate>, { ok: false }>;

function parsed(result: MessagesRequest | Invalid, body: unknown, policy: ParsePolicy, output: Output): ParsedMessages {
  if ('error' in result) {
    if (result.isShape) throw result.error;
    return {
      model: (body as { model: string }).model,
      content: () => {
        throw result.error;
      },
    };
  }
  const thinking = openThinkingBlocks(result, policy);
  const foreign = new Set(thinking.foreign.keys());
  if (toTurns(result.messages, foreign).length === 0) throw noContent();
  return {
    model: result.model,
    content: (model = { name: result.model, asked: result.model }) => {
      refuseSamplers(body as Record<string, unknown>);
      const names = [model.asked, model.name];
      const mcpServers = policy.mcp === undefined ? new Set<string>() : mcpServerNames(result.mcp_servers);
      const others = [...thinking.opened].filter(([, { model: writer }]) => !names.includes(writer));
      const turns = toTurns(result.messages, new Set([...foreign, ...others.map(([block]) => block)]), mcpServers);
      if (turns.length === 0) throw noContent();
      const edits = readContextEdits(result.context_management, isThinking(result.thinking));
      const given = toMessages(turns, result.system, thinking, mcpServers);
      const { messages } = seenBy(edits?.keptThinkingTurns == null ? given : withAllThinking(given), names);
      const leftOut = inOrder(
        [...thinking.foreign.values()].map((path) => ({ path, reason: 'foreign' as const })),
        others.map(([, { path }]) => ({ path, reason: 'other_model' as const })),
      );
      const ignored = ineffectiveInMessages(body as Record<string, unknown>);
      return { ...toGeneration(result, { messages, leftOut }, ignored, output, policy), edits };
    },
  };
}

const noContent = (): ApiError =>
  apiError('missing_required_parameter', 'messages must contain some content.', 'messages');

function refuse(code: ErrorCode, param: string, message: string): never {
  throw apiError(code, message, param);
}

function toGeneration(
  wire: MessagesRequest,
  { messages, leftOut }: Seen,
  unread: string[],
  { maxTokens, stream, generates }: Output,
  policy: Pick<ParsePolicy, 'webSearch' | 'mcp' | 'betas'>,
): Omit<MessagesGeneration, 'edits'> {
  refuseUnserved(wire);
  const thinking = thinkingSettings(wire, generates ? maxTokens : null);
  const { effort, promptEffort, reasoningBudget, templateVariables, visible } = thinking;
  const format = outputFormat(wire);
  const { definitions: tools, ignored: ignoredTools, ignoredFields, webSearch, mcp } = readTools(wire, policy);
  const ignored = [...unread, ...ignoredFields];
  checkOutputFormat(format);

  const last = messages.at(-1);
  const continueFinal = last?.role === 'assistant';
  if (continueFinal && effort !== 'none') {
    refuse(
      'conflicting_parameters',
      'thinking',
      'thinking cannot be enabled if the last message has the role assistant.',
    );
  }
  if (continueFinal && format.type !== 'text') {
    const param = 'path' in format ? format.path.replace(/\.schema$/, '') : 'structured_outputs';
    refuse('conflicting_parameters', param, `${param} cannot be used if the last message has the role assistant.`);
  }
  return {
    request: {
      model: wire.model,
      messages,
      continueFinal: continueFinal && last.content !== '',
      sampling: sampling(wire),
      n: 1,
      maxTokens,
      stop: wire.stop_sequences ?? [],
      topLogprobs: null,
      effort,
      promptEffort,
      reasoningBudget,
      templateVariables,
      tools,
      toolChoice: toolChoice(wire, tools, mcp),
      parallelToolCalls: !(
        wire.tool_choice != null &&
        wire.tool_choice.type !== 'none' &&
        wire.tool_choice.disable_parallel_tool_use === true
      ),
      ...(webSearch === undefined ? {} : { webSearch }),
      ...(mcp.length === 0 ? {} : { mcp: { servers: mcp, approved: [], choice: mcpChoice(wire), maxCalls: null } }),
      format,
      truncation: 'disabled',
      promptParam: 'messages',
      ignoreEos: wire.ignore_eos === true,
      ...(leftOut.length === 0 ? {} : { leftOut }),
      ...(ignored.length === 0 ? {} : { ignored }),
    },
    stream,
    visibleThinking: visible,
    userId: wire.metadata?.user_id ?? null,
    comparedId: wire.diagnostics?.previous_message_id ?? null,
    ignored,
    ignoredTools,
  };
}

/** Rejects known fields that this server does not support, unless their value has no effect. */
function refuseUnserved(wire: MessagesRequest): void {
  const { container } = wire;
  if (container != null && !(Array.isArray(container) && container.length === 0))
    refuse('unsupported_feature', 'container', 'container is not supported.');
  if (wire.thread == null) return;
  // Anthropic's tool runner sends `thread` in its first request. If it receives this error code, it continues without
  // `thread`.
  throw apiError('unsupported_feature', 'thread is not supported; send the whole conversation without it.', 'thread', {
    messagesCode: 'thread_unsupported_request',
  });
}

const MAX_TOP_K = 1_000;

function sampling(wire: MessagesRequest): GenerationRequest['sampling'] {
  return toSampling({ ...wire, top_k: wire.top_k == null ? wire.top_k : Math.min(wire.top_k, MAX_TOP_K) });
}

function outputFormat(wire: MessagesRequest): OutputFormat {
  const { output_config: config, output_format: older } = wire;
  const format = config?.format ?? null;
  if (format !== null && older != null && !isDeepStrictEqual(format, older)) {
    refuse(
      'conflicting_parameters',
      'output_config.format',
      'output_config.format and output_format differ; use only one of them.',
    );
  }
  const chosen = format ?? older;
  const path = format === null ? 'output_format' : 'output_config.format';
  const own: OutputFormat =
    chosen == null
      ? { type: 'text' }
      : { type: 'json_schema', name: null, schema: chosen.schema, strict: true, path: `${path}.schema` };
  return constrainedFormat(wire, own, path);
}

const MODES = { auto: 'auto', any: 'required', tool: 'required', none: 'none' } as const;

/** MCP tools have the names shown to the model. They are checked when the tools are known. */
function mcpChoice({ tool_choice: choice }: MessagesRequest): McpChoice {
  if (choice == null) return { mode: 'auto', allowed: null };
  const allowed = choice.type === 'tool' ? { names: [choice.name], tools: [] } : null;
  return { mode: MODES[choice.type], allowed };
}

function toolChoice(
  { tool_choice: choice }: MessagesRequest,
  tools: readonly ToolDefinition[],
  mcp: readonly McpServer[],
): ToolChoice {
  if (mcp.length > 0) return { mode: tools.length === 0 || choice?.type === 'none' ? 'none' : 'auto', allowed: null };
  return toToolChoice(
    tools,
    choice == null ? null : MODES[choice.type],
    choice?.type === 'tool' ? [choice.name] : null,
  );
}
