// Measures how a long prompt, or an image with many tiles, affects other responses: the inter-token latency of steady
// streams during another request's prefill, with and without the limit on the step time.
//
//   npm run bench -- victim --model FILE
//   npm run bench -- victim --model FILE --streams 16 --prompt 4000
//   npm run bench -- victim --model FILE --vision FILE --picture 1792x1344
//   npm run bench -- victim --like SMALL.gguf
//
// SMALL.gguf can be any small text model of the Qwen 3 architecture whose vocabulary has <img> and </img>. The
// benchmark then writes a text model and a vision file with the shape of InternVL 3.5 1B, the same metadata and random
// weights.
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import type { SubmitOptions } from '../src/engine/addon-types.js';
import { Engine } from '../src/engine/engine.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { benchLoadOptions, finish, kernelOptions, submission } from './lib/engine-requests.js';
import { commit, machine } from './lib/machine.js';
import { makeRandomEncoder } from './lib/random-encoder.js';
import { spreadOf } from './lib/statistics.js';
import { SteadyAnswers } from './lib/steady-answers.js';
import { makeModel } from './make-model.js';

const USAGE = `npm run bench -- victim --model FILE [options]

  --model FILE     GGUF file to measure
  --like FILE      instead: small text model of the Qwen 3 architecture with InternVL's markers, from which to make a vision encoder and a text model
  --out DIR        folder for the written pair (default bench/out)
  --streams N      steady streams (default 1)
  --prompt N       tokens of the long prompt (default 1500)
  --vision FILE    vision file of the model: the other request has a new image instead of a long prompt
  --picture WxH    image size in pixels (default 1792x1344: 12 tiles of 448 where a model tiles images that way)
  --context N      context size in tokens; a steady stream that reaches it is replaced by a new one (default 4096)
  --max-batch-tokens N   tokens per step (default 256)
  --isa NAME       instruction set (default auto)
  --arithmetic NAME   production or fast (default production)
  --step-ms LIST   values of engine.step_ms to compare (default 0,250)
  --repeats N      long prompts per setting (default 3)
  --json OUT       write all results to OUT
`;

export async function victimBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      model: text,
      streams: text,
      prompt: text,
      'max-batch-tokens': text,
      'step-ms': text,
      repeats: text,
      json: text,
      vision: text,
      picture: text,
      like: text,
      out: text,
      context: text,
      isa: text,
      arithmetic: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true || (values.model === undefined && values.like === undefined)) {
    process.stdout.write(USAGE);
    return;
  }
  const prompt = Number(values.prompt ?? 1_500);
  const streams = Number(values.streams ?? 1);
  const maxBatchTokens = Number(values['max-batch-tokens'] ?? benchLoadOptions.maxBatchTokens);
  const repeats = Number(values.repeats ?? 3);
  const context = Number(values.context ?? 4_096);
  const pair = values.like === undefined ? null : writtenPair(values.like, resolve(values.out ?? join('bench', 'out')));
  const model = pair?.model ?? values.model!,
    vision = pair?.vision ?? values.vision;
  const size = sizeOf(values.picture ?? '1792x1344');
  const results = [];
  process.stdout.write(
    `${'step_ms'.padEnd(10)}${'alone p50'.padStart(12)}${'p50'.padStart(10)}${'p99'.padStart(10)}${'max'.padStart(10)}${'prompt took'.padStart(14)}   ms between tokens\n`,
  );
  for (const stepMs of (values['step-ms'] ?? '0,250').split(',').map(Number)) {
    const engine = new Engine(
      await loadAddon().load(
        `${model}#${stepMs}`,
        model,
        {
          ...benchLoadOptions,
          stepMs,
          maxBatchTokens,
          maxContext: context,
          ...kernelOptions(values.isa, values.arithmetic),
          ...(vision === undefined ? {} : { visionPath: vision }),
        },
        () => undefined,
      ),
    );
    try {
      const other = vision === undefined ? () => submission(engine, prompt, 1) : await seeing(engine, size);
      const result = { stepMs, ...(await measure(engine, streams, other, repeats)) };
      results.push(result);
      const cells = [result.alone, result.p50, result.p99, result.max].map((value, index) =>
        (value?.toFixed(value < 10 ? 3 : 1) ?? '-').padStart(index === 0 ? 12 : 10),
      );
      process.stdout.write(
        `${String(stepMs).padEnd(10)}${cells.join('')}${result.promptMs.median.toFixed(0).padStart(14)}\n`,
      );
      if (result.p50 === null)
        process.stdout.write(
          'no token of the steady streams arrived during the other requests: use longer prompts or larger images\n',
        );
    } finally {
      await engine.close();
    }
  }
  if (values.json !== undefined)
    writeFileSync(
      values.json,
      `${JSON.stringify({ bench: 'victim', commit: commit(), at: new Date().toISOString(), machine: machine(), model, streams, ...(vision === undefined ? { prompt } : { vision, picture: size }), maxBatchTokens, repeats, results }, null, 2)}\n`,
    );
}

