// Tests the selection of the best choices, and the alignment of an echoed prompt with its log probabilities.
import t from 'tap';
import type { TokenLogprob } from '../../src/generation/types.js';
import { completionBody, PromptAnswer } from '../../src/protocol/completions/encode.js';

const spell = (id: number) => ({ id, token: 'abc'[id] ?? '', bytes: [97 + id] });
const told = (token: string, logprob: number): TokenLogprob => ({
  token,
  bytes: [token.charCodeAt(0)],
  logprob,
  top: [],
});

interface Told {
  choices: {
    index: number;
    text: string;
    logprobs: { tokens: string[]; token_logprobs: (number | null)[]; text_offset: number[] };
  }[];
}

t.test(
  'best_of ranks by the log-probability of generated tokens, whatever the length of the echoed prompt',
  async (t) => {
    const answer = new PromptAnswer({
      first: 0,
      candidates: 2,
      n: 1,
      logprobs: 0,
      promptLogprobs: null,
      returnTokens: false,
      echo: 'abc',
      promptIds: [0, 1, 2],
      spell,
    });
    answer.prompt({ type: 'prompt', first: 1, logprobs: [1, 2].map((id) => ({ ...spell(id), logprob: -3, top: [] })) });
    answer.begin();
    // If prompt tokens counted too, the short choice would win with -1 over four tokens against -1.8 over six.
    const said = [[told('x', -1)], [told('y', -0.6), told('y', -0.6), told('y', -0.6)]];
    for (const [choice, logprobs] of said.entries()) {
      answer.event({
        type: 'text',
        choice,
        section: 'content',
        text: logprobs.map(({ token }) => token).join(''),
        tokens: logprobs.length,
        logprobs,
      });
      answer.event({
        type: 'finished',
        choice,
        reason: 'max_tokens',
        stopString: null,
        calls: 0,
        completionTokens: logprobs.length,
        reasoningTokens: 0,
        timings: { prefillMs: 1, decodeMs: 1 },
      });
    }
    const { choices } = JSON.parse(
      completionBody({ id: 'cmpl-1', created: 1, model: 'm', fingerprint: 'fp' }, answer.whole(), undefined).toString(),
    ) as Told;
    t.equal(choices.length, 1);
    t.match(choices[0], {
      index: 0,
      text: 'abcyyy',
      logprobs: {
        tokens: ['a', 'b', 'c', 'y', 'y', 'y'],
        token_logprobs: [null, -3, -3, -0.6, -0.6, -0.6],
        text_offset: [0, 1, 2, 3, 4, 5],
      },
    });
  },
);
