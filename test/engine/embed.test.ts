import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { LoadOptions } from '../../src/engine/addon-types.js';
import { EmbedError, embedInputs } from '../../src/engine/embed.js';
import { EmbedQueue } from '../../src/engine/embed-queue.js';
import { Engine } from '../../src/engine/engine.js';
import { loadAddon, packageRoot } from '../../src/engine/load-addon.js';
import { loadOptions, loadStarter, must } from '../addon/starter.js';

interface Golden {
  prompts: { tokens: number[]; embedding?: { exact: string }; scores?: { exact: string } }[];
}

const folder = join(packageRoot, 'test', 'data', 'vectors2', 'models');

async function openEmbedder(
  name: string,
  options: Partial<LoadOptions> = {},
): Promise<{ engine: Engine; golden: Golden }> {
  const native = await loadAddon().load(
    `embed-${name}-${Math.random()}`,
    join(folder, `${name}.gguf`),
    { ...loadOptions, maxContext: 448, ...options },
    () => undefined,
  );
  const golden = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Golden;
  return { engine: new Engine(native), golden };
}

function floatsOf(base64: string): Float32Array {
  const bytes = Buffer.from(base64, 'base64');
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
}

const worst = (got: Float32Array, expected: Float32Array): number =>
  Math.max(...expected.map((value, i) => Math.abs(value - must(got[i]))));

t.test('an encoder embeds more texts than it holds at a time, each like alone', async (t) => {
  const { engine, golden } = await openEmbedder('bert-mean.q8_0');
  t.teardown(() => engine.close());
  t.match(engine.info.embeddings, {
    dimensions: 128,
    pooling: 'mean',
    encoder: true,
    maxTokens: 448,
    prefix: [2],
    suffix: [3],
    separator: 3,
  });
  const known = golden.prompts.map(({ tokens }) => Int32Array.from(tokens));
  const inputs = Array.from({ length: 200 }, (_, i) => must(known[i % known.length]));
  const vectors = await engine.embed(inputs, { organization: 1 });
  t.equal(vectors.length, inputs.length);
  for (const [i, prompt] of golden.prompts.entries()) {
    t.ok(
      worst(must(vectors[i]), floatsOf(must(prompt.embedding).exact)) < 0.1,
      `text ${i} is close to the exact vector`,
    );
    t.same(vectors[i + 196], vectors[i], `text ${i} has the same bits at the end of the list`);
  }
  t.equal(engine.active, 0);
  t.same(await engine.embed([], { organization: 1 }), []);
});

t.test('a reranker returns scores', async (t) => {
  const { engine, golden } = await openEmbedder('qwen3-rank.q8_0');
  t.teardown(() => engine.close());
  t.same(engine.info.embeddings?.labels, ['yes', 'no']);
  const inputs = golden.prompts.map(({ tokens }) => Int32Array.from(tokens));
  const scores = await engine.embed(inputs, { organization: 1 });
  for (const [i, prompt] of golden.prompts.entries())
    t.ok(worst(must(scores[i]), floatsOf(must(prompt.scores).exact)) < 0.03, `text ${i} is close to the exact scores`);
});

t.test('errors name the token and the limit', async (t) => {
  const { engine } = await openEmbedder('bert-mean.q8_0');
  t.teardown(() => engine.close());
  const embed = (tokens: number[]): Promise<Float32Array[]> =>
    engine.embed([Int32Array.from(tokens)], { organization: 1 });
  await t.rejects(embed([2, 352, 3]), /352/);
  await t.rejects(embed(new Array<number>(449).fill(5)), { code: 'too_long' });
  const starter = new Engine(await loadStarter('embed-starter'));
  t.teardown(() => starter.close());
  t.equal(starter.info.embeddings, null);
  await t.rejects(starter.embed([Int32Array.of(1)], { organization: 1 }), { code: 'unsupported' });
});

t.test('aborting rejects with the reason and cancels the remaining texts', async (t) => {
  const { engine } = await openEmbedder('bert-mean.q8_0');
  t.teardown(() => engine.close());
  const inputs = Array.from({ length: 500 }, () => new Int32Array(448).fill(7));
  const controller = new AbortController();
  const running = engine.embed(inputs, { organization: 1, signal: controller.signal });
  const reason = new Error('client left');
  controller.abort(reason);
  await t.rejects(running, reason);
  t.equal(engine.active, 0);
  await t.rejects(engine.embed(inputs, { organization: 1, signal: controller.signal }), reason);
  t.equal((await engine.embed(inputs.slice(0, 1), { organization: 1 })).length, 1, 'the engine continues');
});

