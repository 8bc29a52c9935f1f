// How much text a request brings, known before any of it is rendered. Pure; linear in the number of messages,
// not in their length.
import { schemaCharacters } from '../output-format.js';
import type { Content, GenerationRequest, Message, RawPrompt } from '../types.js';

/** What of a request its prompt's length depends on. */
type Extensive = Pick<GenerationRequest, 'messages' | 'tools' | 'raw'>;

export interface Extent {
  /** All text of the client that the prompt shows whatever the template. */
  readonly characters: number;
  /** With what it shows perhaps: what reading it costs. */
  readonly weight: number;
  /** Of these: definitions of tools and arguments of calls, which the template takes apart. */
  readonly parts: number;
  /** Messages that cost at least a token each. System messages may be merged. */
  readonly turns: number;
}

export function extentOf({ messages, tools, raw }: Extensive): Extent {
  if (raw !== undefined) return extentOfRaw(raw);
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

/** Tokens are no longer looked at than a text of one character each. */
function extentOfRaw(raw: RawPrompt): Extent {
  if (raw.kind === 'tokens') return { characters: 0, weight: raw.tokens.length, parts: 0, turns: raw.tokens.length };
  const characters = raw.text.length + (raw.suffix?.length ?? 0);
  return { characters, weight: characters, parts: 0, turns: 0 };
}

function lengthOf(content: Content | null): number {
  if (content === null || typeof content === 'string') return content?.length ?? 0;
  return content.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0);
}

/** Characters of parts from which the template is spared them. */
export const LARGE_PARTS = 1 << 20;

/** The request without descriptions and arguments, and these as one text. */
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
