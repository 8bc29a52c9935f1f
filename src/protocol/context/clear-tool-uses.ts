// Replaces old tool results with a short note. Pure, except for counting tokens.
import type { Content, Message, ToolCall } from '../../generation/types.js';
import type { ToolUseClearing } from './edits.js';

/** The text that replaces a cleared tool result in the prompt. */
export const CLEARED_RESULT = '[This tool result was removed to save context.]';
const CLEARED_INPUT = '{}';

/** Assumed number of tokens of an image, for `clearAtLeast`. */
const IMAGE_TOKENS = 256;

/** A tool call with its result. */
interface ToolUse {
  readonly call: ToolCall;
  readonly result: Extract<Message, { role: 'tool' }>;
  readonly clearsInput: boolean;
}

export interface ClearedUses {
  messages: Message[];
  uses: number;
}

/** Counts the tool calls that have a result. */
export const countToolUses = (messages: readonly Message[]): number =>
  messages.reduce((sum, { role }) => (role === 'tool' ? sum + 1 : sum), 0);

/**
 * Clears the oldest tool uses. With `clearAtLeast`, tool uses are cleared in groups of at least that many tokens. Each
 * group depends only on the messages before its end. As the conversation grows, the cleared part therefore stays the
 * same until another whole group can be cleared, so the prefix cache remains usable. `sizeOf` returns the number of
 * tokens of a text.
 */
export async function clearToolUses(
  messages: readonly Message[],
  rule: ToolUseClearing,
  sizeOf: (text: string) => Promise<number>,
): Promise<ClearedUses> {
  const all = clearable(messages, rule);
  const uses = rule.clearAtLeast === 0 ? all : await wholeGroups(all, rule.clearAtLeast, sizeOf);
  return { messages: cleared(messages, uses), uses: uses.length };
}

/** The tool uses that may be cleared, oldest first. */
export function clearable(messages: readonly Message[], { keep, excluded, inputs }: ToolUseClearing): ToolUse[] {
  const uses: ToolUse[] = [];
  const calls = new Map<string, ToolCall>(); // some models restart their IDs in every turn
  for (const message of messages) {
    if (message.role === 'assistant') for (const call of message.toolCalls ?? []) calls.set(call.id, call);
    if (message.role !== 'tool') continue;
    const call = calls.get(message.toolCallId);
    if (call === undefined) continue;
    const clearsInput = inputs !== 'none' && (inputs === 'all' || inputs.has(call.name));
    uses.push({ call, result: message, clearsInput });
  }
  return uses.slice(0, Math.max(0, uses.length - keep)).filter((use) => !excluded.has(use.call.name) && isLong(use));
}

/** Whether clearing this tool use makes the prompt shorter. */
function isLong({ call, result, clearsInput }: ToolUse): boolean {
  const { text, images } = measure(result.content);
  const input = clearsInput ? call.arguments.length - CLEARED_INPUT.length : 0;
  return images > 0 || text.length + input > CLEARED_RESULT.length;
}

async function wholeGroups(
  uses: readonly ToolUse[],
  atLeast: number,
  sizeOf: (text: string) => Promise<number>,
): Promise<ToolUse[]> {
  const noteTokens = await sizeOf(CLEARED_RESULT);
  let whole = 0;
  let tokens = 0;
  for (const [index, { call, result, clearsInput }] of uses.entries()) {
    const { text, images } = measure(result.content);
    tokens += (await sizeOf(text)) + images * IMAGE_TOKENS - noteTokens;
    if (clearsInput) tokens += await sizeOf(call.arguments);
    if (tokens < atLeast) continue;
    whole = index + 1;
    tokens = 0;
  }
  return uses.slice(0, whole);
}

function cleared(messages: readonly Message[], uses: readonly ToolUse[]): Message[] {
  const results = new Set<Message>(uses.map(({ result }) => result));
  const inputs = new Set(uses.flatMap(({ call, clearsInput }) => (clearsInput ? [call] : [])));
  return messages.map((message) => {
    if (message.role === 'tool') return results.has(message) ? { ...message, content: CLEARED_RESULT } : message;
    if (message.role !== 'assistant' || !message.toolCalls?.some((call) => inputs.has(call))) return message;
    return {
      ...message,
      toolCalls: message.toolCalls.map((call) => (inputs.has(call) ? { ...call, arguments: CLEARED_INPUT } : call)),
    };
  });
}

function measure(content: Content): { text: string; images: number } {
  if (typeof content === 'string') return { text: content, images: 0 };
  const texts = content.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  return { text: texts.join(''), images: content.length - texts.length };
}
