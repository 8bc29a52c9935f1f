// Measures inter-token latency during an image request. The model is so small that a response fills its context before
// the measurement starts.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { victimBenchCommand } from '../../bench/victim.js';

t.setTimeout(120_000); // the machine may be busy

interface Measured {
  readonly results: readonly {
    readonly alone: number;
    readonly p50: number;
    readonly max: number;
    readonly answers: number;
  }[];
}

t.test('measures how long an image stalls a response', async (t) => {
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
  t.ok(result!.alone > 0 && result!.p50 > 0, 'inter-token latency is measured without an image and during one');
  t.ok(result!.max > result!.alone, 'the image increases the inter-token latency');
  t.ok(result!.answers > 1, 'a response that has filled its context is followed by another');
});

t.test('an invalid image size is refused with an error message', async (t) => {
  const folder = join('test', 'data', 'vision');
  await t.rejects(victimBenchCommand(['--model', join(folder, 'text-llama-bpe.gguf'), '--picture', 'large']), {
    message: /"large" is no size such as 1792x1344/,
  });
});
