// Tests images in the addon: preparation, encoding between engine steps, and the resulting text. The vision vectors are
// the reference for every stage, from the PNG file to the greedy output.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import t from 'tap';
import type { NativeEngine, NativeImage, SubmitOptions } from '../../src/engine/addon-types.js';
import type { RawTokenLogprob } from '../../src/engine/events.js';
import { loadAddon, packageRoot } from '../../src/engine/load-addon.js';
import { loadOptions, must, plainText, Recorder, submitOptions } from './starter.js';

t.setTimeout(600_000);

const addon = loadAddon();
const small = join(packageRoot, 'test', 'data', 'vision');
const vectors = [process.env['MONOLITH_VECTORS'] ?? '', join(packageRoot, '..', 'shared', 'vectors')]
  .map((folder) => join(folder, '..', 'vision'))
  .find((folder) => existsSync(join(folder, 'cases')));

async function rgb(file: string): Promise<{ data: Buffer; width: number; height: number }> {
  const { data, info } = await sharp(file)
    .removeAlpha()
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true });
  return { data, width: info.width, height: info.height };
}

async function prepared(engine: NativeEngine, file: string, low = false): Promise<NativeImage> {
  const { data, width, height } = await rgb(file);
  const image = await engine.prepareImage(data, width, height, low);
  t.equal(
    engine.planImage(width, height, low).tokens,
    image.tokens,
    'the planned token count matches the prepared image',
  );
  return image;
}

/** `<__media__>` marks the position of the next image. The texts between the images are tokenized separately. */
function promptOf(
  engine: NativeEngine,
  text: string,
  images: readonly NativeImage[],
): Pick<SubmitOptions, 'prompt' | 'images'> {
  const tokens: number[] = [];
  const places = text.split('<__media__>').map((piece, index) => {
    if (piece !== '' || index === 0) tokens.push(...engine.tokenize(piece, { ...plainText, addSpecial: index === 0 }));
    return tokens.length;
  });
  return {
    prompt: Int32Array.from(tokens),
    images: images.map((image, index) => ({ at: must(places[index]), image })),
  };
}

interface Case {
  name: string;
  prompt: string;
  images: string[];
  n_tokens: number;
  std: number;
  logits: string;
  greedy: { tokens: number[]; margins: number[] };
}
interface Pair {
  text_model: string;
  mmproj: string;
  tolerance: { logits: Record<'f32', [max: number, rms: number, kl: number]> };
  cases: Case[];
}

/** Returns the log-softmax. */
function logProbabilities(base64: string): Float64Array {
  const bytes = Buffer.from(base64, 'base64');
  const logits = Float64Array.from(
    new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
  );
  const most = logits.reduce((a, b) => Math.max(a, b));
  const sum = Math.log(logits.reduce((all, logit) => all + Math.exp(logit - most), 0)) + most;
  return logits.map((logit) => logit - sum);
}

const wanted =
  vectors === undefined ? [] : readdirSync(join(vectors, 'cases')).filter((name) => name.endsWith('.json'));
