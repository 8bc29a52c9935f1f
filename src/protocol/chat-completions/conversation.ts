// Converts the messages of a chat completions request to internal messages. Checks that each role contains only
// supported parts and that every tool call has a result. No side effects.
import { apiError } from '../../shared/errors.js';
import { customArguments } from '../../generation/custom-tools.js';
import type { Content, ContentPart, LeftOut, Message, ToolCall } from '../../generation/types.js';
import { ToolTurns } from '../tool-turns.js';
import { FunctionTurns } from './functions.js';
import type { ChatMessage, ChatPart } from './schema.js';

type PartType = ChatPart['type'];

const PARTS: Record<'system' | 'user' | 'assistant' | 'tool', { role: string; takes: ReadonlySet<PartType> }> = {
  system: { role: 'system and developer', takes: new Set(['text']) },
  user: { role: 'user', takes: new Set(['text', 'image_url']) },
  assistant: { role: 'assistant', takes: new Set(['text', 'refusal']) },
  tool: { role: 'tool', takes: new Set(['text', 'image_url']) },
};

/**
 * Converts the messages. An assistant turn whose content is an empty list is omitted, and the user messages around it
 * are joined. Throws ApiError 422 for parts that a role does not support, and for tool calls and results that do not
 * match.
 */
export function toMessages(messages: readonly ChatMessage[]): Message[] {
  const turns = new ToolTurns();
  const functions = new FunctionTurns(turns);
  const result: Message[] = [];
  let joins = false;
  for (const [index, wire] of messages.entries()) {
    const path = `messages[${index}]`;
    if (wire.role === 'tool') turns.answer(wire.tool_call_id, `${path}.tool_call_id`);
    else if (wire.role !== 'function') turns.settle();
    if (isEmptyTurn(wire)) {
      joins = true;
      continue;
    }
    const message = toMessage(wire, path, turns, functions);
    const last = result.at(-1);
    if (joins && message.role === 'user' && last?.role === 'user' && last.name === message.name)
      result[result.length - 1] = { ...last, content: joined(last.content, message.content) };
    else result.push(message);
    joins = false;
  }
  turns.settle();
  return result;
}

/** The encrypted entries of `reasoning_details`, which no model of this server can read. */
export function foreignReasoning(messages: readonly ChatMessage[]): LeftOut[] {
  return messages.flatMap((message, index) => {
    const details = message.role === 'assistant' ? (message.reasoning_details ?? []) : [];
    return details.flatMap(({ type }, at): LeftOut[] =>
      type === ENCRYPTED ? [{ path: `messages[${index}].reasoning_details[${at}]`, reason: 'foreign' }] : [],
    );
  });
}

const ENCRYPTED = 'reasoning.encrypted';
/** Whether a message is an assistant turn with an empty content list and no refusal or tool calls. */
export function isEmptyTurn(message: ChatMessage): boolean {
  return (
    message.role === 'assistant' &&
    Array.isArray(message.content) &&
    message.content.length === 0 &&
    message.refusal == null &&
    !message.reasoning_content &&
    !message.reasoning &&
    !message.reasoning_details?.length &&
    !message.tool_calls?.length &&
    message.function_call == null
  );
}

function joined(first: Content, second: Content): Content {
  if (typeof first === 'string' && typeof second === 'string') return `${first}\n\n${second}`;
  const parts = (content: Content): readonly ContentPart[] =>
    typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  // The content is extended in place, because thousands of turns may be joined.
  const all = (typeof first === 'string' ? parts(first) : first) as ContentPart[];
  for (const part of parts(second)) all.push(part);
  return all;
}

