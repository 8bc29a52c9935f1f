// Chat completions request → GenerationRequest, or the precise error. Pure. Three stages in the order the
// contract gives the checks: shape (400), then the caller looks the model up, then content (422).
import { apiError, type ErrorCode } from '../../errors.js';
import type { GenerationRequest, Message, ToolCall } from '../../generation/types.js';
import { validate } from '../validation.js';
import { overlong } from './bounds.js';
import { chatRequestSchema, KNOWN_FIELDS, type ChatMessage, type ChatRequest } from './schema.js';

/** Below it the engine would divide by next to nothing. */
const MIN_REPETITION_PENALTY = 0.01;
/** 2^63 - 1 reads as 2^63, which is one too many: the double before it stands for both. */
const LARGEST_SEED = 2 ** 63 - 1_024;

export interface ParsedChat {
  model: string;
  /** Completes the checks that come after the model's; throws ApiError (422). */
  content(limits: { maxN: number }): ChatGeneration;
}

export interface ChatGeneration {
  request: GenerationRequest;
  stream: boolean;
  includeUsage: boolean;
  includeReasoning: boolean;
  metadata: Record<string, string> | null;
  ignored: string[];            // top-level fields this format does not know
}

/** Throws ApiError for a body that is not a chat completions request at all (400). */
export function parseChat(body: unknown): ParsedChat {
  const tooLong = overlong(body);
  if (tooLong !== null) throw tooLong;
  const result = validate(chatRequestSchema, body);
  if (!result.ok && result.isShape) throw result.error;
  // From here on the body is an object with a string model, or validation would have failed by shape.
  const { model } = body as { model: string };
  return {
    model,
    content(limits) {
      if (!result.ok) throw result.error;
      return toGeneration(result.value, body as Record<string, unknown>, limits);
    },
  };
}

function refuse(code: ErrorCode, param: string, message: string): never {
  throw apiError(code, message, param);
}

function toGeneration(chat: ChatRequest, body: Record<string, unknown>, limits: { maxN: number }): ChatGeneration {
  refuseUnserved(chat);
  const n = chat.n ?? 1;
  if (n > limits.maxN) refuse('unsupported_value', 'n', `n may be at most ${limits.maxN} on this server.`);
  if (chat.stream_options && chat.stream !== true) {
    refuse('conflicting_parameters', 'stream_options', 'stream_options needs stream: true.');
  }
  if (chat.top_logprobs != null && chat.top_logprobs > 0 && chat.logprobs !== true) {
    refuse('conflicting_parameters', 'top_logprobs', 'top_logprobs needs logprobs: true.');
  }
  if (Array.isArray(chat.stop) && chat.stop.length === 0) refuse('invalid_value', 'stop', 'stop must have at least 1 entry.');

  const messages = toMessages(chat.messages);
  const last = chat.messages.at(-1);
  const continueFinal = chat.continue_final_message === true;
  if (continueFinal && (last?.role !== 'assistant' || last.tool_calls?.length)) {
    refuse('conflicting_parameters', 'continue_final_message',
      'continue_final_message needs an assistant message without tool calls at the end of messages.');
  }
  return {
    request: {
      model: chat.model,
      messages,
      continueFinal,
      sampling: {
        temperature: chat.temperature ?? undefined,
        topP: chat.top_p ?? undefined,
        topK: chat.top_k == null ? undefined : Math.max(0, chat.top_k),
        minP: chat.min_p ?? undefined,
        repetitionPenalty: chat.repetition_penalty == null ? undefined : Math.max(chat.repetition_penalty, MIN_REPETITION_PENALTY),
        frequencyPenalty: chat.frequency_penalty ?? undefined,
        presencePenalty: chat.presence_penalty ?? undefined,
        seed: chat.seed == null ? undefined : BigInt.asIntN(64, BigInt(Math.min(chat.seed, LARGEST_SEED))),
        logitBias: toLogitBias(chat.logit_bias),
      },
      n,
      maxTokens: chat.max_completion_tokens ?? chat.max_tokens ?? null,
      stop: typeof chat.stop === 'string' ? [chat.stop] : chat.stop ?? [],
      topLogprobs: chat.logprobs === true ? chat.top_logprobs ?? 0 : null,
      effort: effortOf(chat),
      ignoreEos: chat.ignore_eos === true,
    },
    stream: chat.stream === true,
    includeUsage: chat.stream_options?.include_usage === true,
    includeReasoning: chat.include_reasoning !== false,
    metadata: chat.metadata ?? null,
    ignored: Object.keys(body).filter((name) => !KNOWN_FIELDS.has(name)),
  };
}