t.test('draining fails texts that are not embedded', async (t) => {
  const { engine } = await openEmbedder('bert-mean.q8_0');
  t.teardown(() => engine.close());
  const running = engine.embed(
    Array.from({ length: 24 }, () => new Int32Array(448).fill(7)),
    { organization: 1 },
  );
  engine.drain();
  await t.rejects(running, EmbedError);
});

const calls = (engine: Engine, count: number, organization: number, signal: AbortSignal): Promise<unknown>[] => {
  const inputs = Array.from({ length: 100 }, () => new Int32Array(448).fill(7));
  return Array.from({ length: count }, () =>
    engine.embed(inputs, { organization, signal }).then(
      () => 'embedded',
      (error: unknown) => error,
    ),
  );
};

for (const queueMax of [128, 2])
  t.test(`calls of one organization leave room for another's, queueMax ${queueMax}`, async (t) => {
    const { engine } = await openEmbedder('bert-mean.q8_0', { queueMax });
    t.teardown(() => engine.close());
    const reason = new Error('client left');
    const controller = new AbortController();
    const many = calls(engine, 2, 1, controller.signal);
    const others = [2, 3, 4].map((organization) => engine.embed([Int32Array.of(2, 7, 3)], { organization }));
    for (const vectors of await Promise.all(others)) t.equal(vectors.length, 1);
    t.ok(engine.active > 0, "the first organization's calls still run");
    controller.abort(reason);
    t.same(await Promise.all(many), [reason, reason]);
    t.equal(engine.active, 0);
    t.equal((await engine.embed([Int32Array.of(2, 7, 3)], { organization: 1 })).length, 1, 'the engine continues');
  });

t.test('organizations take turns, and the engine holds at most 64 texts of each', async (t) => {
  const { engine } = await openEmbedder('bert-mean.q8_0', { queueMax: 1, maxSequences: 1 });
  t.teardown(() => engine.close());
  const queue = new EmbedQueue(() => 1);
  const order: number[] = [];
  const embed = (organization: number, count: number): Promise<Float32Array[]> =>
    embedInputs(
      {
        queue,
        generate: (request, onEvent) => {
          const generation = engine.generate(request, onEvent);
          order.push(organization);
          return generation;
        },
      },
      Array.from({ length: count }, () => new Int32Array(64).fill(7)),
      { organization },
    );
  await Promise.all([embed(1, 40), embed(2, 40), embed(3, 40)]);
  for (const organization of [1, 2, 3]) {
    const share = order.slice(0, 60).filter((one) => one === organization).length;
    t.ok(share >= 15 && share <= 25, `organization ${organization} has ${share} of the first 60 texts`);
  }
  engine.configure({ queueMax: 512 });
  order.length = 0;
  const running = embed(1, 200);
  t.equal(order.length, 64);
  await running;
  t.equal(order.length, 200);
});

t.test('a call that waits too long fails, and so does one over the limit of waiting calls', async (t) => {
  const { engine } = await openEmbedder('bert-mean.q8_0', { queueMax: 1 });
  t.teardown(() => engine.close());
  const controller = new AbortController();
  const running = calls(engine, 1, 1, controller.signal);
  const short = { organization: 2, queueWaitMs: 1 };
  const waiting = Array.from({ length: 20 }, () => engine.embed([new Int32Array(448).fill(7)], short));
  const results = await Promise.allSettled(waiting);
  const codes = new Set(results.map((result) => (result as { reason?: { code: string } }).reason?.code));
  t.ok(codes.has('queue_full'), 'over the limit');
  t.ok(codes.has('queue_timeout'), 'waited too long');
  controller.abort();
  await Promise.all(running);
});

t.test('a call may take longer than the queue wait while its texts are computed one after another', async (t) => {
  const { engine } = await openEmbedder('bert-mean.q8_0', { maxSequences: 1, maxBatchTokens: 64 });
  t.teardown(() => engine.close());
  const texts = Array.from({ length: 24 }, () => new Int32Array(448).fill(7));
  const began = performance.now();
  await engine.embed(texts, { organization: 1 });
  const queueWaitMs = Math.ceil((performance.now() - began) / 4);
  t.equal((await engine.embed(texts, { organization: 1, queueWaitMs })).length, texts.length);
});
