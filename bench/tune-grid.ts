// Compares the tuner's search with an exhaustive grid search on a real server. Both use the same search space,
// measurements, lease and objectives, but the tuner gets only a tenth of the grid's time. The best of many noisy
// measurements is partly luck, so both winners are measured again, in turn, and only those measurements count.
//
//   npm run bench -- tune-grid --workload chat --json OUT
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '../src/engine/load-addon.js';
import { parseObjectives, showObjective } from '../src/bench/load/objectives.js';
import type { TraceRow } from '../src/bench/load/types.js';
import { drawsFrom, randomFrom } from '../src/shared/random.js';
import { measuringLoad } from '../src/bench/tune/load.js';
import type { TuneWorkload } from '../src/bench/tune/load.js';
import { MIN_TRIALS, MAX_TRIALS } from '../src/bench/tune/plan.js';
import type { TunePlan } from '../src/bench/tune/plan.js';
import type { HeldEngine, Measurement } from '../src/bench/tune/ports.js';
import { Space } from '../src/bench/tune/space.js';
import { knobsOf, tune } from '../src/bench/tune/tune.js';
import { settingsText } from '../src/bench/tune/verdict.js';
import { workloadText } from '../src/bench/tune/workload.js';
import type { TunePick, TuneRun, TuneSettings } from '../src/shared/wire/tuning.js';
import { commit, machine } from './lib/machine.js';
import { spreadOf, type Spread } from './lib/statistics.js';
import { TunedServer } from './lib/tuned-server.js';

const USAGE = `npm run bench -- tune-grid [options]

  --workload NAME   chat (default): short prompts and responses; prefixes: mixed lengths with shared prefixes
  --slo LIST        objectives (default: those of the workload)
  --model FILE      GGUF file (default: tycho-1.0)
  --steps B,S,P,L   how many values of batch tokens, sequences, step_ms and load the grid has (default 4,4,3,4)
  --seconds S       duration of each measurement (default 3)
  --most N          maximum concurrent requests (default 64)
  --tuners N        tuning runs, each with its own seed and a tenth of the grid's time (default 2)
  --trials N        measurements per tuning run (default 24); their duration follows from the available time
  --grid FILE       use the grid of an earlier result instead of measuring it
  --again N         rounds in which the settings found are measured again (default 6), --finalists N (4) of the grid's best
  --json OUT        write all results to OUT

To reduce interference from other processes: taskset -c 1 nice -n -15 npm run bench -- tune-grid …
`;

const SHARE = 0.1;
/**
 * A measurement's total time, including warm-up and shutdown, as a multiple of its measured seconds. Used to compute
 * how many measurements fit in the tuner's time.
 */
const WHOLE = 1.9;
const NAMES = ['max_batch_tokens', 'max_sequences', 'step_ms', 'load'] as const;

const WORKLOADS: Readonly<Record<string, { readonly workload: () => TuneWorkload; readonly slo: string }>> = {
  chat: {
    workload: () => ({ kind: 'fixed', promptTokens: 80, outputTokens: 24 }),
    slo: 'ttft_p95=400ms,itl_p95=40ms,errors=1%',
  },
  prefixes: { workload: prefixes, slo: 'ttft_p95=600ms,itl_p95=60ms,errors=1%' },
};

/**
 * Prompts start with one of four shared 128-token prefixes, which are soon cached, followed by 8 to 72 unique tokens.
 * Outputs have 8 to 40 tokens.
 */
function prefixes(): TuneWorkload {
  const blockTokens = 64;
  const random = randomFrom(7);
  const between = (least: number, most: number): number => least + Math.floor(random() * (most - least + 1));
  const rows = Array.from({ length: 500 }, (_, at): TraceRow => {
    const beginning = between(0, 3);
    return {
      at,
      promptTokens: 2 * blockTokens + between(8, 72),
      outputTokens: between(8, 40),
      blocks: [2 * beginning, 2 * beginning + 1, 1_000 + at],
    };
  });
  return { kind: 'rows', rows, blockTokens };
}

