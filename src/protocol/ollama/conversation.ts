// Converts the messages of an Ollama chat request to internal messages. Tool results usually have no ID, so they are
// matched with the calls of the preceding turn by name and order. No side effects.
import { apiError } from '../../shared/errors.js';
import { stringifyAsWritten } from '../../shared/exact-json.js';
import type { Content, ContentPart, Message, ToolCall } from '../../generation/types.js';
import { ToolTurns } from '../tool-turns.js';
import type { OllamaMessage } from './schema.js';

/**
 * Throws ApiError 422 for images in roles that do not support them, and for tool calls and results that do not match
 * up.
 */
export function toMessages(messages: readonly OllamaMessage[]): Message[] {
  const calls = new OpenCalls();
  const result = messages.map((message, index) => toMessage(message, `messages[${index}]`, calls));
  calls.settle();
  return result;
}

/** The tool calls that have no result yet. */
class OpenCalls {
  readonly #turns = new ToolTurns();
  #open: { id: string; name: string }[] = [];
  #count = 0;

  /** Returns the call's ID, which is generated if the client sent none. */
  add(id: string | null | undefined, name: string, path: string): string {
    const known = id ?? `call_${this.#count}`;
    this.#count++;
    this.#turns.call(known, path);
    this.#open.push({ id: known, name });
    return known;
  }

  /** Returns the ID of the call that the result belongs to. Throws ApiError tool_call_not_found. */
  answer(message: OllamaMessage, path: string): string {
    const name = message.tool_name ?? message.name;
    const [first] = this.#open;
    const id = message.tool_call_id || (name ? this.#open.find((call) => call.name === name)?.id : first?.id);
    if (id === undefined)
      throw apiError(
        'tool_call_not_found',
        name
          ? `${path}.tool_name does not match a preceding tool call without a result.`
          : `${path} does not follow a tool call without a result.`,
        name ? `${path}.tool_name` : path,
      );
    this.#turns.answer(id, `${path}.tool_call_id`);
    this.#open = this.#open.filter((call) => call.id !== id);
    return id;
  }

  /** Called after the results of a turn. Throws ApiError missing_tool_output if a call has no result. */
  settle(): void {
    this.#turns.settle();
    this.#open = [];
  }
}

/** Fields that are allowed only in messages of one role. */
const OF_ROLE = {
  thinking: 'assistant',
  tool_calls: 'assistant',
  tool_name: 'tool',
  tool_call_id: 'tool',
} as const;

function toMessage(message: OllamaMessage, path: string, calls: OpenCalls): Message {
  const { role } = message;
  for (const [field, only] of Object.entries(OF_ROLE) as [keyof typeof OF_ROLE, string][])
    if (role !== only && message[field] != null && message[field].length > 0)
      throw apiError('invalid_value', `${path}.${field} is supported only in ${only} messages.`, `${path}.${field}`);
  if (role === 'tool') {
    const toolCallId = calls.answer(message, path);
    return { role, content: toContent(message, path), toolCallId, path };
  }
  calls.settle();
  const name = message.name ?? undefined;
  if (role === 'user') return { role, content: toContent(message, path), name, path };
  if (message.images?.length)
    throw apiError(
      'unsupported_content',
      `${path}.images: ${role} messages do not support images on this server.`,
      `${path}.images`,
    );
  if (role === 'system') return { role, content: message.content ?? '', name, path };
  const toolCalls = (message.tool_calls ?? []).map((call, at): ToolCall => {
    const { name: tool, arguments: values } = call.function;
    return {
      id: calls.add(call.id, tool, `${path}.tool_calls[${at}]`),
      name: tool,
      arguments: stringifyAsWritten(values ?? {}),
    };
  });
  return {
    role,
    content: toolCalls.length > 0 && !message.content ? null : (message.content ?? ''),
    ...reasoningOf(message, path),
    toolCalls: toolCalls.length === 0 ? undefined : toolCalls,
    name,
    path,
  };
}

function reasoningOf({ thinking }: OllamaMessage, path: string): Partial<Extract<Message, { role: 'assistant' }>> {
  if (!thinking) return {};
  const unsealed = { model: null, origin: null, after: { text: 0, calls: 0 }, current: true };
  return { reasoning: thinking, thoughts: [{ text: thinking, path: `${path}.thinking`, ...unsealed }] };
}

/** The images of a message come before its text. */
export function toContent(
  { content, images }: { content?: string | null | undefined; images?: readonly string[] | null | undefined },
  path: string,
): Content {
  if (images == null || images.length === 0) return content ?? '';
  const parts = images.map(
    (data, at): ContentPart => ({
      type: 'image',
      source: { kind: 'base64', data },
      detail: 'auto',
      path: path === '' ? `images[${at}]` : `${path}.images[${at}]`,
    }),
  );
  return content ? [...parts, { type: 'text', text: content }] : parts;
}
