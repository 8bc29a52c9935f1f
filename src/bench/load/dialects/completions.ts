// POST /completions, streamed. Earlier turns are prepended to the prompt verbatim.

import { takeChunk } from './chunk.js';
import { responseFormat, withTarget } from './dialect.js';
import type { DialectRules, Question } from './dialect.js';

interface Choice {
  text?: string | null;
}

const promptOf = ({ system, before, turn }: Question): string =>
  `${system ?? ''}${before.map(({ user: said, answer }) => said + answer).join('')}${turn.text}`;

export const completions: DialectRules = {
  path: '/completions',
  body: (target, question) =>
    withTarget(target, {
      prompt: promptOf(question),
      max_tokens: question.turn.maxTokens,
      stream_options: { include_usage: true },
      ...responseFormat(question.turn),
    }),
  take(answer, data) {
    const choice = takeChunk<Choice>(answer, data);
    if (typeof choice?.text !== 'string' || choice.text === '') return false;
    answer.text += choice.text;
    return true;
  },
};
