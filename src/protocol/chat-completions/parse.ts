// Converts a chat completions request to a GenerationRequest, or throws the appropriate ApiError. No side effects.
// There are three stages: JSON structure (400), then the model lookup by the caller, then content (422).
import type { ErrorCode } from '../../shared/error-codes.js';
import { apiError } from '../../shared/errors.js';
import { checkOutputFormat, checkToolSchemas } from '../../generation/output-format.js';
import type { GenerationRequest, OutputFormat, ToolChoice, ToolDefinition } from '../../generation/types.js';
import { checkMetadata, toEvaluation, toSampling } from '../fields.js';
import { constrainedFormat, structuralTag } from '../constraints.js';
import { customTool } from '../custom-tools.js';
import type { ForeignThinking } from '../foreign-thinking.js';
import { ineffectiveInChat } from '../ineffective.js';
import { templateSettings, type TemplateSettings } from '../template-variables.js';
import { refuseSamplers } from '../samplers.js';
import { namesOne, toToolChoice, toToolDefinitions, type ToolInput } from '../tools.js';
import { chatSearch, type ReadSearch } from '../web-search.js';
import { validateInSlices } from '../validate-in-slices.js';
import { isRecord } from '../entry-limits.js';
import { validate, validateList } from '../validation.js';
import { overlong } from './bounds.js';
import { foreignReasoning, isEmptyTurn, toMessages } from './conversation.js';
import { checkFunctionFields, functionChoice, functionInputs } from './functions.js';
import {
  chatEnvelopeSchema,
  MAX_MESSAGES,
  messageSchema,
  type ChatEnvelopeFields,
  type ChatMessage,
} from './schema.js';

/**
 * `knows`: whether the model's chat template reads a variable. If absent, the template is assumed to read no
 * optional variables.
 */
export interface ContentLimits {
  maxN: number;
  knows?: ((variable: string) => boolean) | undefined;
  /** Whether this server runs web searches. */
  webSearch?: boolean | undefined;
}

export interface ParsedChat {
  model: string;
  /** Runs the checks that follow the model lookup. Throws ApiError 422. */
  content(limits: ContentLimits): ChatGeneration;
}

export interface ChatGeneration {
  request: GenerationRequest;
  stream: boolean;
  includeUsage: boolean;
  /** Whether every chunk reports the usage so far. */
  continuousUsage: boolean;
  includeReasoning: boolean;
  metadata: Record<string, string> | null;
  /** Whether to store the completion. */
  store: boolean;
  /** `user` or `safety_identifier`: the ID by which the client identifies its end user. */
  endUser: string | null;
  ignored: string[]; // fields without effect
  ignoredTools: string[]; // types of tools that were left out
  /** Whether a tool call is returned as `function_call`, because the request has `functions`. */
  callsFunctions: boolean;
}

/** Validates the entries of a large request in slices, ahead of parseChat(), which reports any errors. */
export function validateChatInSlices(body: unknown): Iterator<unknown> | null {
  if (
    !isRecord(body) ||
    !Array.isArray(body['messages']) ||
    body['messages'].length > MAX_MESSAGES ||
    overlong(body) !== null
  )
    return null;
  return validateInSlices(messageSchema, body['messages']);
}

/** Throws ApiError 400 for a body that is not a valid chat completions request. */
export function parseChat(body: unknown, foreignThinking: ForeignThinking = 'drop'): ParsedChat {
  const tooLong = overlong(body);
  if (tooLong !== null) throw tooLong;
  const envelope = validate(chatEnvelopeSchema, body);
  if (!envelope.ok && envelope.isShape) throw envelope.error;
  // At this point, `model` is a string and `messages` is a list, because structural errors were thrown above.
  const { model, messages: list } = body as { model: string; messages: unknown[] };
  const messages = list.length > MAX_MESSAGES ? null : validateList(messageSchema, list, 'messages');
  if (messages !== null && !messages.ok && messages.isShape) throw messages.error;
  const leftOut = messages?.ok === true ? foreignReasoning(messages.value) : [];
  const [first] = leftOut;
  if (first !== undefined && foreignThinking === 'reject')
    throw apiError('invalid_encrypted_content', `${first.path} could not be verified.`, first.path);
  return {
    model,
    content(limits) {
      if (messages !== null && !messages.ok) throw messages.error;
      if (!envelope.ok) throw envelope.error;
      refuseSamplers(body as Record<string, unknown>);
      const ignored = ineffectiveInChat(body as Record<string, unknown>);
      const chat = toGeneration(envelope.value, messages?.value ?? [], ignored, limits);
      return leftOut.length === 0 ? chat : { ...chat, request: { ...chat.request, leftOut } };
    },
  };
}

function refuse(code: ErrorCode, param: string, message: string): never {
  throw apiError(code, message, param);
}

