// Tests which tokens a model receives for a prompt without messages and for fill-in-the-middle.
import t from 'tap';
import { RawPrompts } from '../../src/generation/local/raw-prompt.js';

const BOS = 1;
/** A vocabulary of single characters plus these special tokens. */
const prompts = (special: Record<string, number>, bos: string | null = null): RawPrompts =>
  new RawPrompts(
    {
      info: { vocabulary: 1_000, bos } as never,
      tokenize: (text: string, { addSpecial }: { addSpecial: boolean }) =>
        Promise.resolve(
          Int32Array.from([...(addSpecial && bos !== null ? [BOS] : []), ...[...text].map((one) => one.charCodeAt(0))]),
        ),
      findToken: (spelling: string) => special[spelling] ?? -1,
    },
    'coder',
  );
const text = (value: string, suffix: string | null = null, addSpecial = true) =>
  ({ kind: 'text', text: value, suffix, addSpecial, path: 'prompt' }) as const;

t.test("renders fill-in-the-middle in the model's own format", async (t) => {
  const qwen = prompts({ '<|fim_prefix|>': 901, '<|fim_suffix|>': 902, '<|fim_middle|>': 903 });
  t.same([...(await qwen.tokens(text('ab', 'c')))], [901, 97, 98, 902, 99, 903]);
  const codestral = prompts({ '[PREFIX]': 801, '[SUFFIX]': 802 }, '<s>');
  t.same([...(await codestral.tokens(text('ab', 'c')))], [BOS, 802, 99, 801, 97, 98]);
  // A marker spelled out within the text remains text.
  t.same((await qwen.tokens(text('', ''))).length, 3);
  const none = prompts({ '<|fim_prefix|>': 901 });
  await t.rejects(none.tokens(text('a', 'b')), { code: 'unsupported_value', param: 'suffix' });
  t.throws(() => none.check(text('a', 'b')), { code: 'unsupported_value' });
});

t.test('other files precede the gap in the format of the model', async (t) => {
  const files = [
    { name: 'x', text: 'y' },
    { name: 'z', text: '' },
  ];
  const gap = { ...text('a', 'b'), files };
  const markers = { '<|fim_prefix|>': 901, '<|fim_suffix|>': 902, '<|fim_middle|>': 903 };
  const spelled = (value: string): number[] => [...value].map((one) => one.charCodeAt(0));
  const around = [901, 97, 902, 98, 903];
  t.same(
    [...(await prompts({ ...markers, '<|repo_name|>': 904, '<|file_sep|>': 905 }, '<s>').tokens(gap))],
    [
      BOS,
      904,
      ...spelled('repository\n'),
      905,
      ...spelled('x\ny'),
      905,
      ...spelled('z\n'),
      905,
      ...spelled('file\n'),
      ...around,
    ],
  );
  t.same([...(await prompts(markers).tokens(gap))], [...spelled('--- x ---\ny\n\n--- z ---\n\n\n'), ...around]);
});

t.test('accepts prompts as texts and as tokens', async (t) => {
  const plain = prompts({}, '<s>');
  t.same([...(await plain.tokens(text('a')))], [BOS, 97]);
  t.same([...(await plain.tokens(text('a', null, false)))], [97]);
  t.same([...(await plain.tokens(text('<s>a'))).slice(0, 3)], [60, 115, 62], 'an existing BOS token is not repeated');
  t.same([...(await plain.tokens({ kind: 'tokens', tokens: [5, 6], path: 'prompt[2]' }))], [5, 6]);
  t.throws(() => plain.check({ kind: 'tokens', tokens: [5, 1_000], path: 'prompt[2]' }), {
    code: 'invalid_value',
    param: 'prompt[2][1]',
  });
  await t.rejects(prompts({}).tokens(text('')), { code: 'invalid_value', param: 'prompt' });
});
