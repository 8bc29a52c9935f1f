// POST /completions, streamed: a text that is gone on with. Earlier turns stand before it, as they were said.

import { takeUsage } from './chat.js';
import type { WireUsage } from './chat.js';
import { responseFormat, withTarget, wordsOf } from './dialect.js';
import type { DialectRules, Question, WireError } from './dialect.js';

interface Chunk {
  id?: string;
  choices?: { text?: string | null; finish_reason?: string | null }[];
  usage?: WireUsage | null;
  error?: WireError | string;
}

const promptOf = ({ system, before, turn }: Question): string =>
  `${system ?? ''}${before.map(({ said, answer }) => said + answer).join('')}${turn.text}`;

export const completions: DialectRules = {
  path: '/completions',
  body: (target, question) => withTarget(target, {
    prompt: promptOf(question), max_tokens: question.turn.maxTokens, stream_options: { include_usage: true }, ...responseFormat(question.turn),
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
    if (typeof choice.text !== 'string' || choice.text === '') return false;
    answer.text += choice.text;
    return true;
  },
};
