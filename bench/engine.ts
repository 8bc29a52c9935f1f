// Measures how fast the engine computes: prefill by prompt length, and decode by batch size and by context depth. It
// makes the same calls as the server, including scheduling, sampling and detokenization, but without HTTP and chat
// templates. It also reports each operation's share of the step time, and how close the operation comes to the
// machine's limit. Another engine (the peer) can be measured for comparison.
//
//   npm run bench -- engine --model FILE --json OUT --peer LLAMA_BENCH --peer-batched LLAMA_BATCHED_BENCH
//
// Each pass measures every point once, alternating between this engine and the peer, so that a period in which the
// machine is slow affects both. The read-bandwidth loop runs before and after each single-stream decode, because memory
// bandwidth is what limits single-stream decode.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import type { Inspection, LoadOptions } from '../src/engine/addon-types.js';
import { Engine } from '../src/engine/engine.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { VERSION } from '../src/shared/version.js';
import { plotsOf } from './lib/engine-plots.js';
import { leastDisturbed } from './lib/disturbance.js';
import { pointsOf, sumOf, type Point, type PointLists, type StepCosts } from './lib/engine-points.js';
import { sharesOf, table, type EngineResult, type PointResult } from './lib/engine-report.js';
import { benchLoadOptions, finish, submission } from './lib/engine-requests.js';
import { commit, machine } from './lib/machine.js';
import type { PeerOptions } from './lib/peer.js';
import { spreadOf } from './lib/statistics.js';

const USAGE = `npm run bench -- engine --model FILE [options]

  --model FILE        GGUF file to measure
  --json OUT          write all results to OUT, and plots next to it
  --append            add the runs to those in OUT with the same model, backend and lengths
  --threads N         compute threads (default: one per core)
  --isa NAME          auto, plain, avx2, avx_vnni, avx512, amx, neon, neon_i8mm (default auto)
  --prefill LIST      prompt lengths in tokens (default 128,512)
  --batch LIST        numbers of concurrently decoding sequences (default 1,4,16,32)
  --depth LIST        context depths in tokens for decoding one sequence (default 512,1024)
  --tokens N          tokens decoded per sequence (default 32)
  --repeats N         passes over all points (default 5)
  --tries N           maximum attempts per point and pass to get a run undisturbed by other processes (default 3)
  --max-batch-tokens N   tokens per step (default 512)
  --peer FILE         llama-bench of llama.cpp or a fork: measures prefill and single-stream decode of the same file
  --peer-batched FILE    llama-batched-bench: measures several streams
  --peer-name NAME    name of the peer in the output (default llama.cpp)
  --peer-most N       longest prompt to measure with the peer (default 4096)
`;

interface BenchOptions extends PointLists {
  model: string;
  json: string | null;
  append: boolean;
  load: LoadOptions;
  repeats: number;
  tries: number;
  peer: Pick<PeerOptions, 'bench' | 'batchedBench'>;
  peerName: string | null;
}

interface Runs {
  ours: number[];
  peer: number[];
  ofRead: number[];
  costs: StepCosts;
  disturbed: number;
}

const BANDWIDTH_BYTES = 1 << 29;
/** A run counts as undisturbed if other processes used less than this share of the machine's CPU time. */
const FOREIGN_LIMIT = 0.03;
/** The measured arithmetic peak may vary by this share between runs on an undisturbed machine. */
const PEAK_SPREAD = 0.12;