/** Writes a text model shaped like Qwen3 0.6B and a vision encoder shaped like InternViT 300M. */
function writtenPair(like: string, out: string): { model: string; vision: string } {
  const set = {
    block_count: '28',
    embedding_length: '1024',
    feed_forward_length: '3072',
    'attention.head_count': '16',
    'attention.head_count_kv': '8',
    'attention.key_length': '128',
    'attention.value_length': '128',
    context_length: '8192',
  };
  const vision = join(out, 'victim-internvit-300m-f16.gguf');
  makeRandomEncoder({ out: vision, rowWidth: 1_024, kind: 'internvit-300m' });
  return { model: makeModel({ like, set, type: 'q8_0', out: join(out, 'victim-text-0.6b-q8_0.gguf') }).path, vision };
}

const ALONE_MS = 1_500;

interface Size {
  readonly width: number;
  readonly height: number;
}

function sizeOf(text: string): Size {
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(text) ?? [];
  if (width === undefined || height === undefined)
    throw new Error(`victim: --picture: "${text}" is no size such as 1792x1344`);
  return { width: Number(width), height: Number(height) };
}

/** Returns a function that creates requests, each with a new image. Prints the tiling of the image once. */
async function seeing(engine: Engine, { width, height }: Size): Promise<() => Promise<SubmitOptions>> {
  const { columns, rows, pieces, tokens } = engine.planImage(width, height, false);
  process.stdout.write(
    `an image of ${width} x ${height}: ${columns} x ${rows} tiles, ${pieces.length} pieces, ${tokens} tokens\n`,
  );
  const pixels = new Uint8Array(3 * width * height).map((_, index) => (index * 31) & 255);
  let seen = 0;
  return async () => {
    // Every tile differs from all earlier tiles, regardless of how the image is tiled.
    seen++;
    for (let at = seen % 97; at < pixels.length; at += 97) pixels[at] = (pixels[at]! + seen) & 255;
    const image = await engine.prepareImage(pixels, width, height, false);
    return { ...submission(engine, 16, 1), images: [{ at: 8, image }] };
  };
}

async function measure(
  engine: Engine,
  streams: number,
  other: () => SubmitOptions | Promise<SubmitOptions>,
  repeats: number,
) {
  await finish(engine, submission(engine, 256, 8)); // warm-up, during which the engine learns its step times
  const gaps: Gap[] = [];
  const steady = Array.from(
    { length: streams },
    () => new SteadyAnswers(engine, (ms) => gaps.push({ ms, at: performance.now() })),
  );
  try {
    return await measureBeside(steady, gaps, engine, other, repeats);
  } finally {
    for (const answers of steady) answers.stop();
  }
}

/** The gap between two tokens of a stream: its length in ms, and when it ended. */
interface Gap {
  readonly ms: number;
  readonly at: number;
}

async function measureBeside(
  steady: readonly SteadyAnswers[],
  gaps: Gap[],
  engine: Engine,
  other: () => SubmitOptions | Promise<SubmitOptions>,
  repeats: number,
) {
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  gaps.length = 0; // discard the gaps during the streams' own prefill
  await new Promise((resolve) => setTimeout(resolve, ALONE_MS));
  for (const answers of steady) answers.check();
  if (gaps.length === 0)
    throw new Error(`victim: the steady streams produced no two tokens within ${ALONE_MS} ms, so there is no baseline`);
  const alone = spreadOf(gaps.map(({ ms }) => ms)).median;
  gaps.length = 0;
  const prompts: number[] = [],
    beginnings: number[] = [];
  for (let i = 0; i < repeats; i++) {
    const asked = await other();
    const began = performance.now();
    beginnings.push(began);
    await finish(engine, asked);
    prompts.push(performance.now() - began);
  }
  for (const answers of steady) answers.check();
  const sorted = gaps.map(({ ms }) => ms).sort((a, b) => a - b);
  // The longest gaps between tokens, each with the time since the competing request started.
  const longest = gaps
    .toSorted((a, b) => b.ms - a.ms)
    .slice(0, 8)
    .map(({ ms, at }) => ({ ms, afterMs: at - (beginnings.findLast((began) => began <= at) ?? at) }));
  // Null if no gap between tokens ended while the competing request was running.
  const at = (share: number): number | null =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
  return {
    alone,
    p50: at(0.5),
    p99: at(0.99),
    max: sorted.at(-1) ?? null,
    longest,
    promptMs: spreadOf(prompts),
    answers: steady.reduce((sum, { begun }) => sum + begun, 0),
  };
}
