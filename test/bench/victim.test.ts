// Gaps of steady answers beside a picture, of a model so small that an answer fills its context before anything is measured.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { victimBenchCommand } from '../../bench/victim.js';

t.setTimeout(120_000); // for a busy machine

interface Measured {
  readonly results: readonly {
    readonly alone: number;
    readonly p50: number;
    readonly max: number;
    readonly answers: number;
  }[];
}

t.test('a picture stalls an answer for a time that is measured', async (t) => {
  const folder = join('test', 'data', 'vision');
  const out = join(t.testdir({}), 'victim.json');
  await victimBenchCommand([
    '--model',
    join(folder, 'text-llama-bpe.gguf'),
    '--vision',
    join(folder, 'idefics3.mmproj.gguf'),
    '--picture',
    '1792x1344',
    '--step-ms',
    '0',
    '--context',
    '1024',
    '--repeats',
    '1',
    '--json',
    out,
  ]);
  const {
    results: [result],
  } = JSON.parse(readFileSync(out, 'utf8')) as Measured;
  t.ok(result!.alone > 0 && result!.p50 > 0, 'between tokens, alone and beside the picture');
  t.ok(result!.max > result!.alone, 'which costs them something');
  t.ok(result!.answers > 1, 'an answer that has filled its context is followed by another');
});

t.test('a picture that has no place is refused in words', async (t) => {
  const folder = join('test', 'data', 'vision');
  await t.rejects(victimBenchCommand(['--model', join(folder, 'text-llama-bpe.gguf'), '--picture', 'large']), {
    message: /"large" is no size such as 1792x1344/,
  });
});
