import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'tap';

import { ARCHITECTURES } from '../../bench/lib/architectures.js';
import { FAMILY_SHAPES, type FamilyShape } from '../../bench/lib/family-shapes.js';
import { MODEL_TYPES } from '../../bench/lib/model-tensors.js';
import { patternModel } from '../../bench/lib/pattern-model.js';
import { isRead, wantedTensors } from '../../bench/lib/wanted-tensors.js';
import { tableFiller } from '../../bench/lib/random-weights.js';
import { syntheticTokenizer } from '../../bench/lib/synthetic-vocabulary.js';
import { makeModel } from '../../bench/make-model.js';
import { loadAddon } from '../../src/engine/load-addon.js';

const digest = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');

test('options determine every byte, and an existing file is kept', async (t) => {
  const folder = t.testdir();
  const make = (name: string, seed: number) => makeModel({ preset: 'tiny', seed, out: join(folder, name) });
  const first = make('a.gguf', 7);
  t.equal(first.written, true);
  t.equal(readFileSync(first.path).length, first.bytes);
  t.equal(digest(make('b.gguf', 7).path), digest(first.path));
  t.not(digest(make('c.gguf', 8).path), digest(first.path));
  t.equal(make('a.gguf', 7).written, false);
  t.equal(make('a.gguf', 8).written, true, 'another seed gives another file');
  t.strictSame(readdirSync(folder).sort(), ['a.gguf', 'b.gguf', 'c.gguf'], 'no partial file is left');
});

test('every tensor type and architecture can be written', async (t) => {
  const out = join(t.testdir(), 'model.gguf');
  for (const type of MODEL_TYPES) t.ok(makeModel({ preset: 'tiny', type, out }).written, type);
  for (const architecture of ARCHITECTURES)
    t.ok(makeModel({ preset: 'tiny', architecture, out, force: true }).written, architecture);
  t.ok(makeModel({ preset: 'tiny', experts: true, out }).written, 'a llama model with experts is written');
});

// The addon reports which tensors a network requires. A file from any family can serve as a pattern, and the resulting
// model loads.
test('a model made from a pattern has its architecture and the requested sizes', async (t) => {
  const folder = t.testdir(),
    out = join(folder, 'model.gguf');
  const options = {
    threads: 1,
    device: 'cpu',
    isa: 'auto',
    arithmetic: 'production',
    kvType: 'f16',
    maxContext: 0,
    kvBytes: 0,
    maxBatchTokens: 0,
    maxSequences: 1,
    stepMs: 0,
    queueMax: 1,
    queueMaxTokens: 1,
    prefixCache: false,
    speculation: 'off',
  } as const;
  const addon = loadAddon();
  for (const architecture of ARCHITECTURES) {
    const like = join(folder, `${architecture}.gguf`);
    makeModel({ preset: 'tiny', architecture, out: like, force: true });
    const same = await addon.inspect(makeModel({ like, type: 'f32', out, force: true }).path, options),
      pattern = await addon.inspect(like, options);
    const shapes = (tensors: typeof same.tensors) =>
      tensors.map(({ name, shape }) => `${name} ${shape.join(' ').replace(/( 1)+$/, '')}`).sort();
    t.strictSame(shapes(same.tensors), shapes(pattern.tensors), architecture);
    const made = makeModel({
      like,
      set: { block_count: '5', embedding_length: '512' },
      vocabulary: 600,
      type: 'q4_k_m',
      out,
      force: true,
    });
    t.match(
      (await addon.inspect(made.path, options)).model,
      { architecture, layers: 5, embedding: 512, vocabulary: 600 },
      architecture,
    );
  }
  const like = join(folder, 'llama.gguf');
  // Metadata with one value per layer is repeated together with the layers.
  const byLayer = makeModel({
    like,
    set: { 'attention.head_count_kv': '2,2' },
    out: join(folder, 'by-layer.gguf'),
  }).path;
  const longer = await addon.inspect(
    makeModel({ like: byLayer, set: { block_count: '5' }, out, force: true }).path,
    options,
  );
  t.match(longer.model, { layers: 5 });
  t.equal(longer.metadata.find(({ key }) => key === 'llama.attention.head_count_kv')?.count, 5);
  t.throws(() => makeModel({ like, set: { block_count: 'many' }, out }), /block_count: 'many' is no number/);
  t.throws(() => makeModel({ like, set: { 'attention.head_count': '0' }, out }), /like .*llama\.gguf: .*head_count/);
  t.throws(() => makeModel({ like: join(folder, 'none.gguf'), out }), /ENOENT/);
});

// DeepSeek V4 stores the experts for each token id in a table of integers.
test('integer tables are written as integers', async (t) => {
  const like = fileURLToPath(new URL('../../../test/data/vectors2/models/deepseek4.mxfp4_moe.gguf', import.meta.url)),
    out = join(t.testdir(), 'model.gguf');
  const options = {
    threads: 1,
    device: 'cpu',
    isa: 'auto',
    arithmetic: 'production',
    kvType: 'f16',
    maxContext: 0,
    kvBytes: 0,
    maxBatchTokens: 0,
    maxSequences: 1,
    stepMs: 0,
    queueMax: 1,
    queueMaxTokens: 1,
    prefixCache: false,
    speculation: 'off',
  } as const;
  makeModel({ like, set: { block_count: '5' }, type: 'q8_0', out });
  const { model, reason, tensors } = await loadAddon().inspect(out, options);
  t.equal(reason, null);
  t.match(model, { architecture: 'deepseek4', layers: 5 });
  t.match(
    tensors.find(({ name }) => name === 'blk.0.ffn_gate_tid2eid.weight'),
    { type: 'I32' },
  );
  const [experts, used] = [7, 3],
    words = new Uint32Array(30);
  tableFiller(5, used, experts)(new Uint8Array(words.buffer), words, 0, 30);
  for (let row = 0; row < 30; row += used) {
    const named = new Set(words.subarray(row, row + used));
    t.ok(named.size === used && [...named].every((expert) => expert < experts), `row ${row / used}`);
  }
  t.ok(new Set(words).size > used, 'the rows differ');
});