t.test(
  'output matches the vision vectors, from the PNG file to the greedy tokens',
  { skip: vectors === undefined ? 'the vision vectors are not available' : false },
  async (t) => {
    for (const name of wanted) {
      const pair = JSON.parse(readFileSync(join(must(vectors), 'cases', name), 'utf8')) as Pair;
      const engine = await addon.load(
        `vision ${name}`,
        join(must(vectors), 'models', pair.text_model),
        {
          ...loadOptions,
          arithmetic: 'exact',
          kvType: 'f32',
          maxContext: 1_400,
          visionPath: join(must(vectors), 'models', pair.mmproj),
        },
        () => {},
      );
      const recorder = new Recorder(engine);
      // special tokens have no text
      const unsaid = new Set(engine.info.specialTokens.map((spelling) => engine.findToken(spelling)));
      for (const one of pair.cases) {
        const what = `${name} ${one.name}`;
        const images: NativeImage[] = [];
        for (const file of one.images) images.push(await prepared(engine, join(must(vectors), 'images', file)));
        const id = recorder.channel.submit(
          submitOptions(new Int32Array(), {
            ...promptOf(engine, one.prompt, images),
            maxTokens: one.greedy.tokens.length,
            topLogprobs: 20,
          }),
        );
        await recorder.ended(id);
        const events = recorder.of(id);
        const started = must(events.find((event) => event.type === 'started'));
        t.equal(started.promptTokens, one.n_tokens, `${what}: tokens`);
        const said = events.flatMap((event): RawTokenLogprob[] =>
          event.type === 'text' ? (event.logprobs ?? []) : [],
        );
        const [max] = pair.tolerance.logits.f32;
        const expected = logProbabilities(one.logits);
        // The error of a log probability is the error of one logit plus the error of the sum over all logits.
        if (!unsaid.has(must(one.greedy.tokens[0]))) {
          const worst = Math.max(
            ...must(said[0]).top.map(({ token, logprob }) => Math.abs(logprob - must(expected[token]))),
          );
          t.ok(
            worst <= 2 * max * one.std + 1e-5,
            `${what}: logits (off by ${(worst / one.std).toExponential(1)} deviations)`,
          );
        }
        // Compares the output up to the first step whose two best tokens are nearly tied in exact arithmetic.
        const undecided = one.greedy.margins.findIndex((margin) => margin < 2 * max * one.std);
        const path = one.greedy.tokens
          .slice(0, undecided === -1 ? undefined : undecided)
          .filter((token) => !unsaid.has(token));
        t.same(said.map(({ token }) => token).slice(0, path.length), path, `${what}: greedy output`);
      }
      await engine.close();
    }
  },
);

t.test('pixels may change as soon as prepareImage() has returned', async (t) => {
  const engine = await addon.load(
    'copying',
    join(small, 'text-llama-bpe.gguf'),
    { ...loadOptions, visionPath: join(small, 'idefics3.mmproj.gguf') },
    () => {},
  );
  const { data, width, height } = await rgb(join(small, 'shapes.png'));
  // There are more images than pool threads, so most images must wait.
  const copies = Array.from({ length: 16 }, () => Uint8Array.from(data));
  const preparing = copies.map((pixels) => engine.prepareImage(pixels, width, height, true));
  for (const pixels of copies) pixels.fill(0);
  const images = [await engine.prepareImage(data, width, height, true), ...(await Promise.all(preparing))];
  const recorder = new Recorder(engine);
  for (const [number, image] of images.entries())
    await recorder.ended(
      recorder.channel.submit(
        submitOptions(new Int32Array(), { ...promptOf(engine, `${number} <__media__>`, [image]), maxTokens: 1 }),
      ),
    );
  t.match(engine.stats(), { imagePieces: 1, imagePiecesCached: copies.length }, 'all images are equal');
  await engine.close();
});

