// What a long prompt, or a picture of many tiles, does to other people's answers: gaps between the tokens of steady streams
// while another request's prompt is computed, with and without the bound on a step's time.
//
//   npm run bench -- victim --model FILE
//   npm run bench -- victim --model FILE --streams 16 --prompt 4000
//   npm run bench -- victim --model FILE --vision FILE --picture 1792x1344
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import type { SubmitOptions } from '../src/engine/addon-types.js';
import { Engine } from '../src/engine/engine.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { benchLoadOptions, finish, submission } from './lib/engine-requests.js';
import { commit, machine } from './lib/machine.js';
import { spreadOf } from './lib/statistics.js';

const USAGE = `npm run bench -- victim --model FILE [options]

  --model FILE     the GGUF file to measure
  --streams N      steady answers (default 1)
  --prompt N       tokens of the long prompt (default 1500)
  --vision FILE    its vision file: the other request has a picture instead, one that was never seen
  --picture WxH    of so many pixels (default 1792x1344: 12 tiles of 448 where a model cuts pictures so)
  --max-batch-tokens N   tokens per step (default 256)
  --step-ms LIST   settings of engine.step_ms to compare (default 0,250)
  --repeats N      long prompts per setting (default 3)
  --json OUT       write every figure to OUT
`;

export async function victimBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args, strict: true, options: { model: text, streams: text, prompt: text, 'max-batch-tokens': text, 'step-ms': text, repeats: text, json: text, vision: text, picture: text, help: { type: 'boolean' } } });
  if (values.help === true || values.model === undefined) {
    process.stdout.write(USAGE);
    return;
  }
  const prompt = Number(values.prompt ?? 1_500);
  const streams = Number(values.streams ?? 1);
  const maxBatchTokens = Number(values['max-batch-tokens'] ?? benchLoadOptions.maxBatchTokens);
  const repeats = Number(values.repeats ?? 3);
  const { vision } = values;
  const size = sizeOf(values.picture ?? '1792x1344');
  const results = [];
  process.stdout.write(`${'step_ms'.padEnd(10)}${'alone p50'.padStart(12)}${'p50'.padStart(10)}${'p99'.padStart(10)}${'max'.padStart(10)}${'prompt took'.padStart(14)}   ms between tokens\n`);
  for (const stepMs of (values['step-ms'] ?? '0,250').split(',').map(Number)) {
    const engine = new Engine(await loadAddon().load(`${values.model}#${stepMs}`, values.model, { ...benchLoadOptions, stepMs, maxBatchTokens, maxContext: CONTEXT, ...(vision === undefined ? {} : { visionPath: vision }) }, () => undefined));
    try {
      const other = vision === undefined ? () => submission(engine, prompt, 1) : await seeing(engine, size);
      const result = { stepMs, ...(await measure(engine, streams, other, repeats)) };
      results.push(result);
      const cells = [result.alone, result.p50, result.p99, result.max].map((value, index) => value.toFixed(1).padStart(index === 0 ? 12 : 10));
      process.stdout.write(`${String(stepMs).padEnd(10)}${cells.join('')}${result.promptMs.median.toFixed(0).padStart(14)}\n`);
    } finally {
      await engine.close();
    }
  }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ bench: 'victim', commit: commit(), at: new Date().toISOString(), machine: machine(), model: values.model, streams, ...(vision === undefined ? { prompt } : { vision, picture: size }), maxBatchTokens, repeats, results }, null, 2)}\n`);
}

const CONTEXT = 4_096;

interface Size { readonly width: number; readonly height: number }

function sizeOf(text: string): Size {
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(text) ?? [];
  if (width === undefined || height === undefined) throw new Error(`victim: --picture: "${text}" is no size such as 1792x1344`);
  return { width: Number(width), height: Number(height) };
}

/** Requests with a picture each, of which no tower has seen anything. What it is cut into is told once. */
async function seeing(engine: Engine, { width, height }: Size): Promise<() => Promise<SubmitOptions>> {
  const { columns, rows, pieces, tokens } = engine.planImage(width, height, false);
  process.stdout.write(`a picture of ${width} x ${height}: ${columns} x ${rows} tiles, ${pieces.length} pieces, ${tokens} tokens\n`);
  const pixels = new Uint8Array(3 * width * height).map((_, index) => (index * 31) & 255);
  let seen = 0;
  return async () => {
    // Each piece differs from all before it, wherever it is cut.
    seen++;
    for (let at = seen % 97; at < pixels.length; at += 97) pixels[at] = (pixels[at]! + seen) & 255;
    const image = await engine.prepareImage(pixels, width, height, false);
    return { ...submission(engine, 16, 1), images: [{ at: 8, image }] };
  };
}

async function measure(engine: Engine, streams: number, other: () => SubmitOptions | Promise<SubmitOptions>, repeats: number) {
  await finish(engine, submission(engine, 256, 8));   // warm: the pace has been learnt
  const gaps: number[] = [];
  const steady = Array.from({ length: streams }, () => {
    let last = NaN;
    return engine.generate(submission(engine, 16, engine.maxContext - 32), (event) => {
      if (event.type !== 'text' || event.tokens === 0) return;
      const now = performance.now();
      if (!Number.isNaN(last)) gaps.push((now - last) / event.tokens);   // several tokens may wait for one character
      last = now;
    });
  });
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  gaps.length = 0;   // the streams' own prompts
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  const alone = spreadOf(gaps).median;
  gaps.length = 0;
  const prompts: number[] = [];
  for (let i = 0; i < repeats; i++) {
    const asked = await other();
    const began = performance.now();
    await finish(engine, asked);
    prompts.push(performance.now() - began);
  }
  for (const stream of steady) stream.cancel();
  const sorted = [...gaps].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
  return { alone, p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? NaN, promptMs: spreadOf(prompts) };
}
