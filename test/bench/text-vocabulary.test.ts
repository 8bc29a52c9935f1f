import t from 'tap';
import { textTokenizer } from '../../bench/lib/text-vocabulary.js';
import { packageRoot } from '../../src/engine/load-addon.js';

t.test('the vocabulary has 128,000 distinct tokens', async (t) => {
  const made = textTokenizer(packageRoot);
  const tokens = made.find(([key]) => key === 'tokenizer.ggml.tokens')![1].value as readonly string[];
  t.equal(tokens.length, 128_000);
  t.equal(new Set(tokens).size, tokens.length);
  for (const token of ['{"', '":', '999', 'Ġreturn', '}}']) t.ok(tokens.includes(token), token);
});
