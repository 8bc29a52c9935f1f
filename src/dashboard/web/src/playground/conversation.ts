// A playground conversation: its turns, and their conversion to request messages. No side effects.

import type { Answer } from './chat-stream.js';
import type { ChatMessage, ContentPart } from './chat-wire.js';

export interface Picture {
  name: string;
  dataUrl: string;
}

export interface UserTurn {
  kind: 'user';
  id: number;
  text: string;
  pictures: readonly Picture[];
}
/** `results`: tool results entered by the user, by call ID. */
export interface AnswerTurn {
  kind: 'answer';
  id: number;
  answer: Answer;
  results: Readonly<Record<string, string>>;
}
export type Turn = UserTurn | AnswerTurn;

/** IDs of tool calls without a result. The next message must contain their results. */
export function openCalls(turns: readonly Turn[]): string[] {
  const last = turns.at(-1);
  if (last?.kind !== 'answer' || last.answer.state !== 'done') return [];
  return last.answer.calls.map(({ id }) => id).filter((id) => last.results[id] === undefined);
}

/** Omits responses without content, which failed or were stopped before any output. */
export function messagesOf(system: string, turns: readonly Turn[]): ChatMessage[] {
  const messages: ChatMessage[] = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  for (const turn of turns) {
    if (turn.kind === 'user') messages.push({ role: 'user', content: userContent(turn) });
    else messages.push(...answerMessages(turn));
  }
  return messages;
}

function userContent({ text, pictures }: UserTurn): string | ContentPart[] {
  if (pictures.length === 0) return text;
  const images = pictures.map(({ dataUrl }): ContentPart => ({ type: 'image_url', image_url: { url: dataUrl } }));
  return text === '' ? images : [...images, { type: 'text', text }];
}

function answerMessages({ answer, results }: AnswerTurn): ChatMessage[] {
  const { text, reasoning, calls } = answer;
  if (calls.length === 0) return text === '' ? [] : [{ role: 'assistant', content: text }];
  return [
    {
      role: 'assistant',
      content: text === '' ? null : text,
      // Only an unfinished tool loop needs the reasoning. The server drops older reasoning anyway.
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      tool_calls: calls.map(({ id, name, arguments: text }) => ({
        id,
        type: 'function',
        function: { name, arguments: text },
      })),
    },
    ...calls.map(({ id }): ChatMessage => ({ role: 'tool', tool_call_id: id, content: results[id] ?? '' })),
  ];
}

/** The turns before the last response. They are sent again to regenerate that response. */
export function beforeLastAnswer(turns: readonly Turn[]): Turn[] {
  const at = turns.findLastIndex(({ kind }) => kind === 'answer');
  return at === -1 ? [...turns] : turns.slice(0, at);
}
