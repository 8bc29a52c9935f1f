// Compares settings of this engine with each other and with other engines on the same model file.
//
//   npm run bench -- variants --model FILE --variant avx512=avx512 --variant fast=amx:fast \
//     --peer llama.cpp=BUILD/bin --peer "ik_llama.cpp=BUILD/bin -rtr 1"
//
// The models of all variants stay loaded. Each round measures every point once with every variant and peer, in an order
// that is reversed in every second round, so that a period in which the machine is slow affects all of them. The ratios
// are medians over the rounds, relative to the first variant in the same round.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import type { LoadOptions } from '../src/engine/addon-types.js';
import { Engine } from '../src/engine/engine.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { pointsOf, type PointLists } from './lib/engine-points.js';
import { benchLoadOptions, finish, kernelOptions, submission } from './lib/engine-requests.js';
import { commit, machine } from './lib/machine.js';
import type { PeerOptions } from './lib/peer.js';
import { spreadOf, type Spread } from './lib/statistics.js';

const USAGE = `npm run bench -- variants --model FILE --variant LABEL=ISA[:ARITHMETIC] ... [options]

  --model FILE        GGUF file to measure
  --variant LABEL=ISA[:ARITHMETIC]   settings of this engine, e.g. fast=amx:fast; may be repeated (default auto=auto)
  --peer "LABEL=FOLDER [ARGUMENTS]"  folder with llama-bench and llama-batched-bench of another engine, and arguments
                      for llama-bench; may be repeated. With arguments, only llama-bench is used
  --threads N         compute threads (default: one per core)
  --prefill LIST      prompt lengths in tokens (default 512)
  --batch LIST        numbers of concurrently decoding sequences (default 1,32)
  --depth LIST        context depths in tokens for decoding one sequence (default: none)
  --tokens N          tokens decoded per sequence (default 16)
  --max-batch-tokens N   tokens per step (default 512)
  --rounds N          rounds over all points (default 5)
  --json OUT          write all rates to OUT
`;

interface VariantsOptions extends PointLists {
  readonly model: string;
  readonly variants: ReadonlyMap<string, LoadOptions>;
  readonly peers: ReadonlyMap<string, Omit<PeerOptions, 'threads'>>;
  readonly rounds: number;
  readonly json: string | null;
}

/** The rates of one point, in tokens per second, by the label of the variant or peer. */
type Rates = Map<string, number[]>;

export async function variantsBenchCommand(args: string[]): Promise<void> {
  const options = readOptions(args);
  if (options === null) {
    process.stdout.write(USAGE);
    return;
  }
  const engines = new Map<string, Engine>();
  try {
    for (const [label, load] of options.variants)
      engines.set(
        label,
        new Engine(await loadAddon().load(`${options.model}#${label}`, options.model, load, () => undefined)),
      );
    const rates = await measure(options, engines);
    process.stdout.write(table(rates));
    if (options.json !== null) writeFileSync(options.json, resultOf(options, engines, rates));
  } finally {
    for (const engine of engines.values()) await engine.close();
  }
}

async function measure(options: VariantsOptions, engines: Map<string, Engine>): Promise<Map<string, Rates>> {
  const inspection = await loadAddon().inspect(options.model, [...options.variants.values()][0]!);
  const points = new Map<string, [label: string, measure: () => Promise<number>][]>();
  const add = (point: string, label: string, run: () => Promise<number>): void => {
    points.set(point, [...(points.get(point) ?? []), [label, run]]);
  };
  for (const [label, engine] of engines) {
    await finish(engine, submission(engine, 64, 8)); // warm-up
    const none: PeerOptions = { bench: null, batchedBench: null, model: options.model, threads: 1 };
    for (const point of pointsOf(engine, options, inspection, none))
      add(point.name, label, async () => (await point.measure()).rate);
  }
  const [engine] = engines.values();
  for (const [label, peer] of options.peers)
    for (const point of pointsOf(engine!, options, inspection, { ...peer, threads: engine!.backend.threads })) {
      const run = point.peer();
      if (run !== null) add(point.name, label, run);
    }
  const rates = new Map<string, Rates>([...points.keys()].map((name) => [name, new Map()]));
  for (let round = 0; round < options.rounds; round++) {
    for (const [name, runs] of points)
      for (const [label, run] of round % 2 === 0 ? runs : runs.toReversed()) {
        const of = rates.get(name)!;
        of.set(label, [...(of.get(label) ?? []), await run()]);
      }
    process.stderr.write(`round ${round + 1} of ${options.rounds}\n`);
  }
  return rates;
}

/** The rates of all rounds, and the ratio to the first variant's rate in the same round. */
function summary(rates: Rates, first: string): Map<string, { rate: Spread; ratio: Spread }> {
  const base = rates.get(first)!;
  return new Map(
    [...rates].map(([label, runs]) => [
      label,
      { rate: spreadOf(runs), ratio: spreadOf(runs.map((rate, round) => rate / base[round]!)) },
    ]),
  );
}

