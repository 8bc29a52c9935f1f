// POST /chat/completions, streamed.

import { takeChunk } from './chunk.js';
import { responseFormat, withTarget } from './dialect.js';
import type { DialectRules, Question } from './dialect.js';

interface Choice {
  /** Servers use one of these two names for the reasoning text. */
  delta?: {
    content?: string | null;
    reasoning_content?: string | null;
    reasoning?: string | null;
    tool_calls?: unknown[];
  };
}

function messagesOf({ system, before, turn }: Question): unknown[] {
  const messages: unknown[] = system === null ? [] : [{ role: 'system', content: system }];
  for (const { user: said, answer } of before)
    messages.push({ role: 'user', content: said }, { role: 'assistant', content: answer });
  messages.push({ role: 'user', content: turn.text });
  return messages;
}

export const chat: DialectRules = {
  path: '/chat/completions',
  body: (target, question) =>
    withTarget(target, {
      messages: messagesOf(question),
      [target.capField]: question.turn.maxTokens,
      stream_options: { include_usage: true },
      ...responseFormat(question.turn),
    }),
  take(answer, data) {
    const delta = takeChunk<Choice>(answer, data)?.delta;
    if (delta == null) return false;
    if (typeof delta.content === 'string' && delta.content !== '') {
      answer.text += delta.content;
      return true;
    }
    return (delta.reasoning_content ?? delta.reasoning ?? '') !== '' || (delta.tool_calls ?? []).length > 0;
  },
};
