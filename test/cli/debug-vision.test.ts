// Runs `monolith debug vision` on the vision vectors, if they are present. It prints values for comparison with other
// engines. The test checks that they are the values that the engine computes.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

const main = join(packageRoot, 'dist', 'main.js');
const folder = [
  process.env['MONOLITH_VISION'] ?? '',
  join(packageRoot, 'test/data/vision'),
  join(packageRoot, '../shared/vision'),
].find((root) => root !== '' && existsSync(join(root, 'cases')));

interface Entry {
  tokens?: number[];
  position: number;
  pixels_u8: string;
  pixels_u8_sha256: string;
  pixels_f32_sha256: string;
  embeddings: string;
  embedding_rows: 'all' | number[];
  embedding_size: number;
  part: string;
  row?: number;
  attention: string;
  n_tokens: number;
  n_positions: number;
  positions_y?: number[];
  width: number;
}
interface Case {
  name: string;
  prompt: string;
  images: string[];
  sequence: Entry[];
  n_tokens: number;
  next_position: number;
  grids: number[][];
  embeddings_std: number;
  logits: string;
  std: number;
  greedy: { tokens: number[]; margins: number[]; last_logits: string };
}
interface Pair {
  text_model: string;
  mmproj: string;
  tolerance: Record<'embeddings' | 'logits', { f32: [max: number, rms: number] }>;
  cases: Case[];
}

const debug = (args: string[]): { status: number | null; out: string; err: string } => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, 'debug', 'vision', ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  return { status, out: stdout, err: stderr };
};

function floats(entry: Entry, rows: 'all' | number[]): number[] {
  const bytes = Buffer.from(entry.embeddings, 'base64');
  const row = (at: number): number[] =>
    Array.from({ length: entry.embedding_size }, (_, i) => bytes.readFloatLE(4 * (at * entry.embedding_size + i)));
  return (rows === 'all' ? Array.from({ length: entry.n_tokens }, (_, at) => at) : rows).flatMap(row);
}

t.test('names the missing command-line arguments', (t) => {
  t.match(debug(['--model', '/nope']), { status: 2, out: '', err: /--vision FILE is required/ });
  t.match(debug(['--model', '/nope', '--vision', '/nope']), { status: 2, out: '', err: /--prompt .* is required/ });
  t.match(debug(['--model', '/nope', '--vision', '/nope', '--prompt', 'See <__media__>']), {
    status: 2,
    err: /1 times <__media__>, but there are 0 images/,
  });
  t.match(debug(['--model', '/nope', '--vision', '/nope', '--prompt', 'See <__media__>', '--image', '/nope.png']), {
    status: 2,
    err: /nope\.png/,
  });
  t.end();
});

// Covers tiles and markers, M-RoPE and deepstack, and bidirectional attention. The native tests (vision_golden_test.cc)
// run the whole set.
for (const name of ['idefics3', 'qwen3vl', 'gemma3']) {
  t.test(
    `${name}: pixel bytes, tokens and embeddings match the vectors`,
    { skip: folder === undefined ? 'there are no vision vectors (MONOLITH_VISION)' : false },
    (t) => {
      const root = folder as string;
      const pair = JSON.parse(readFileSync(join(root, 'cases', `${name}.json`), 'utf8')) as Pair;
      const one = pair.cases.find((each) => each.name === 'two') as Case;
      const args = [
        '--model',
        join(root, 'models', pair.text_model),
        '--vision',
        join(root, 'models', pair.mmproj),
        '--prompt',
        one.prompt,
        '--exact',
        '--continue',
        '16',
      ];
      const { status, out, err } = debug([
        ...args,
        ...one.images.flatMap((image) => ['--image', join(root, 'images', image)]),
      ]);
      t.equal(status, 0, err);
      const seen = JSON.parse(out) as Case;
      t.match(seen, { n_tokens: one.n_tokens, next_position: one.next_position, grids: one.grids });
      t.equal(seen.sequence.length, one.sequence.length);
      one.sequence.forEach((expected, at) => {
        const got = seen.sequence[at] as Entry;
        t.equal(got.position, expected.position);
        if (expected.tokens !== undefined) {
          t.same(got.tokens, expected.tokens);
          return;
        }
        for (const field of [
          'part',
          'row',
          'attention',
          'n_tokens',
          'n_positions',
          'width',
          'embedding_size',
          'pixels_f32_sha256',
          'positions_y',
        ] as const)
          t.same(got[field], expected[field], field);
        t.equal(
          got.pixels_u8_sha256,
          createHash('sha256')
            .update(inflateSync(Buffer.from(expected.pixels_u8, 'base64')))
            .digest('hex'),
        );
        const wanted = floats(
          {
            ...expected,
            n_tokens: expected.embedding_rows === 'all' ? expected.n_tokens : expected.embedding_rows.length,
          },
          'all',
        );
        const worst = floats(got, expected.embedding_rows).reduce(
          (most, value, i) => Math.max(most, Math.abs(value - (wanted[i] ?? NaN))),
          0,
        );
        t.ok(worst / one.embeddings_std <= pair.tolerance.embeddings.f32[0], `${worst}`);
      });
      const most = pair.tolerance.logits.f32[0];
      const off = (got: string, expected: string): number => {
        const wanted = Buffer.from(expected, 'base64'),
          bytes = Buffer.from(got, 'base64');
        t.equal(bytes.length, wanted.length);
        return (
          Array.from({ length: wanted.length / 4 }, (_, i) =>
            Math.abs(bytes.readFloatLE(4 * i) - wanted.readFloatLE(4 * i)),
          ).reduce((a, b) => Math.max(a, b)) / one.std
        );
      };
      t.ok(off(seen.logits, one.logits) <= most, 'logits');
      const leaves = one.greedy.margins.findIndex((margin) => margin < 2 * most * one.std);
      t.same(
        seen.greedy.tokens.slice(0, leaves < 0 ? 16 : leaves),
        one.greedy.tokens.slice(0, leaves < 0 ? 16 : leaves),
      );
      if (leaves < 0)
        t.ok(
          off(seen.greedy.last_logits, one.greedy.last_logits) <= most,
          'the logits that selected the last token match',
        );
      t.end();
    },
  );
}