t.test('an encoded image is reused within its organization, but not by another organization', async (t) => {
  const engine = await addon.load(
    'seeing',
    join(small, 'text-llama-bpe.gguf'),
    { ...loadOptions, visionPath: join(small, 'idefics3.mmproj.gguf') },
    () => {},
  );
  t.match(engine.vision, { projector: 'idefics3' });
  t.equal(engine.visionProblem, null);
  const image = await prepared(engine, join(small, 'shapes.png'));
  t.match(image, { tokens: 184, columns: 3, rows: 3 });
  t.same(image.pieces.map(({ part, row, column, tokens }) => [part, row, column, tokens]).slice(-2), [
    ['tile', 3, 3, 16],
    ['overview', 0, 0, 16],
  ]);
  const recorder = new Recorder(engine);
  // The prompt starts differently each time, so that no KV page is shared.
  const ask = async (text: string, organization: number): Promise<number> => {
    const began = performance.now();
    const id = recorder.channel.submit(
      submitOptions(new Int32Array(), {
        ...promptOf(engine, `${text} <__media__> What is it?`, [image]),
        maxTokens: 2,
        organization,
      }),
    );
    await recorder.until(() => recorder.of(id).length > 0);
    const elapsed = performance.now() - began;
    await recorder.ended(id);
    t.equal(recorder.of(id).at(-1)?.type, 'finished');
    const started = must(recorder.of(id).find((event) => event.type === 'started'));
    t.ok(
      started.queueMs >= 0 && started.queueMs + started.towerMs <= elapsed,
      'the queue time does not include the vision encoder time',
    );
    return started.towerMs;
  };
  t.ok((await ask('One.', 1)) > 0, 'the vision encoder time is reported');
  t.match(engine.stats(), { imagePieces: 10, imagePiecesCached: 0 });
  t.equal(await ask('Two.', 1), 0, 'a cached image takes no time in the vision encoder');
  t.match(engine.stats(), { imagePieces: 10, imagePiecesCached: 10 });
  t.ok((await ask('Three.', 2)) > 0);
  t.match(engine.stats(), { imagePieces: 20, imagePiecesCached: 10 });

  const other = await prepared(engine, join(small, 'shapes.png'), true);
  t.equal(other.pieces.length, 1, 'low detail uses only the overview');
  for (let i = 0; i < 20; i++) {
    recorder.channel.cancel(
      recorder.channel.submit(
        submitOptions(new Int32Array(), {
          ...promptOf(engine, `${i} <__media__>`, [image, other]),
          organization: 3 + i,
        }),
      ),
    );
  }
  await ask('After many that left.', 1);
  t.equal(engine.stats().running + engine.stats().waiting, 0);

  const { data, width, height } = await rgb(join(small, 'shapes.png'));
  t.throws(() => void engine.prepareImage(data.subarray(1), width, height, false), TypeError);
  t.throws(() => engine.planImage(0, 5, false), TypeError);
  t.throws(() => engine.planImage(200_000, 1, false), { code: 'invalid_argument' });
  const blind = await addon.load('blind', join(small, 'text-llama-bpe.gguf'), loadOptions, () => {});
  t.equal(blind.vision, null);
  t.throws(() => blind.planImage(5, 5, false), { code: 'unsupported' });
  t.throws(
    () => new Recorder(blind).channel.submit(submitOptions(Int32Array.of(5), { images: [{ at: 0, image }] })),
    TypeError,
    'an image of another engine is refused',
  );
  t.throws(
    () => recorder.channel.submit(submitOptions(Int32Array.of(5), { images: [{ at: 2, image }] })),
    TypeError,
    'an image position after the end of the prompt is refused',
  );
  await Promise.all([engine.close(), blind.close()]);
});

t.test(
  'a vision encoder that does not fit its model is refused with an error that names the difference, or ignored if it is optional',
  async (t) => {
    const file = join(packageRoot, 'models', 'starter-q8_0.gguf');
    const visionPath = join(small, 'idefics3.mmproj.gguf');
    await t.rejects(
      addon.load('unfit', file, { ...loadOptions, visionPath }, () => {}),
      { message: /idefics3\.mmproj\.gguf: .*128/ },
    );
    const engine = await addon.load('unfit', file, { ...loadOptions, visionPath, visionOptional: true }, () => {});
    t.equal(engine.vision, null);
    t.match(engine.visionProblem, /idefics3\.mmproj\.gguf: .*128/);
    await engine.close();
    const { vision } = await addon.inspect(file, { ...loadOptions, visionPath });
    t.match(vision, { projector: 'idefics3', problem: /128/ });
    const fitting = (await addon.inspect(join(small, 'text-llama-bpe.gguf'), { ...loadOptions, visionPath })).vision;
    t.equal(fitting?.problem, null);
    t.ok(must(fitting?.imageTokens[0]).tokens > 0);
  },
);