function toMessage(message: ChatMessage, path: string, turns: ToolTurns, functions: FunctionTurns): Message {
  switch (message.role) {
    case 'system':
    case 'developer':
      return { role: 'system', content: toText(message.content, 'system', path), name: message.name ?? undefined };
    case 'user':
      return { role: 'user', content: toContent(message.content, 'user', path), name: message.name ?? undefined };
    case 'tool':
      return {
        role: 'tool',
        content: toContent(message.content ?? '', 'tool', path),
        toolCallId: message.tool_call_id,
      };
    case 'function':
      return {
        role: 'tool',
        content: toContent(message.content ?? '', 'tool', path),
        toolCallId: functions.answer(message, path),
      };
    case 'assistant': {
      const { content, function_call: functionCall } = message;
      if (functionCall != null && message.tool_calls?.length)
        throw apiError(
          'conflicting_parameters',
          `${path}.function_call and tool_calls cannot both be given.`,
          `${path}.function_call`,
        );
      const isAbsent = content == null || (typeof content !== 'string' && content.length === 0);
      return {
        role: 'assistant',
        content: isAbsent ? (message.refusal ?? null) : toText(content, 'assistant', path),
        ...reasoningOf(message, path),
        ...(message.reasoning_details?.some(({ type }) => type === ENCRYPTED) ? { lacksReasoning: true } : {}),
        toolCalls:
          functionCall == null
            ? message.tool_calls?.map((call, at) => toToolCall(call, `${path}.tool_calls[${at}]`, turns))
            : [{ id: functions.call(functionCall, path), name: functionCall.name, arguments: functionCall.arguments }],
        name: message.name ?? undefined,
      };
    }
  }
}

/** Clients send reasoning back in the field in which they received it, or in both fields. */
function reasoningOf(
  message: Extract<ChatMessage, { role: 'assistant' }>,
  path: string,
): Pick<Extract<Message, { role: 'assistant' }>, 'reasoning' | 'thoughts'> {
  const { reasoning_content: content, reasoning, reasoning_details: details } = message;
  const texts = (details ?? []).filter(({ type }) => type === 'reasoning.text').map((detail) => detail.text ?? '');
  const field = content ? 'reasoning_content' : reasoning ? 'reasoning' : 'reasoning_details';
  const text = content || reasoning || (texts.length > 0 ? texts.join('') : (content ?? reasoning));
  if (text == null) return {};
  if (text === '') return { reasoning: text };
  const unsealed = { model: null, origin: null, after: { text: 0, calls: 0 }, current: true };
  return { reasoning: text, thoughts: [{ text, path: `${path}.${field}`, ...unsealed }] };
}

type ChatToolCall = NonNullable<Extract<ChatMessage, { role: 'assistant' }>['tool_calls']>[number];

function toToolCall(call: ChatToolCall, path: string, turns: ToolTurns): ToolCall {
  turns.call(call.id, path);
  if (call.type === 'custom')
    return { id: call.id, name: call.custom.name, arguments: customArguments(call.custom.input) };
  return { id: call.id, name: call.function.name, arguments: call.function.arguments };
}

function toText(content: string | readonly ChatPart[], role: 'system' | 'assistant', path: string): string {
  const result = toContent(content, role, path);
  return typeof result === 'string' ? result : ''; // these roles do not support images
}

/** If all parts are text, they are joined into one string, because every chat template supports strings. */
function toContent(content: string | readonly ChatPart[], role: keyof typeof PARTS, path: string): Content {
  if (typeof content === 'string') return content;
  const parts = content.map((part, index) => toPart(part, role, `${path}.content[${index}]`));
  return parts.some(({ type }) => type === 'image')
    ? parts
    : parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

function toPart(part: ChatPart, role: keyof typeof PARTS, path: string): ContentPart {
  if (PARTS[role].takes.has(part.type)) {
    switch (part.type) {
      case 'text':
        return { type: 'text', text: part.text };
      case 'refusal':
        return { type: 'text', text: part.refusal };
      case 'image_url':
        return {
          type: 'image',
          source: { kind: 'url', url: part.image_url.url },
          detail: part.image_url.detail ?? 'auto',
          path,
        };
    }
  }
  throw apiError(
    'unsupported_content',
    `${path}: ${PARTS[role].role} messages do not support ${part.type} parts on this server.`,
    path,
  );
}