function table(rates: Map<string, Rates>): string {
  const lines: string[] = [];
  for (const [point, of] of rates) {
    lines.push(`${point}, tokens/s`);
    // In reversed rounds the first variant runs last, but a map keeps the order of the first round.
    for (const [label, { rate, ratio }] of summary(of, [...of.keys()][0]!))
      lines.push(
        `  ${label.padEnd(24)}${rate.median.toFixed(1).padStart(8)} (${rate.min.toFixed(1)} to ${rate.max.toFixed(1)})`.padEnd(
          62,
        ) + `${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)} to ${ratio.max.toFixed(2)})`,
      );
  }
  return `${lines.join('\n')}\n`;
}

function resultOf(options: VariantsOptions, engines: Map<string, Engine>, rates: Map<string, Rates>): string {
  const [engine] = engines.values();
  const result = {
    bench: 'variants',
    commit: commit(),
    at: new Date().toISOString(),
    machine: machine(),
    model: options.model,
    quantization: engine!.info.quantization,
    parameters: engine!.info.parameters,
    threads: engine!.backend.threads,
    maxBatchTokens: [...options.variants.values()][0]!.maxBatchTokens,
    tokens: options.tokens,
    variants: Object.fromEntries(
      [...options.variants].map(([label, { isa, arithmetic }]) => [label, { isa, arithmetic }]),
    ),
    rates: Object.fromEntries([...rates].map(([point, of]) => [point, Object.fromEntries(of)])),
  };
  return `${JSON.stringify(result, null, 1)}\n`;
}

function readOptions(args: string[]): VariantsOptions | null {
  const text = { type: 'string' } as const,
    texts = { type: 'string', multiple: true } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      model: text,
      variant: texts,
      peer: texts,
      threads: text,
      prefill: text,
      batch: text,
      depth: text,
      tokens: text,
      'max-batch-tokens': text,
      rounds: text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) return null;
  const { model } = values;
  if (model === undefined) throw new Error(`--model is required\n\n${USAGE}`);
  const number = (name: keyof typeof values, fallback: string, least: number): number => {
    const raw = values[name] ?? fallback;
    const value = Number(raw);
    if (!Number.isSafeInteger(value) || value < least)
      throw new Error(`--${name}: "${String(raw)}" is not an integer of at least ${least}`);
    return value;
  };
  const list = (name: 'prefill' | 'batch' | 'depth', fallback: string): number[] =>
    (values[name] ?? fallback)
      .split(',')
      .filter((item) => item !== '')
      .map((item) => {
        const value = Number(item);
        if (!Number.isSafeInteger(value) || value < 1)
          throw new Error(`--${name}: "${item}" is not an integer of at least 1`);
        return value;
      });
  const labeled = (name: string, raw: string): [label: string, rest: string] => {
    const at = raw.indexOf('=');
    if (at < 1) throw new Error(`--${name}: "${raw}" has no label; expected LABEL=…`);
    return [raw.slice(0, at), raw.slice(at + 1)];
  };
  const batch = list('batch', '1,32');
  const load: LoadOptions = {
    ...benchLoadOptions,
    threads: number('threads', '0', 0),
    prefixCache: true,
    maxBatchTokens: number('max-batch-tokens', '512', 1),
    maxSequences: Math.max(32, ...batch),
  };
  const variants = (values.variant ?? ['auto=auto']).map((raw): [string, LoadOptions] => {
    const [label, rest] = labeled('variant', raw);
    const [isa, arithmetic, more] = rest.split(':');
    if (more !== undefined) throw new Error(`--variant: "${raw}" has more than an ISA and an arithmetic`);
    return [label, { ...load, ...kernelOptions(isa, arithmetic) }];
  });
  const peers = (values.peer ?? []).map((raw): [string, Omit<PeerOptions, 'threads'>] => {
    const [label, rest] = labeled('peer', raw);
    const [folder = '', ...extra] = rest.split(' ').filter((word) => word !== '');
    const batchedBench = extra.length > 0 ? null : join(folder, 'llama-batched-bench');
    return [label, { bench: join(folder, 'llama-bench'), batchedBench, model, extra }];
  });
  const labels = [...variants, ...peers].map(([label]) => label);
  const twice = labels.find((label, index) => labels.indexOf(label) < index);
  if (twice !== undefined) throw new Error(`the label "${twice}" is used twice`);
  return {
    model,
    variants: new Map(variants),
    peers: new Map(peers),
    prefill: list('prefill', '512'),
    batch,
    depth: list('depth', ''),
    tokens: number('tokens', '16', 2),
    peerMost: 4_096,
    rounds: number('rounds', '5', 1),
    json: values.json ?? null,
  };
}