interface Place {
  readonly settings: TuneSettings;
  readonly load: number;
}
interface Trial extends Place {
  readonly seconds: number;
  readonly throughput: number;
  readonly goodput: number;
  readonly met: boolean;
  readonly stopped: boolean;
  readonly ratios: readonly number[];
}
interface Again extends Place {
  readonly name: string;
  readonly first: number;
  readonly goodput: Spread;
  readonly mean: number;
  readonly met: number;
}
interface Tuned {
  readonly seconds: number;
  readonly run: TuneRun;
}

export async function tuneGridBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      workload: text,
      slo: text,
      model: text,
      steps: text,
      seconds: text,
      most: text,
      tuners: text,
      trials: text,
      grid: text,
      again: text,
      finalists: text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const name = values.workload ?? 'chat';
  const known = WORKLOADS[name];
  if (known === undefined) throw new Error(`--workload must be ${Object.keys(WORKLOADS).join(' or ')} (got ${name})`);
  const number = (flag: 'seconds' | 'most' | 'tuners' | 'trials' | 'again' | 'finalists', fallback: number): number => {
    const value = Number(values[flag] ?? fallback);
    if (!(value > 0)) throw new Error(`--${flag}: ${values[flag] ?? ''} is not a number above 0`);
    return value;
  };
  const steps = (values.steps ?? '4,4,3,4').split(',').map(Number);
  if (steps.length !== 4 || steps.some((one) => !Number.isInteger(one) || one < 1))
    throw new Error('--steps must be four whole numbers, such as 4,4,3,4');
  const seconds = number('seconds', 3),
    most = number('most', 64),
    tuners = number('tuners', 2),
    rounds = number('again', 6),
    finalists = number('finalists', 4);
  const objectives = parseObjectives(values.slo ?? known.slo);
  const workload = known.workload();
  const model = values.model ?? join(packageRoot, 'models', 'tycho-1.0-q8_0.gguf');
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`);
  };

  const server = await TunedServer.start(model, ['--threads', '1']);
  try {
    const plan: TunePlan = {
      id: 'tun_bench_grid',
      model: 'bench',
      by: 'bench',
      startedAt: new Date().toISOString(),
      objectives: objectives.map(showObjective),
      workload: workloadText(workload, 'trace'),
      loadKind: 'concurrency',
      minLoad: 1,
      maxLoad: most,
      trials: 0,
      trialSeconds: seconds,
      seed: 1,
      apply: false,
    };
    const setting = { target: server.target, workload, objectives, loadKind: 'concurrency' as const };
    const measure = await measuringLoad({ ...setting, seconds });
    const never = new AbortController().signal;
    let engine = await server.hold('tun_bench_grid');
    const before = engine.before;
    const one = async ({ settings, load }: Place, seed: number, mayStopEarly: boolean): Promise<Trial> => {
      await engine.set(settings);
      return trialOf({ settings, load }, await measure({ load, seed, mayStopEarly, signal: never }));
    };

    // Discard the first measurement, so that the server is warm for the measurements that count.
    await one({ settings: before, load: 8 }, 1, false);
    const points = shuffled(gridOf(plan, engine, steps));
    say(
      `${name}: ${plan.workload}; ${plan.objectives.join(', ')}; ${points.length} points of ${seconds} s; current settings: ${settingsText(before)}`,
    );
    const earlier =
      values.grid === undefined
        ? null
        : (JSON.parse(readFileSync(values.grid, 'utf8')) as { grid: { seconds: number; trials: Trial[] } }).grid;
    const grid: Trial[] = [...(earlier?.trials ?? [])];
    const begun = performance.now();
    for (const point of earlier === null ? points : []) {
      const trial = await one(point, 10_000 + grid.length, true);
      grid.push(trial);
      say(`${String(grid.length).padStart(4)} of ${points.length}, ${elapsed(begun).toFixed(0)} s: ${shown(trial)}`);
    }
    const gridSeconds = earlier?.seconds ?? elapsed(begun);
    const gridReport = {
      steps: Object.fromEntries(NAMES.map((knob, at) => [knob, steps[at]])),
      points: grid.length,
      seconds: gridSeconds,
      met: grid.filter(({ met }) => met).length,
      trials: grid,
    };
    if (values.json !== undefined && earlier === null) write(values.json, { grid: gridReport });
    await engine.release();
    const best = grid.filter(({ met }) => met).sort((a, b) => b.goodput - a.goodput);
    // `any` ignores the objectives: it may narrowly miss an objective but have a higher goodput than `best`.
    const [any] = grid.filter(({ stopped }) => !stopped).sort((a, b) => b.goodput - a.goodput);

    const budget = SHARE * gridSeconds;
    const trials = Math.min(MAX_TRIALS, Math.max(MIN_TRIALS, number('trials', 24)));
    const trialSeconds = Math.min(seconds, budget / trials / WHOLE);
    const shorter = await measuringLoad({ ...setting, seconds: trialSeconds });
    const tuned: Tuned[] = [];
    for (let seed = 1; seed <= tuners; seed++) {
      const from = performance.now();
      const run = await tune(
        { ...plan, id: `tun_bench_${seed}`, trials, trialSeconds, seed },
        { engine: await server.hold(`tun_bench_${seed}`), measure: shorter, signal: never, onChange: () => undefined },
      );
      tuned.push({ seconds: elapsed(from), run });
      if (run.error !== null) throw new Error(run.error);
      say(
        `tuner, seed ${seed}: ${run.trials.length} measurements of ${trialSeconds.toFixed(1)} s in ${elapsed(from).toFixed(0)} s (${((elapsed(from) / gridSeconds) * 100).toFixed(1)} % of the grid's ${gridSeconds.toFixed(0)} s): ${run.result?.says ?? ''}`,
      );
    }

    const found: (Place & { name: string; first: number })[] = best.slice(0, finalists).map((trial, at) => ({
      name: `grid ${at + 1}`,
      settings: trial.settings,
      load: trial.load,
      first: trial.goodput,
    }));
    if (any !== undefined && !best.slice(0, finalists).includes(any))
      found.push({ name: 'grid, objectives aside', settings: any.settings, load: any.load, first: any.goodput });
    tuned.forEach(({ run: { result } }, at) => {
      if (result === null) return;
      const place = (which: string, pick: TunePick | null): void => {
        if (pick !== null)
          found.push({
            name: `tuner ${at + 1}, ${which}`,
            settings: pick.settings,
            load: pick.load,
            first: pick.goodput.mean,
          });
      };
      place('found', result.best ?? result.current);
      // If the tuner is not certain that any settings are better, it recommends keeping the current settings.
      if (result.outcome === 'kept' && result.best !== null) place('as it was', result.current);
    });
    engine = await server.hold('tun_bench_again');
    const again = new Map(found.map((place) => [place, [] as Trial[]]));
    for (let round = 0; round < rounds; round++) {
      for (let at = 0; at < found.length; at++) {
        const place = found[(at + round) % found.length] as (typeof found)[number];
        again.get(place)?.push(await one(place, 50_000 + round * found.length + at, false));
      }
    }
    await engine.release();
    const places = [...again].map(([place, runs]): Again => {
      const goodputs = runs.map(({ goodput }) => goodput);
      return {
        ...place,
        goodput: spreadOf(goodputs),
        mean: goodputs.reduce((sum, value) => sum + value, 0) / goodputs.length,
        met: runs.filter(({ met }) => met).length,
      };
    });
    for (const place of places) {
      say(
        `${place.name.padEnd(24)}${place.first.toFixed(1).padStart(7)} then${place.mean.toFixed(1).padStart(7)} (${place.goodput.min.toFixed(1)} to ${place.goodput.max.toFixed(1)}), met ${place.met} of ${rounds}: ${settingsText(place.settings)}, ${place.load} at once`,
      );
    }
    const meanOf = (which: string): number | null => places.find(({ name: one }) => one === which)?.mean ?? null;
    const ratio = (value: number | null, to: number | null): number | null =>
      value === null || to === null ? null : value / to;
    // A grid search alone would pick the winner of its single pass. Which of its best few settings really is the best
    // is known only after they have been measured again.
    const gridsPick = meanOf('grid 1');
    const gridsBest = Math.max(...places.filter(({ name: which }) => /^grid \d/.test(which)).map(({ mean }) => mean));
    const verdicts = tuned.map(({ seconds: took, run: { result } }, at) => {
      const found = meanOf(`tuner ${at + 1}, found`);
      return {
        seed: at + 1,
        outcome: result?.outcome,
        share_of_time: took / gridSeconds,
        share_of_winner: ratio(found, gridsPick),
        share_of_goodput: ratio(found, gridsBest),
        as_it_was: ratio(meanOf(`tuner ${at + 1}, as it was`), gridsBest),
      };
    });
    const percent = (share: number | null): string => (share === null ? '-' : `${(share * 100).toFixed(1)} %`);
    for (const {
      seed,
      outcome,
      share_of_time: time,
      share_of_winner: winner,
      share_of_goodput: goodput,
      as_it_was: kept,
    } of verdicts)
      say(
        `tuner ${seed} (${outcome}): ${percent(winner)} of what the grid would choose, ${percent(goodput)} of the best of its best ${finalists} in ${percent(time)} of its time${kept === null ? '' : `; current settings: ${percent(kept)}`}`,
      );
    if (values.json !== undefined) {
      const report = {
        bench: 'tune-grid',
        machine: machine(),
        commit: commit(),
        date: new Date().toISOString(),
        model: model.split('/').at(-1),
        workload: { name, words: plan.workload },
        objectives: plan.objectives,
        before,
        seconds,
        grid: gridReport,
        tuned: tuned.map(({ seconds: took, run }) => ({
          seconds: took,
          trial_seconds: trialSeconds,
          result: run.result,
          trials: run.trials,
        })),
        again: { rounds, places },
        verdicts,
      };
      write(values.json, report);
    }
  } finally {
    server.stop();
  }
}