export async function engineBenchCommand(args: string[]): Promise<void> {
  const options = readOptions(args);
  if (options === null) {
    process.stdout.write(USAGE);
    return;
  }
  const addon = loadAddon();
  const inspection = await addon.inspect(options.model, options.load);
  if (inspection.model === null) throw new Error(`${options.model}: ${inspection.reason ?? 'cannot be loaded'}`);
  const engine = new Engine(await addon.load(options.model, options.model, options.load, () => undefined));
  try {
    const { threads, isa } = engine.backend;
    process.stderr.write(
      `${options.model}: ${inspection.model.quantization}, ${(inspection.model.parameters / 1e6).toFixed(0)} M parameters, ${isa}, ${threads} threads\n`,
    );
    const points = pointsOf(engine, options, inspection, { ...options.peer, model: options.model, threads });
    const runs = new Map<Point, Runs>(
      points.map((point) => [
        point,
        { ours: [], peer: [], ofRead: [], costs: { seconds: 0, steps: 0, operations: [] }, disturbed: 0 },
      ]),
    );
    const bandwidth: number[] = [],
      integer8: number[] = [],
      float32: number[] = [];
    // The hypervisor may place two virtual cores on one physical core for a while. CPU times do not show this, but the
    // arithmetic peak halves.
    const peakNow = async (n: number): Promise<number> => (await addon.arithmeticPeak(isa, n, 2)).integer8;
    let best = threads * (await addon.arithmeticPeak(isa, 1, 5)).integer8;
    const lacking = async (): Promise<number> => {
      const now = await peakNow(threads);
      best = Math.max(best, now);
      return best === 0 ? 0 : Math.max(0, 1 - now / best - PEAK_SPREAD);
    };
    const calm = <T>(work: () => Promise<T>) => leastDisturbed(options.tries, FOREIGN_LIMIT, work, lacking);
    const readLoop = async (): Promise<number> =>
      (await calm(() => addon.readBandwidth(threads, BANDWIDTH_BYTES, 3))).value / 1e9;
    await finish(engine, submission(engine, 64, 8)); // warm-up
    for (let repeat = 0; repeat < options.repeats; repeat++) {
      const { value: peak } = await calm(() => addon.arithmeticPeak(isa, threads, 3));
      integer8.push(peak.integer8 / 1e9);
      float32.push(peak.float32 / 1e9);
      for (const [point, own] of runs) {
        // Another guest on the same host may take half of the memory bandwidth at any time.
        const before = point.bytesPerToken === undefined ? null : await readLoop();
        const {
          value: { rate, costs },
          foreignShare,
        } = await calm(() => point.measure());
        own.ours.push(rate);
        own.costs = sumOf(own.costs, costs);
        let disturbed = foreignShare > FOREIGN_LIMIT;
        if (point.peer() !== null) {
          const theirs = await calm(() => point.peer()!());
          own.peer.push(theirs.value);
          disturbed ||= theirs.foreignShare > FOREIGN_LIMIT;
        }
        if (before !== null && point.bytesPerToken !== undefined) {
          const read = (before + (await readLoop())) / 2;
          bandwidth.push(read);
          own.ofRead.push((rate * point.bytesPerToken) / 1e9 / read);
        }
        if (disturbed) own.disturbed++;
      }
      if (bandwidth.length === 0) bandwidth.push(await readLoop());
      process.stderr.write(`pass ${repeat + 1} of ${options.repeats}\n`);
    }
    const fresh = resultOf(options, engine, inspection, runs, { bandwidth, integer8, float32 });
    const before =
      options.append && options.json !== null && existsSync(options.json)
        ? (JSON.parse(readFileSync(options.json, 'utf8')) as EngineResult)
        : null;
    const result = before === null ? fresh : merged(before, fresh);
    process.stdout.write(`${table(result)}\n`);
    if (options.json === null) return;
    writeFileSync(options.json, `${JSON.stringify(result, null, 1)}\n`);
    for (const [suffix, svg] of plotsOf(result))
      writeFileSync(options.json.replace(/(\.json)?$/, `-${suffix}.svg`), svg);
  } finally {
    await engine.close();
  }
}

function resultOf(
  options: BenchOptions,
  engine: Engine,
  inspection: Inspection,
  runs: Map<Point, Runs>,
  rooflines: Record<'bandwidth' | 'integer8' | 'float32', number[]>,
): EngineResult {
  const {
    architecture,
    name,
    parameters,
    contextLength,
    layers,
    heads,
    kvHeads,
    headDim,
    embedding,
    feedForward,
    vocabulary,
    quantization,
  } = engine.info;
  return derived({
    bench: 'engine',
    version: VERSION,
    commit: commit(),
    at: new Date().toISOString(),
    machine: machine(),
    model: {
      architecture,
      name,
      parameters,
      contextLength,
      layers,
      heads,
      kvHeads,
      headDim,
      embedding,
      feedForward,
      vocabulary,
      quantization,
      fileHash: engine.fileHash,
      fileBytes: inspection.fileBytes,
    },
    backend: engine.backend,
    load: options.load,
    tokens: options.tokens,
    peerName: options.peerName,
    readBandwidth: { unit: 'GB/s', ...spreadOf(rooflines.bandwidth) },
    peak: { unit: '10^9 operations/s', integer8: spreadOf(rooflines.integer8), float32: spreadOf(rooflines.float32) },
    results: [...runs].map(
      ([point, { ours, peer, ofRead, costs, disturbed }]): PointResult => ({
        name: point.name,
        unit: 'tokens/s',
        kind: point.kind,
        size: point.size,
        ...spreadOf(ours),
        disturbed,
        costs,
        operations: [],
        ...(point.bytesPerToken === undefined
          ? {}
          : { bytesPerToken: point.bytesPerToken, ofReadBandwidth: spreadOf(ofRead) }),
        ...(peer.length === 0 ? {} : { peer: spreadOf(peer) }),
      }),
    ),
  });
}

