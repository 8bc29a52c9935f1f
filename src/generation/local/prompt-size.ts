// Measures a request's text before any of it is rendered. Pure; the time it takes depends on the number of messages,
// not on their length.
import { schemaCharacters } from '../output-format.js';
import type { Content, GenerationRequest, Message, RawPrompt } from '../types.js';

/** The fields that determine the length of the prompt. */
type PromptFields = Pick<GenerationRequest, 'messages' | 'tools' | 'raw'>;

export interface PromptSize {
  /** Number of characters from the client that appear in the prompt regardless of the template. */
  readonly characters: number;
  /** Number of all characters that may appear in the prompt, as a measure of the cost of reading them. */
  readonly weight: number;
  /** Number of characters in tool definitions and call arguments, which the template processes in detail. */
  readonly parts: number;
  /**
   * Number of messages that take at least one token each. System messages are not counted, because they may be
   * merged.
   */
  readonly turns: number;
}

export function promptSizeOf({ messages, tools, raw }: PromptFields): PromptSize {
  if (raw !== undefined) return promptSizeOfRaw(raw);
  let contents = 0;
  let reasoning = 0;
  let parts = 0;
  let turns = 0;
  for (const message of messages) {
    contents += lengthOf(message.content);
    if (message.role !== 'system') turns++;
    if (message.role !== 'assistant') continue;
    reasoning += message.reasoning?.length ?? 0;
    for (const call of message.toolCalls ?? []) parts += call.name.length + call.arguments.length;
  }
  for (const { name, description, parameters } of tools) {
    parts += name.length + (description?.length ?? 0) + (parameters === null ? 0 : schemaCharacters(parameters));
  }
  const characters = contents + parts;
  return { characters, weight: characters + reasoning, parts, turns };
}

/** Reading one token costs as much as reading one character of text. */
function promptSizeOfRaw(raw: RawPrompt): PromptSize {
  if (raw.kind === 'tokens') return { characters: 0, weight: raw.tokens.length, parts: 0, turns: raw.tokens.length };
  const files = (raw.files ?? []).reduce((sum, { name, text }) => sum + name.length + text.length, 0);
  const characters = raw.text.length + (raw.suffix?.length ?? 0) + files;
  return { characters, weight: characters, parts: 0, turns: 0 };
}

function lengthOf(content: Content | null): number {
  if (content === null || typeof content === 'string') return content?.length ?? 0;
  return content.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0);
}

/**
 * Maximum total number of characters in tool descriptions and call arguments. If there are more, they are not passed to
 * the template.
 */
export const LARGE_PARTS = 1 << 20;

/** Returns the request without tool descriptions and call arguments, and the removed texts joined into one. */
export function withoutLargeParts(request: GenerationRequest): { rest: GenerationRequest; text: string } {
  const texts: string[] = [];
  const tools = request.tools.map((tool) => {
    texts.push(tool.description ?? '');
    return { ...tool, description: null };
  });
  const messages = request.messages.map((message): Message => {
    if (message.role !== 'assistant' || message.toolCalls === undefined) return message;
    const toolCalls = message.toolCalls.map((call) => {
      texts.push(call.arguments);
      return { ...call, arguments: '{}' };
    });
    return { ...message, toolCalls };
  });
  return { rest: { ...request, tools, messages }, text: texts.join('\n') };
}
