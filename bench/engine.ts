// How fast the engine computes: prefill by prompt length, decode by batch and by depth, through the same
// calls the service makes (scheduler, sampling and detokenizing included; HTTP and templates not). A plain
// read loop over memory is timed between the passes, since it is what bounds decode of one stream.
//
//   npm run bench -- engine --model FILE --json OUT
//
// Each repeat visits every point once, so that a slow spell of the machine falls on all of them.
import { cpus, totalmem } from 'node:os';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import type { Inspection, LoadOptions } from '../src/engine/addon-types.js';
import { Engine } from '../src/engine/engine.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { VERSION } from '../src/version.js';
import { benchLoadOptions, finish, submission } from './lib/engine-requests.js';
import { spreadOf, type Spread } from './lib/statistics.js';

const USAGE = `npm run bench -- engine --model FILE [options]

  --model FILE        the GGUF file to measure
  --json OUT          write every figure to OUT
  --threads N         threads that compute (default: one per core)
  --isa NAME          auto, plain, avx2, avx512, neon, neon_i8mm (default auto)
  --prefill LIST      prompt lengths in tokens (default 128,512)
  --batch LIST        sequences decoding at once (default 1,4,16,32)
  --depth LIST        tokens before the decoding of one sequence (default 512,1024)
  --tokens N          tokens each sequence decodes (default 32)
  --repeats N         passes over all points (default 5), after one that is not counted
  --max-batch-tokens N   tokens per step (default 512)
`;

interface BenchOptions {
  model: string;
  json: string | null;
  load: LoadOptions;
  prefill: number[];
  batch: number[];
  depth: number[];
  tokens: number;
  repeats: number;
}

interface Point {
  name: string;
  unit: 'tokens/s';
  /** One measurement. */
  measure(): Promise<number>;
  /** Set for decode of one stream: how many bytes of weights and KV a token reads. */
  bytesPerToken?: number;
}

export interface PointResult extends Spread { name: string; unit: string; gigabytesPerSecond?: number; ofReadBandwidth?: number }

const SHALLOW = 16;                      // prompt tokens of a decode measurement that has no depth of its own
const BANDWIDTH_BYTES = 1 << 29;

export async function engineBenchCommand(args: string[]): Promise<void> {
  const options = readOptions(args);
  if (options === null) {
    process.stdout.write(USAGE);
    return;
  }
  const addon = loadAddon();
  const inspection = addon.inspect(options.model, options.load);
  if (inspection.model === null) throw new Error(`${options.model}: ${inspection.reason ?? 'cannot be run'}`);
  const engine = new Engine(await addon.load(options.model, options.model, options.load, () => undefined));
  try {
    const { threads, isa } = engine.backend;
    process.stderr.write(`${options.model}: ${inspection.model.quantization}, ${(inspection.model.parameters / 1e6).toFixed(0)} M parameters, ${isa}, ${threads} threads\n`);
    const points = pointsOf(engine, options, inspection);
    const figures = new Map<Point, number[]>(points.map((point) => [point, []]));
    const bandwidth: number[] = [];
    for (let repeat = -1; repeat < options.repeats; repeat++) {
      const read = await addon.readBandwidth(threads, BANDWIDTH_BYTES, 3);
      if (repeat >= 0) bandwidth.push(read / 1e9);
      for (const [point, runs] of figures) {
        const value = await point.measure();
        if (repeat >= 0) runs.push(value);
      }
      process.stderr.write(repeat < 0 ? 'warm\n' : `pass ${repeat + 1} of ${options.repeats}\n`);
    }
    report(options, engine, inspection, figures, bandwidth);
  } finally {
    await engine.close();
  }
}

function pointsOf(engine: Engine, options: BenchOptions, inspection: Inspection): Point[] {
  const points: Point[] = [];
  const room = engine.maxContext;
  const fits = (tokens: number, what: string): boolean => {
    if (tokens <= room) return true;
    process.stderr.write(`${what} left out: ${tokens} tokens exceed the context of ${room}\n`);
    return false;
  };
  for (const length of options.prefill) {
    const name = `prefill ${length}`;
    if (fits(length + 1, name)) points.push({ name, unit: 'tokens/s', measure: () => measurePrefill(engine, length) });
  }
  for (const batch of options.batch) {
    if (!fits(SHALLOW + options.tokens, `decode batch ${batch}`)) continue;
    points.push({
      name: `decode batch ${batch}`, unit: 'tokens/s', measure: () => measureDecode(engine, batch, SHALLOW, options.tokens),
      ...(batch === 1 ? { bytesPerToken: bytesPerToken(inspection, SHALLOW + options.tokens / 2) } : {}),
    });
  }
  for (const depth of options.depth) {
    const name = `decode depth ${depth}`;
    if (!fits(depth + options.tokens, name)) continue;
    points.push({
      name, unit: 'tokens/s', measure: () => measureDecode(engine, 1, depth, options.tokens),
      bytesPerToken: bytesPerToken(inspection, depth + options.tokens / 2),
    });
  }
  return points;
}