function toGeneration(
  chat: ChatEnvelopeFields,
  chatMessages: readonly ChatMessage[],
  ignored: string[],
  limits: ContentLimits,
): ChatGeneration {
  refuseUnserved(chat);
  checkFunctionFields(chat);
  const searches = searchOptions(chat, limits);
  const n = chat.n ?? 1;
  if (n > limits.maxN) refuse('unsupported_value', 'n', `n must be at most ${limits.maxN} on this server.`);
  if (chat.stream_options && chat.stream !== true) {
    refuse('conflicting_parameters', 'stream_options', 'stream_options requires stream: true.');
  }
  if (chat.top_logprobs != null && chat.top_logprobs > 0 && chat.logprobs !== true) {
    refuse('conflicting_parameters', 'top_logprobs', 'top_logprobs requires logprobs: true.');
  }

  const messages = toMessages(chatMessages);
  if (messages.length === 0) refuse('missing_required_parameter', 'messages', 'messages must contain some content.');
  const last = chatMessages.at(-1);
  const continues = chat.continue_final_message === true;
  if (continues && chat.add_generation_prompt === true) {
    refuse(
      'conflicting_parameters',
      'add_generation_prompt',
      'add_generation_prompt and continue_final_message cannot both be true.',
    );
  }
  if (continues && (last?.role !== 'assistant' || last.tool_calls?.length || last.function_call != null)) {
    refuse(
      'conflicting_parameters',
      'continue_final_message',
      'continue_final_message requires the last message to be an assistant message without tool calls.',
    );
  }
  const { definitions: tools, ignored: ignoredTools, search } = toTools(chat, searches);
  const callsFunctions = chat.functions != null;
  const maxTokens = chat.max_completion_tokens ?? chat.max_tokens ?? null;
  const shown = limits.knows?.('verbosity') === true ? chat.verbosity : null;
  const named = [
    ...ignored,
    ...(chat.verbosity == null || shown !== null ? [] : ['verbosity']),
    ...(search?.ignored ?? []),
  ];
  const reasoning = reasoningSettings(chat, shown);
  return {
    request: {
      model: chat.model,
      messages,
      continueFinal: continues && last !== undefined && !isEmptyTurn(last),
      sampling: toSampling(chat),
      n,
      maxTokens,
      stop: typeof chat.stop === 'string' ? [chat.stop] : (chat.stop ?? []),
      topLogprobs: chat.logprobs === true ? (chat.top_logprobs ?? 0) : null,
      effort: reasoning.effort,
      reasoningBudget: thinkingBudget(chat),
      templateVariables: reasoning.variables,
      tools,
      toolChoice: callsFunctions ? functionChoice(tools, chat) : toChoice(tools, chat.tool_choice),
      parallelToolCalls: chat.parallel_tool_calls !== false && !namesOne(chat.tool_choice) && !callsFunctions,
      ...(search === null ? {} : { webSearch: search.options }),
      format: toFormat(chat),
      truncation: 'disabled',
      promptParam: 'messages',
      ignoreEos: chat.ignore_eos === true,
      ...(chat.prompt_cache_retention === '24h' ? { keepsPages: true } : {}),
      ...(chat.store === false ? { storesNothing: true } : {}),
      ...toEvaluation(chat, maxTokens),
      ...toPrediction(chat),
      ...(named.length === 0 ? {} : { ignored: named }),
    },
    stream: chat.stream === true,
    includeUsage: chat.stream_options?.include_usage === true,
    continuousUsage: chat.stream_options?.continuous_usage_stats === true,
    includeReasoning: chat.include_reasoning !== false,
    metadata: checkMetadata(chat.metadata),
    store: chat.store === true,
    endUser: chat.safety_identifier ?? chat.user ?? null,
    ignored: named,
    ignoredTools,
    callsFunctions,
  };
}

function toPrediction({ prediction }: ChatEnvelopeFields): Pick<GenerationRequest, 'prediction'> {
  const content = prediction?.content ?? '';
  const text = typeof content === 'string' ? content : content.map((part) => part.text).join('');
  return text === '' ? {} : { prediction: text };
}

/** Rejects known fields that this server does not support, unless their value has no effect. */
function refuseUnserved(chat: ChatEnvelopeFields): void {
  for (const name of ['audio', 'moderation'] as const) {
    if (chat[name] != null) refuse('unsupported_feature', name, `${name} is not supported.`);
  }
  if (chat.modalities?.includes('audio')) refuse('unsupported_feature', 'modalities', 'modalities must be ["text"].');
  if (chat.modalities?.length === 0) refuse('invalid_value', 'modalities', 'modalities must have at least 1 entry.');
}

/** Returns null if no web search was requested. */
function searchOptions({ web_search_options: options, n }: ChatEnvelopeFields, limits: ContentLimits): object | null {
  if (options == null) return null;
  if (limits.webSearch !== true)
    refuse('unsupported_feature', 'web_search_options', 'web_search_options is not supported.');
  if (n != null && n > 1) refuse('conflicting_parameters', 'n', 'n must be 1 with web_search_options.');
  return options;
}

