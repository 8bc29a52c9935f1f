// From the internal messages to the shape a particular model's template can express: where it has no slot
// for a later system message, none for system at all, or insists on alternation, the conversation is
// refolded so that no text is ever lost silently.
import type { TemplateCapabilities, TemplateMessage } from './chat-template.js';
import type { Shield } from './shield.js';
import type { Content, Message } from './types.js';

/** The text of a content; images are the prompter's affair. */
export function textOf(content: Content | null): string {
  if (content === null) return '';
  return typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

const JOIN = '\n\n';
/** Arguments nested deeper are passed on as text; it also bounds the recursions below. */
const MAX_ARGUMENT_DEPTH = 256;

/** Puts system text where the template takes it and merges neighbours where roles must alternate. */
export function fitToTemplate(messages: readonly Message[], can: TemplateCapabilities): Message[] {
  let fitted: Message[] = [...messages];
  if (can.system !== 'anywhere') {
    const system = fitted.filter((message) => message.role === 'system').map((message) => message.content).join(JOIN);
    fitted = fitted.filter((message) => message.role !== 'system');
    if (system !== '') fitted = can.system === 'first' ? [{ role: 'system', content: system }, ...fitted] : foldIntoUser(system, fitted);
  }
  return can.alternation ? mergeNeighbours(fitted) : fitted;
}

function foldIntoUser(system: string, messages: Message[]): Message[] {
  const first = messages[0];
  if (first?.role !== 'user') return [{ role: 'user', content: system }, ...messages];
  return [{ ...first, content: system + JOIN + textOf(first.content) }, ...messages.slice(1)];
}

function mergeNeighbours(messages: Message[]): Message[] {
  const merged: Message[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    if (last?.role === 'user' && message.role === 'user') {
      merged[merged.length - 1] = { ...last, content: textOf(last.content) + JOIN + textOf(message.content) };
    } else if (last?.role === 'assistant' && message.role === 'assistant' && !last.toolCalls?.length) {
      const content = [last.content, message.content].filter((text) => text !== null && text !== '').join(JOIN);
      merged[merged.length - 1] = { ...message, content };
    } else {
      merged.push(message);
    }
  }
  return merged;
}

/** Every string of a conversation that comes from the client. */
export function* clientTexts(messages: readonly Message[]): Generator<string> {
  for (const message of messages) {
    if (message.content !== null) yield textOf(message.content);
    if ('name' in message && message.name !== undefined) yield message.name;
    if (message.role === 'tool') yield message.toolCallId;
    if (message.role !== 'assistant') continue;
    if (message.reasoning !== undefined) yield message.reasoning;
    for (const call of message.toolCalls ?? []) {
      yield call.id;
      yield call.name;
      yield call.arguments;
      // Escapes such as \ufdd0 become characters when the arguments are parsed.
      const parsed = parseObject(call.arguments);
      if (parsed !== null) yield* stringsIn(parsed);
    }
  }
}

/**
 * The template's messages, all client text shielded. Past reasoning goes back to the model only after the
 * last user message: that is the running tool loop, the one place where it still matters.
 */
export function toTemplateMessages(messages: readonly Message[], shield: Shield, can: TemplateCapabilities): TemplateMessage[] {
  const lastUser = messages.findLastIndex((message) => message.role === 'user');
  return messages.map((message, index): TemplateMessage => {
    const result: TemplateMessage = { role: message.role, content: shield.protect(textOf(message.content)) };
    if ('name' in message && message.name !== undefined) result.name = shield.protect(message.name);
    if (message.role === 'tool') result.tool_call_id = shield.protect(message.toolCallId);
    if (message.role === 'assistant') {
      if (message.reasoning !== undefined && index > lastUser) result.reasoning_content = shield.protect(message.reasoning);
      if (message.toolCalls?.length) {
        result.tool_calls = message.toolCalls.map((call) => ({
          id: shield.protect(call.id),
          type: 'function' as const,
          function: { name: shield.protect(call.name), arguments: can.argumentsAsText ? shield.protect(call.arguments) : templateArguments(call.arguments, shield) },
        }));
      }
    }
    return result;
  });
}

/**
 * For templates that insist on an object. Numbers pass through JavaScript here: integers beyond 2^53 lose
 * digits and 1.0 becomes 1, which is why the text itself is preferred. What is no JSON object stays text.
 */
function templateArguments(text: string, shield: Shield): unknown {
  const parsed = parseObject(text);
  return parsed === null ? shield.protect(text) : protectDeep(parsed, shield);
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    const usable = typeof value === 'object' && value !== null && !Array.isArray(value) && isShallow(value, MAX_ARGUMENT_DEPTH);
    return usable ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return depth > 0 && Object.values(value).every((item) => isShallow(item, depth - 1));
}

function protectDeep(value: unknown, shield: Shield): unknown {
  if (typeof value === 'string') return shield.protect(value);
  if (Array.isArray(value)) return value.map((item) => protectDeep(item, shield));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [shield.protect(key), protectDeep(item, shield)]));
  }
  return value;
}

function* stringsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* stringsIn(item);
  else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      yield key;
      yield* stringsIn(item);
    }
  }
}
