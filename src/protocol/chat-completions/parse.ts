// Chat completions request → GenerationRequest, or the precise error. Pure. Three stages in the order the
// contract gives the checks: shape (400), then the caller looks the model up, then content (422).
import { apiError, type ErrorCode } from '../../errors.js';
import type { GenerationRequest, Message, ToolCall } from '../../generation/types.js';
import { checkMetadata, toSampling, unknownFields } from '../fields.js';
import { ToolTurns } from '../tool-turns.js';
import { validate } from '../validation.js';
import { overlong } from './bounds.js';
import { chatRequestSchema, KNOWN_FIELDS, type ChatMessage, type ChatRequest } from './schema.js';

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
      sampling: toSampling(chat),
      n,
      maxTokens: chat.max_completion_tokens ?? chat.max_tokens ?? null,
      stop: typeof chat.stop === 'string' ? [chat.stop] : chat.stop ?? [],
      topLogprobs: chat.logprobs === true ? chat.top_logprobs ?? 0 : null,
      effort: effortOf(chat),
      reasoningBudget: null,
      tools: [],
      toolChoice: { mode: 'none', allowed: null },
      parallelToolCalls: chat.parallel_tool_calls !== false,
      format: { type: 'text' },
      truncation: 'disabled',
      promptParam: 'messages',
      ignoreEos: chat.ignore_eos === true,
    },
    stream: chat.stream === true,
    includeUsage: chat.stream_options?.include_usage === true,
    includeReasoning: chat.include_reasoning !== false,
    metadata: checkMetadata(chat.metadata),
    ignored: unknownFields(body, KNOWN_FIELDS),
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
  const turns = new ToolTurns();
  messages.forEach((message, index) => {
    if (message.role === 'tool') {
      turns.answer(message.tool_call_id, `messages[${index}].tool_call_id`);
      return;
    }
    turns.settle();
    if (message.role !== 'assistant') return;
    message.tool_calls?.forEach((call, at) => {
      if (call.type === 'function') turns.call(call.id, `messages[${index}].tool_calls[${at}]`);
    });
  });
  turns.settle();
}
