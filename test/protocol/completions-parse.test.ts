// Tests the parsing of Completions requests: the forms of `prompt`, and which log probabilities of the prompt are
// computed.
import t from 'tap';
import { ApiError } from '../../src/shared/errors.js';
import { parseCompletion } from '../../src/protocol/completions/parse.js';
import { readTextsOrTokens } from '../../src/protocol/texts-or-tokens.js';
import { MAX_PROMPTS } from '../../src/protocol/completions/schema.js';

const many = (count: number): string[] => Array<string>(count).fill('x');

t.test('a prompt is a string, a list of tokens, or a list of either', async (t) => {
  t.same(readTextsOrTokens('x', 'prompt', MAX_PROMPTS), ['x']);
  t.same(readTextsOrTokens([0, 2 ** 31 - 1], 'prompt', MAX_PROMPTS), [[0, 2 ** 31 - 1]]);
  t.same(readTextsOrTokens([[1, 2], [3]], 'prompt', MAX_PROMPTS), [[1, 2], [3]]);
  t.same(readTextsOrTokens(many(MAX_PROMPTS), 'prompt', MAX_PROMPTS), many(MAX_PROMPTS));
  t.equal(
    readTextsOrTokens(Array<number>(MAX_PROMPTS + 1).fill(1), 'prompt', MAX_PROMPTS).length,
    1,
    'a single prompt may have more tokens than the maximum number of prompts',
  );
});

t.test('an invalid prompt is refused with an error that names the parameter', async (t) => {
  const refusals: [prompt: unknown, says: string][] = [
    [undefined, '400 missing_required_parameter prompt'],
    [null, '400 missing_required_parameter prompt'],
    [{}, '400 invalid_type prompt'],
    [[], '400 missing_required_parameter prompt'],
    [many(MAX_PROMPTS + 1), '422 array_too_long prompt'],
    [['x', [1]], '400 invalid_type prompt[1]'],
    [[[1], 'x'], '400 invalid_type prompt[1]'],
    [[[1], []], '400 missing_required_parameter prompt[1]'],
    [[1, 'x'], '400 invalid_type prompt[1]'],
    [[1, 0.5], '400 invalid_type prompt[1]'],
    [[1, -1], '422 value_out_of_range prompt[1]'],
    [[[2 ** 31]], '422 value_out_of_range prompt[0][0]'],
  ];
  for (const [prompt, says] of refusals) {
    try {
      readTextsOrTokens(prompt, 'prompt', MAX_PROMPTS);
      t.fail(says);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      t.equal(`${error.status} ${error.code} ${error.param}`, says);
    }
  }
});

t.test('prompt log-probabilities are computed only if they are returned', async (t) => {
  const rows: [asked: object, most: number | null][] = [
    [{}, null],
    [{ echo: true }, null],
    [{ logprobs: 2 }, null],
    [{ echo: true, logprobs: 2 }, 2],
    [{ prompt_logprobs: 1 }, 1],
    [{ echo: true, logprobs: 2, prompt_logprobs: 3 }, 3],
    [{ echo: true, logprobs: 3, prompt_logprobs: 2 }, 3],
  ];
  for (const [asked, most] of rows) {
    const {
      requests: [first],
    } = parseCompletion({ model: 'm', prompt: 'x', ...asked }).content({ maxN: 1 });
    t.equal(first?.promptLogprobs, most, JSON.stringify(asked));
  }
});