/** Known fields whose meaning this server does not offer: neutral values pass, others are refused by name. */
function refuseUnserved(chat: ChatRequest): void {
  for (const name of ['audio', 'web_search_options', 'moderation'] as const) {
    if (chat[name] != null) refuse('unsupported_feature', name, `${name} is not offered.`);
  }
  for (const name of ['functions', 'function_call'] as const) {
    if (chat[name] != null) refuse('unsupported_parameter', name, `${name} is not supported; use tools.`);
  }
  if (chat.modalities?.includes('audio')) refuse('unsupported_feature', 'modalities', 'modalities may only be ["text"].');
  if (chat.modalities?.length === 0) refuse('invalid_value', 'modalities', 'modalities must have at least 1 entry.');
  if (chat.metadata != null) {
    const entries = Object.entries(chat.metadata);
    if (entries.length > 16) refuse('too_many_entries', 'metadata', 'metadata may have at most 16 pairs.');
    if (entries.some(([key]) => key.length > 64)) refuse('string_too_long', 'metadata', 'metadata keys may have at most 64 characters.');
  }
  chat.tools?.forEach(({ type }, index) => {
    if (type !== 'function') refuse('unsupported_tool_type', `tools[${index}].type`, `tools[${index}].type may only be "function".`);
  });
  if (chat.tools?.length) refuse('unsupported_feature', 'tools', 'Tools are not offered by this release.');
  if (chat.tool_choice === 'required') refuse('conflicting_parameters', 'tool_choice', 'tool_choice demands a tool call, but tools is empty.');
  if (typeof chat.tool_choice === 'object' && chat.tool_choice !== null) {
    refuse('tool_not_found', 'tool_choice', 'tool_choice names a tool that is not in tools.');
  }
  if (chat.response_format != null && chat.response_format.type !== 'text') {
    refuse('unsupported_feature', 'response_format', 'Structured output is not offered by this release; response_format may only be {"type":"text"}.');
  }
}

function effortOf(chat: ChatRequest): GenerationRequest['effort'] {
  if (chat.reasoning_effort != null) return chat.reasoning_effort;
  const thinking = chat.chat_template_kwargs?.enable_thinking;
  if (thinking === false) return 'none';
  return thinking === true ? 'enabled' : null;
}

function toLogitBias(bias: ChatRequest['logit_bias']): GenerationRequest['sampling']['logitBias'] {
  if (bias == null) return undefined;
  const entries = Object.entries(bias);
  if (entries.length > 1_024) refuse('too_many_entries', 'logit_bias', 'logit_bias may have at most 1024 entries.');
  return entries.map(([key, value]) => {
    const token = /^(0|[1-9]\d{0,8})$/.test(key) ? Number(key) : -1;
    if (token < 0) refuse('invalid_value', 'logit_bias', 'logit_bias keys must be decimal token ids.');
    return { token, bias: value };
  });
}

function toMessages(messages: readonly ChatMessage[]): Message[] {
  checkToolTurns(messages);
  return messages.map((message, index): Message => {
    const path = `messages[${index}]`;
    switch (message.role) {
      case 'system':
      case 'developer':
        return { role: 'system', content: joinText(message.content, `${path}.content`), name: message.name ?? undefined };
      case 'user':
        return { role: 'user', content: joinText(message.content, `${path}.content`), name: message.name ?? undefined };
      case 'tool':
        return { role: 'tool', content: joinText(message.content, `${path}.content`), toolCallId: message.tool_call_id };
      case 'function':
        return refuse('unsupported_parameter', `${path}.role`, 'The function role is not supported; use tool messages.');
      case 'assistant': {
        const content = message.content == null ? null : joinText(message.content, `${path}.content`);
        return {
          role: 'assistant',
          content: content ?? message.refusal ?? null,
          reasoning: message.reasoning_content ?? undefined,
          toolCalls: message.tool_calls?.map((call, at) => toToolCall(call, `${path}.tool_calls[${at}]`)),
          name: message.name ?? undefined,
        };
      }
    }
  });
}

type ChatToolCall = NonNullable<Extract<ChatMessage, { role: 'assistant' }>['tool_calls']>[number];

function toToolCall(call: ChatToolCall, path: string): ToolCall {
  if (call.type === 'custom') return refuse('unsupported_tool_type', `${path}.type`, 'Custom tool calls are not supported.');
  return { id: call.id, name: call.function.name, arguments: call.function.arguments };
}

type ContentPart = { type: 'text'; text: string } | { type: 'refusal'; refusal: string } | { type: 'image_url' | 'input_audio' | 'file' };

function joinText(content: string | readonly ContentPart[], path: string): string {
  if (typeof content === 'string') return content;
  return content.map((part, index) => {
    if (part.type === 'text') return part.text;
    if (part.type === 'refusal') return part.refusal;
    return refuse('unsupported_content', `${path}[${index}]`, `${path}[${index}]: this model takes text only, not ${part.type}.`);
  }).join('');
}

/** Every call is answered before the next message that is no tool message, and only calls are answered. */
function checkToolTurns(messages: readonly ChatMessage[]): void {
  let open = new Map<string, string>();      // call id → its path, still unanswered
  let answered = new Set<string>();
  messages.forEach((message, index) => {
    if (message.role === 'tool') {
      const id = message.tool_call_id;
      if (answered.has(id)) refuse('invalid_value', `messages[${index}].tool_call_id`, `messages[${index}].tool_call_id is answered twice.`);
      if (!open.delete(id)) {
        refuse('tool_call_not_found', `messages[${index}].tool_call_id`, `messages[${index}].tool_call_id matches no call of the assistant message before it.`);
      }
      answered.add(id);
      return;
    }
    for (const path of open.values()) refuse('missing_tool_output', path, `${path} has no tool message that answers it.`);
    open = new Map();
    answered = new Set();
    if (message.role !== 'assistant') return;
    message.tool_calls?.forEach((call, at) => {
      if (call.type !== 'function') return;
      const path = `messages[${index}].tool_calls[${at}]`;
      if (open.has(call.id)) refuse('invalid_value', `${path}.id`, `${path}.id is used twice.`);
      open.set(call.id, path);
    });
  });
  for (const path of open.values()) refuse('missing_tool_output', path, `${path} has no tool message that answers it.`);
}