/** Leaves out tools of other types. Throws the same ApiErrors as the shared tool and schema checks. */
function toTools(
  chat: ChatEnvelopeFields,
  searches: object | null,
): { definitions: ToolDefinition[]; ignored: string[]; search: ReadSearch | null } {
  const ignored = new Set<string>();
  const inputs = (chat.tools ?? []).flatMap((tool, index): ToolInput | [] => {
    if ('function' in tool) return { path: `tools[${index}].function`, ...tool.function };
    if (!('custom' in tool)) {
      if (tool.type === 'mcp')
        refuse(
          'unsupported_feature',
          `tools[${index}].type`,
          'MCP tools are not supported in Chat Completions. Use the Responses or the Messages API.',
        );
      ignored.add(tool.type);
      return [];
    }
    const path = `tools[${index}].custom`;
    const format = tool.custom.format ?? { type: 'text' };
    const grammar = format.type === 'text' ? null : { ...format.grammar, path: `${path}.format.grammar.definition` };
    return customTool(tool.custom, grammar, path);
  });
  inputs.push(...functionInputs(chat));
  const search = searches === null ? null : chatSearch(searches, new Set(inputs.map(({ name }) => name)));
  const tools = toToolDefinitions(search === null ? inputs : [...inputs, search.input]);
  checkToolSchemas(tools);
  return { definitions: tools, ignored: [...ignored], search };
}

function toChoice(tools: readonly ToolDefinition[], choice: ChatEnvelopeFields['tool_choice']): ToolChoice {
  if (choice == null || typeof choice === 'string') return toToolChoice(tools, choice ?? null, null);
  if (choice.type !== 'allowed_tools') return toToolChoice(tools, 'required', [nameIn(tools, choice)]);
  const names = choice.allowed_tools.tools.map((tool) =>
    'function' in tool || 'custom' in tool
      ? nameIn(tools, tool)
      : refuse(
          'tool_not_found',
          'tool_choice',
          `tool_choice names a tool of type ${JSON.stringify(tool.type.slice(0, 64))}, which this server ignores.`,
        ),
  );
  return toToolChoice(tools, choice.allowed_tools.mode, names);
}

/** Returns the name of the tool. Throws ApiError tool_not_found if no tool of this type has the name. */
function nameIn(
  tools: readonly ToolDefinition[],
  named: { function: { name: string } } | { custom: { name: string } },
): string {
  const isCustom = 'custom' in named;
  const { name } = isCustom ? named.custom : named.function;
  const found = tools.find((tool) => tool.name === name);
  if (found === undefined || (found.custom !== undefined) === isCustom) return name;
  return refuse(
    'tool_not_found',
    'tool_choice',
    `tool_choice names a ${isCustom ? 'custom tool' : 'function'} that is not in tools.`,
  );
}

/** Throws ApiError invalid_json_schema or invalid_value. */
export function toFormat(fields: Parameters<typeof constrainedFormat>[0] & FormatField): OutputFormat {
  const format = constrainedFormat(fields, namedFormat(fields.response_format), 'response_format');
  checkOutputFormat(format);
  return format;
}

type FormatField = { readonly response_format?: ChatEnvelopeFields['response_format'] };

function namedFormat(asked: ChatEnvelopeFields['response_format']): OutputFormat {
  switch (asked?.type) {
    case 'json_schema': {
      const { name, schema, strict } = asked.json_schema;
      return { type: 'json_schema', name, schema, strict: strict === true, path: 'response_format.json_schema.schema' };
    }
    case 'regex':
      return { type: 'regex', pattern: asked.pattern, path: 'response_format.pattern' };
    case 'grammar':
      return { type: 'grammar', grammar: asked.grammar, path: 'response_format.grammar' };
    case 'choice':
      return { type: 'choice', choices: asked.choices, path: 'response_format.choices' };
    case 'json_object':
      if (asked.schema == null) return { type: 'json_object' };
      return { type: 'json_schema', name: null, schema: asked.schema, strict: false, path: 'response_format.schema' };
    case 'structural_tag':
      throw structuralTag('response_format');
    default:
      return { type: 'text' };
  }
}

/** `thinking` as a boolean is a template variable; as an object, it turns thinking on or off. */
function reasoningSettings(chat: ChatEnvelopeFields, verbosity: ChatEnvelopeFields['verbosity']): TemplateSettings {
  const { reasoning_effort: effort, thinking, enable_thinking, preserve_thinking } = chat;
  const object = typeof thinking === 'object' ? thinking : null;
  const on = object === null ? null : object.type !== 'disabled';
  const settings = templateSettings(chat.chat_template_kwargs, {
    parameters: {
      enable_thinking,
      preserve_thinking,
      verbosity,
      thinking: typeof thinking === 'boolean' ? thinking : null,
      clear_thinking: chat.clear_thinking ?? object?.clear_thinking,
    },
    effort: effort == null ? null : { value: effort, param: 'reasoning_effort' },
    thinking: on === null ? null : { on, param: 'thinking' },
  });
  if (on === null) return settings;
  if (settings.effort !== null && on !== (settings.effort !== 'none'))
    refuse('conflicting_parameters', 'thinking', 'thinking and reasoning_effort contradict each other.');
  return { ...settings, effort: settings.effort ?? (on ? 'enabled' : 'none') };
}

function thinkingBudget({ thinking }: ChatEnvelopeFields): number | null {
  if (typeof thinking !== 'object' || thinking === null || thinking.type === 'disabled') return null;
  return thinking.budget_tokens ?? null;
}
