// POST /chat/completions, streamed.

import { responseFormat, withTarget, wordsOf } from './dialect.js';
import type { Answer, DialectRules, Question, WireError } from './dialect.js';

export interface WireUsage { prompt_tokens?: number; completion_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } | null }

interface Chunk {
  id?: string;
  choices?: {
    /** Reasoning has either of two names. */
    delta?: { content?: string | null; reasoning_content?: string | null; reasoning?: string | null; tool_calls?: unknown[] };
    finish_reason?: string | null;
  }[];
  usage?: WireUsage | null;
  error?: WireError | string;
}

export function takeUsage(answer: Answer, usage: WireUsage): void {
  answer.promptTokens = usage.prompt_tokens ?? answer.promptTokens;
  answer.outputTokens = usage.completion_tokens ?? answer.outputTokens;
  answer.cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? answer.cachedTokens;
}

function messagesOf({ system, before, turn }: Question): unknown[] {
  const messages: unknown[] = system === null ? [] : [{ role: 'system', content: system }];
  for (const { said, answer } of before) messages.push({ role: 'user', content: said }, { role: 'assistant', content: answer });
  messages.push({ role: 'user', content: turn.text });
  return messages;
}

export const chat: DialectRules = {
  path: '/chat/completions',
  body: (target, question) => withTarget(target, {
    messages: messagesOf(question), [target.capField]: question.turn.maxTokens, stream_options: { include_usage: true }, ...responseFormat(question.turn),
  }),
  take(answer, data) {
    if (data === '[DONE]') {
      answer.ended = true;
      return false;
    }
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error !== undefined) answer.error = wordsOf(chunk.error);
    answer.id ??= chunk.id ?? null;
    if (chunk.usage != null) takeUsage(answer, chunk.usage);
    const choice = chunk.choices?.[0];
    if (choice === undefined) return false;
    answer.finish = choice.finish_reason ?? answer.finish;
    const { delta } = choice;
    if (delta == null) return false;
    if (typeof delta.content === 'string' && delta.content !== '') {
      answer.text += delta.content;
      return true;
    }
    return (delta.reasoning_content ?? delta.reasoning ?? '') !== '' || (delta.tool_calls ?? []).length > 0;
  },
};