test('an invalid shape is refused before anything is written', async (t) => {
  const out = join(t.testdir(), 'model.gguf');
  t.throws(() => makeModel({ preset: 'tiny', shape: { embedding: 100 }, out }), /rows of 100 values/);
  t.throws(() => makeModel({ preset: 'tiny', shape: { kvHeads: 3 }, out }), /multiple of kvHeads/);
  t.throws(() => makeModel({ preset: 'tiny', shape: { vocabulary: 10 }, out }), /vocabulary is 10/);
  t.throws(() => makeModel({ preset: 'tiny', seed: -1, out }), /seed is -1/);
  t.throws(() => makeModel({ preset: 'tiny', architecture: 'qwen3', experts: true, out }), /qwen3 has no experts/);
  t.throws(() => makeModel({ preset: 'tiny', experts: true, shape: { usedExperts: 9 }, out }), /more than experts/);
  t.equal(existsSync(out), false);
});

test('the merges produce exactly the tokens of the vocabulary, each from earlier tokens', async (t) => {
  for (const size of [259, 300, 1024, 32000]) {
    const keys = new Map(syntheticTokenizer(size));
    const tokens = keys.get('tokenizer.ggml.tokens')?.value as readonly string[];
    const merges = keys.get('tokenizer.ggml.merges')?.value as readonly string[];
    t.equal(tokens.length, size);
    const known = new Set(tokens.slice(0, 256));
    const orphans = merges.filter((merge) => {
      const [left = '', right = ''] = merge.split(' ');
      const fits = known.has(left) && known.has(right) && !known.has(left + right);
      known.add(left + right);
      return !fits;
    });
    t.strictSame(orphans, []);
    t.equal(known.size, size - 3);
  }
});

// Checks only the plan of the tensors to write, because the real files are several gigabytes.
test('the shapes of published models have the widths listed for them', async (t) => {
  const folder = fileURLToPath(new URL('../../../test/data/vectors2/models/', import.meta.url));
  let seen = 0;
  for (const [name, { like, set, vocabulary, tensors: told, unread, layers }] of Object.entries<FamilyShape>(
    FAMILY_SHAPES,
  )) {
    const path = [folder, join(process.env['MONOLITH_VECTORS2'] ?? '', 'models')]
      .map((one) => join(one, like))
      .find(existsSync);
    if (path === undefined) continue;
    seen++;
    const { metadata, tensors } = patternModel({
      like: path,
      set,
      vocabulary,
      tokenizer: (size) => [
        ['tokenizer.ggml.tokens', { type: 'strings', value: Array.from({ length: size }, (_, id) => `${id}`) }],
      ],
      type: 'q8_0',
      ...(told && { tensors: told }),
      ...(unread && { unread }),
      ...(layers && { layers }),
    });
    // The engine refuses a file with a tensor that its layer does not have.
    const listed = tensors.map(({ name, dims }) => ({ name, dims }));
    const taken = new Set(wantedTensors(name, metadata, listed).map((tensor) => tensor.name));
    t.strictSame(
      listed.filter(
        (tensor) =>
          !taken.has(tensor.name) &&
          !isRead(tensor.name) &&
          !(unread ?? []).some((kept) => tensor.name.endsWith(`.${kept}`)),
      ),
      [],
      `${name}: the network uses all tensors`,
    );
    const dims = (suffix: string) => tensors.find((tensor) => tensor.name.endsWith(suffix))?.dims;
    const parameters = tensors.reduce((sum, tensor) => sum + tensor.dims.reduce((product, n) => product * n, 1), 0);
    t.ok(parameters > 1e9 && parameters < 4.5e9, `${name}: ${parameters} parameters`);
    for (const [suffix, wanted] of Object.entries(told ?? {}))
      t.strictSame(dims(`.${suffix}`) ?? dims(suffix), wanted, `${name}: ${suffix}`);
    if (dims('rope_freqs.weight') !== undefined)
      t.strictSame(dims('rope_freqs.weight'), [Number(set['rope.dimension_count']) / 2], `${name}: rotation factors`);
    // With `layers`, the order of the layers differs from the pattern's. Every sliding-window layer that does not share
    // another layer's cache must still have its own value tensor.
    if (layers !== undefined) {
      const windows = (set['attention.sliding_window_pattern'] ?? '')
        .split(',')
        .slice(0, layers.length - Number(set['attention.shared_kv_layers'] ?? 0));
      t.notOk(
        windows.some((window, layer) => window === 'true' && dims(`blk.${layer}.attn_v.weight`) === undefined),
        `${name}: value tensors of the sliding-window layers`,
      );
    }
    const experts = dims('.ffn_down_exps.weight');
    if (set['expert_count'] !== undefined)
      t.strictSame(
        experts,
        [set['expert_feed_forward_length'], set['embedding_length'], set['expert_count']].map(Number),
        `${name}: experts`,
      );
  }
  t.ok(seen >= 6, `${seen} patterns are present`);
});