function write(file: string, report: object): void {
  writeFileSync(
    file,
    `${JSON.stringify(report, (_, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value), 1)}\n`,
  );
}

const elapsed = (since: number): number => (performance.now() - since) / 1000;

/** Returns the grid over the tuner's own search space. */
function gridOf(plan: TunePlan, engine: HeldEngine, steps: readonly number[]): Place[] {
  const space = new Space(knobsOf(plan, engine, 1));
  return space.grid(Object.fromEntries(NAMES.map((name, at) => [name, steps[at] as number]))).map((point) => {
    const [max_batch_tokens, max_sequences, step_ms, load] = NAMES.map((name) => point[name]) as [
      number,
      number,
      number,
      number,
    ];
    return { settings: { max_batch_tokens, max_sequences, step_ms }, load };
  });
}

/** Shuffles the points, so that changes in the machine's speed affect all parts of the search space. */
function shuffled<T>(list: readonly T[]): T[] {
  const draws = drawsFrom(1);
  const all = [...list];
  for (let at = all.length - 1; at > 0; at--) {
    const other = draws.below(at + 1);
    [all[at], all[other]] = [all[other] as T, all[at] as T];
  }
  return all;
}

function trialOf({ settings, load }: Place, { seconds, throughput, goodput, verdicts, stopped }: Measurement): Trial {
  const ratios = verdicts.map(({ value, limit }) => (value === null ? 99 : value / limit));
  return {
    settings,
    load,
    seconds,
    throughput,
    goodput,
    met: !stopped && verdicts.every(({ met }) => met),
    stopped,
    ratios,
  };
}

const shown = ({ settings, load, throughput, goodput, met, stopped, ratios }: Trial): string =>
  `${settingsText(settings)}, ${load} concurrent: ${goodput.toFixed(1)} of ${throughput.toFixed(1)}/s, ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}${met ? '' : stopped ? ' (stopped)' : ' (missed)'}`;