/** Fills in the fields derived from the runs. */
function derived(result: EngineResult): EngineResult {
  const read = result.readBandwidth.median;
  const rooflines = {
    bytes: read * 1e9,
    integer8: result.peak.integer8.median * 1e9,
    float32: result.peak.float32.median * 1e9,
  };
  for (const point of result.results) {
    point.operations = sharesOf(point.costs, result.model.quantization ?? '', rooflines);
    if (point.bytesPerToken !== undefined) point.gigabytesPerSecond = (point.median * point.bytesPerToken) / 1e9;
    if (point.peer !== undefined) {
      const { runs } = point.peer;
      point.ratio = spreadOf(point.runs.slice(-runs.length).map((rate, index) => rate / (runs[index] ?? NaN)));
    }
  }
  return result;
}

function merged(before: EngineResult, fresh: EngineResult): EngineResult {
  const same = (what: string, a: unknown, b: unknown): void => {
    if (JSON.stringify(a) !== JSON.stringify(b))
      throw new Error(`--append: the file has ${what} ${JSON.stringify(a)}, this run ${JSON.stringify(b)}`);
  };
  same('model', before.model.fileHash, fresh.model.fileHash);
  same('backend', before.backend, fresh.backend);
  same('tokens', before.tokens, fresh.tokens);
  same('machine', before.machine.cpu, fresh.machine.cpu);
  same('commit', before.commit, fresh.commit);
  const joined = <S extends { runs: number[] }>(a: S, b: S): S => ({ ...a, ...spreadOf([...a.runs, ...b.runs]) });
  const results = new Map(before.results.map((point) => [point.name, point]));
  for (const point of fresh.results) {
    const old = results.get(point.name);
    if (old === undefined) {
      results.set(point.name, point);
      continue;
    }
    const peer =
      old.peer === undefined ? point.peer : point.peer === undefined ? old.peer : joined(old.peer, point.peer);
    results.set(point.name, {
      ...joined(old, point),
      disturbed: old.disturbed + point.disturbed,
      costs: sumOf(old.costs, point.costs),
      ...(peer === undefined ? {} : { peer }),
      ...(old.ofReadBandwidth === undefined || point.ofReadBandwidth === undefined
        ? {}
        : { ofReadBandwidth: joined(old.ofReadBandwidth, point.ofReadBandwidth) }),
    });
  }
  return derived({
    ...fresh,
    peerName: fresh.peerName ?? before.peerName,
    readBandwidth: joined(before.readBandwidth, fresh.readBandwidth),
    peak: {
      ...fresh.peak,
      integer8: joined(before.peak.integer8, fresh.peak.integer8),
      float32: joined(before.peak.float32, fresh.peak.float32),
    },
    results: [...results.values()],
  });
}

function readOptions(args: string[]): BenchOptions | null {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      model: text,
      json: text,
      threads: text,
      isa: text,
      prefill: text,
      batch: text,
      depth: text,
      tokens: text,
      repeats: text,
      tries: text,
      'max-batch-tokens': text,
      peer: text,
      'peer-batched': text,
      'peer-name': text,
      'peer-most': text,
      append: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) return null;
  if (values.model === undefined) throw new Error(`--model is required\n\n${USAGE}`);
  const number = (name: string, raw: string, least: number): number => {
    const value = Number(raw);
    if (!Number.isSafeInteger(value) || value < least)
      throw new Error(`--${name}: "${raw}" is not an integer of at least ${least}`);
    return value;
  };
  const list = (name: string, raw: string): number[] =>
    raw
      .split(',')
      .filter((item) => item !== '')
      .map((item) => number(name, item.trim(), 1));
  const batch = list('batch', values.batch ?? '1,4,16,32');
  const peer = { bench: values.peer ?? null, batchedBench: values['peer-batched'] ?? null };
  return {
    model: values.model,
    json: values.json ?? null,
    append: values.append ?? false,
    prefill: list('prefill', values.prefill ?? '128,512'),
    batch,
    depth: list('depth', values.depth ?? '512,1024'),
    tokens: number('tokens', values.tokens ?? '32', 2),
    repeats: number('repeats', values.repeats ?? '5', 1),
    tries: number('tries', values.tries ?? '3', 1),
    peer,
    peerName: peer.bench === null && peer.batchedBench === null ? null : (values['peer-name'] ?? 'llama.cpp'),
    peerMost: number('peer-most', values['peer-most'] ?? '4096', 0),
    load: {
      ...benchLoadOptions,
      threads: number('threads', values.threads ?? '0', 0),
      isa: values.isa ?? 'auto',
      prefixCache: true,
      profile: true,
      maxBatchTokens: number('max-batch-tokens', values['max-batch-tokens'] ?? '512', 1),
      maxSequences: Math.max(32, ...batch),
    },
  };
}
