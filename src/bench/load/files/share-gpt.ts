// Reads conversations in ShareGPT's format, as a JSON array or as JSON lines: `conversations` of {from, value}, or
// `messages` of {role, content}. User messages are sent verbatim; each output is limited to the length of the reply in
// the file.

import { LoadError } from '../load-error.js';
import type { Session, Turn } from '../types.js';
import { wrongLine } from './file-lines.js';
import { jsonElements } from './json-elements.js';

export interface ShareGptOptions {
  /** Maximum number of turns per conversation, counted from its start. */
  readonly turns: number;
  /** Maximum number of conversations. */
  readonly most: number;
  /** The output lengths that replace the lengths in the file; null: the file's lengths are used. */
  readonly outputTokens: number | null;
  readonly thinkMs: number;
}

const ASKS = new Set(['human', 'user']),
  ANSWERS = new Set(['gpt', 'assistant', 'chatgpt', 'bing', 'bard']);
/** Characters per token: an average for English text in current vocabularies, accurate enough for output lengths. */
const CHARACTERS_PER_TOKEN = 4;
const MAX_OUTPUT = 2048,
  MAX_CHARACTERS = 200_000;

interface SharedMessage {
  readonly who: 'asks' | 'answers' | 'system' | null;
  readonly text: string;
}

/**
 * Yields the conversations that start with a user message and a reply. All others are skipped. Throws a LoadError that
 * names the file and line.
 */
export async function readShareGpt(path: string, options: ShareGptOptions): Promise<Session[]> {
  const sessions: Session[] = [];
  for await (const { line, value } of jsonElements(path)) {
    const session = sessionOf(messagesIn(value, path, line), options);
    if (session !== null) sessions.push(session);
    if (sessions.length === options.most) break;
  }
  if (sessions.length === 0)
    throw new LoadError(`${path}: has no conversation that begins with a user message and a reply`);
  return sessions;
}

function messagesIn(value: unknown, path: string, line: number): SharedMessage[] {
  const { conversations, messages, conversation } = (
    typeof value === 'object' && value !== null ? value : {}
  ) as Record<string, unknown>;
  const list = conversations ?? messages ?? conversation;
  if (!Array.isArray(list)) throw wrongLine(path, line, 'has neither "conversations" nor "messages"');
  return list.map((one: unknown, at) => {
    const {
      from,
      value: messages,
      role,
      content,
    } = (typeof one === 'object' && one !== null ? one : {}) as Record<string, unknown>;
    const who = from ?? role;
    const text = messages ?? content;
    if (typeof who !== 'string' || typeof text !== 'string')
      throw wrongLine(
        path,
        line,
        `message ${at + 1} of the conversation has no text in "from" and "value" (or "role" and "content")`,
      );
    return { who: ASKS.has(who) ? 'asks' : ANSWERS.has(who) ? 'answers' : who === 'system' ? 'system' : null, text };
  });
}

function sessionOf(
  messages: readonly SharedMessage[],
  { turns, outputTokens, thinkMs }: ShareGptOptions,
): Session | null {
  const system = messages[0]?.who === 'system' ? messages[0].text : null;
  const rest = system === null ? messages : messages.slice(1);
  const all: Turn[] = [];
  for (let at = 0; at + 1 < rest.length && all.length < turns; at += 2) {
    const [question, answer] = [rest[at] as SharedMessage, rest[at + 1] as SharedMessage];
    if (
      question.who !== 'asks' ||
      answer.who !== 'answers' ||
      question.text === '' ||
      answer.text === '' ||
      question.text.length > MAX_CHARACTERS
    )
      break;
    const own = Math.min(MAX_OUTPUT, Math.max(1, Math.round(answer.text.length / CHARACTERS_PER_TOKEN)));
    all.push({
      text: question.text,
      maxTokens: outputTokens ?? own,
      schema: null,
      thinkMs: at === 0 ? 0 : thinkMs,
      promptTokens: null,
    });
  }
  return all.length === 0 ? null : { at: null, system, turns: all };
}