/** Weights a token's forward pass reads once each, plus keys and values of the positions before it. */
function bytesPerToken(inspection: Inspection, positions: number): number {
  const tied = !inspection.tensors.some(({ name }) => name === 'output.weight');
  const weights = inspection.tensors
    .filter(({ name }) => tied || name !== 'token_embd.weight')
    .reduce((sum, { bytes }) => sum + bytes, 0);
  return weights + ((inspection.plan?.pageBytes ?? 0) / 16) * positions;
}

async function measurePrefill(engine: Engine, length: number): Promise<number> {
  const { prefillMs } = await finish(engine, submission(engine, length, 1));
  return length / (prefillMs / 1000);
}

/** All sequences decode together from the second token on: the slowest one's time counts for all. */
async function measureDecode(engine: Engine, batch: number, depth: number, tokens: number): Promise<number> {
  const ends = await Promise.all(Array.from({ length: batch }, () => finish(engine, submission(engine, depth, tokens))));
  const slowest = Math.max(...ends.map(({ decodeMs }) => decodeMs));
  return (batch * (tokens - 1)) / (slowest / 1000);
}

function report(options: BenchOptions, engine: Engine, inspection: Inspection, figures: Map<Point, number[]>, bandwidth: number[]): void {
  const read = spreadOf(bandwidth);
  const results = [...figures].map(([point, runs]): PointResult => {
    const spread = spreadOf(runs);
    if (point.bytesPerToken === undefined) return { name: point.name, unit: point.unit, ...spread };
    const gigabytesPerSecond = (spread.median * point.bytesPerToken) / 1e9;
    return { name: point.name, unit: point.unit, ...spread, gigabytesPerSecond, ofReadBandwidth: gigabytesPerSecond / read.median };
  });
  const lines = [`${'point'.padEnd(20)}${'median'.padStart(10)}${'min'.padStart(10)}${'max'.padStart(10)}  tokens/s`];
  for (const result of results) {
    const numbers = [result.median, result.min, result.max].map((value) => value.toFixed(1).padStart(10)).join('');
    const share = result.ofReadBandwidth === undefined ? '' :
      `  ${result.gigabytesPerSecond!.toFixed(1)} GB/s, ${(result.ofReadBandwidth * 100).toFixed(0)} % of the read loop`;
    lines.push(`${result.name.padEnd(20)}${numbers}${share}`);
  }
  lines.push(`read loop           ${[read.median, read.min, read.max].map((value) => value.toFixed(1).padStart(10)).join('')}  GB/s, ${engine.backend.threads} threads`);
  process.stdout.write(`${lines.join('\n')}\n`);
  if (options.json === null) return;
  writeFileSync(options.json, `${JSON.stringify({
    bench: 'engine', version: VERSION, at: new Date().toISOString(),
    machine: { cpu: cpus()[0]?.model.trim() ?? 'unknown', cores: cpus().length, memoryBytes: totalmem(), node: process.version },
    model: { ...engine.info, chatTemplate: undefined, endOfGeneration: undefined, specialTokens: undefined, fileHash: engine.fileHash, fileBytes: inspection.fileBytes },
    backend: engine.backend, load: options.load, tokens: options.tokens, repeats: options.repeats,
    readBandwidth: { unit: 'GB/s', ...read }, results,
  }, null, 2)}\n`);
}

function readOptions(args: string[]): BenchOptions | null {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args, strict: true,
    options: {
      model: text, json: text, threads: text, isa: text, prefill: text, batch: text, depth: text, tokens: text,
      repeats: text, 'max-batch-tokens': text, help: { type: 'boolean' },
    },
  });
  if (values.help === true) return null;
  if (values.model === undefined) throw new Error(`--model is required\n\n${USAGE}`);
  const number = (name: string, raw: string, least: number): number => {
    const value = Number(raw);
    if (!Number.isSafeInteger(value) || value < least) throw new Error(`--${name}: "${raw}" is not an integer of at least ${least}`);
    return value;
  };
  const list = (name: string, raw: string): number[] => raw.split(',').filter((item) => item !== '').map((item) => number(name, item.trim(), 1));
  const batch = list('batch', values.batch ?? '1,4,16,32');
  return {
    model: values.model,
    json: values.json ?? null,
    prefill: list('prefill', values.prefill ?? '128,512'),
    batch,
    depth: list('depth', values.depth ?? '512,1024'),
    tokens: number('tokens', values.tokens ?? '32', 2),
    repeats: number('repeats', values.repeats ?? '5', 1),
    load: {
      ...benchLoadOptions, threads: number('threads', values.threads ?? '0', 0), isa: values.isa ?? 'auto',
      maxBatchTokens: number('max-batch-tokens', values['max-batch-tokens'] ?? '512', 1), maxSequences: Math.max(32, ...batch),
    },
  };
}
