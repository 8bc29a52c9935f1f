// Combines many live-view samples into one: means for gauges and rates, maximums for values whose peaks matter. Sums
// can be added to each other. No side effects.

import type { EngineSample, LiveSample, Percentiles } from '../../shared/wire/live.js';

const SERVER_MEANS = [
  'requests',
  'rejected_429',
  'rejected_503',
  'errors',
  'cancelled',
  'in_flight',
] as const satisfies readonly (keyof LiveSample)[];
const SERVER_MOST = [
  'rss_bytes',
  'loop_lag_ms',
  'http_threads',
  'viewers',
] as const satisfies readonly (keyof LiveSample)[];
const ENGINE_MEANS = [
  'running',
  'waiting',
  'batch_rows',
  'pages_total',
  'pages_free',
  'pages_cached',
  'steps_per_s',
  'prefill_tokens_per_s',
  'decode_tokens_per_s',
] as const satisfies readonly (keyof EngineSample)[];
/** These fields are averaged only over the samples in which they have a value. */
const ENGINE_PARTIAL = ['prefix_hit_rate', 'step_ms'] as const satisfies readonly (keyof EngineSample)[];
/** Append only: stored sums refer to these entries by position, and older sums contain fewer entries. */
const LATENCIES = ['ttft_ms', 'itl_ms', 'tpot_ms'] as const satisfies readonly (keyof EngineSample)[];

interface EngineSum {
  model: string;
  names: string[];
  samples: number;
  means: number[];
  /** For each field of ENGINE_PARTIAL: the sum of its values and the number of values. */
  partial: [number, number][];
  /**
   * For each latency: p50, p95 and p99, each multiplied by the count, and the count itself. All are summed over the
   * samples.
   */
  latencies: [number, number, number, number][];
  preemptions: number;
}

export interface LiveSum {
  samples: number;
  means: number[];
  most: number[];
  engines: EngineSum[];
}

export function sumOf(sample: LiveSample): LiveSum {
  return {
    samples: 1,
    means: SERVER_MEANS.map((name) => sample[name]),
    most: SERVER_MOST.map((name) => sample[name]),
    engines: sample.engines.map((engine) => ({
      model: engine.model,
      names: engine.names,
      samples: 1,
      means: ENGINE_MEANS.map((name) => engine[name]),
      partial: ENGINE_PARTIAL.map((name): [number, number] => (engine[name] === null ? [0, 0] : [engine[name], 1])),
      latencies: LATENCIES.map((name) => weighted(engine[name])),
      preemptions: engine.preemptions,
    })),
  };
}

/** Adds `more` to `sum`. */
export function addSum(sum: LiveSum, more: LiveSum): LiveSum {
  const engines = sum.engines.map((engine) => {
    const other = more.engines.find(({ model }) => model === engine.model);
    return other === undefined ? engine : addEngine(engine, other);
  });
  return {
    samples: sum.samples + more.samples,
    means: added(sum.means, more.means),
    most: sum.most.map((value, at) => Math.max(value, more.most[at] ?? 0)),
    engines: [...engines, ...more.engines.filter(({ model }) => !sum.engines.some((one) => one.model === model))],
  };
}

/** One sample that represents all the samples in the sum. */
export function sampleOf({ samples, means, most, engines }: LiveSum, at: string): LiveSample {
  return {
    at,
    engines: engines.map(engineOf),
    ...(Object.fromEntries(SERVER_MEANS.map((name, i) => [name, round((means[i] ?? 0) / samples)])) as Pick<
      LiveSample,
      (typeof SERVER_MEANS)[number]
    >),
    ...(Object.fromEntries(SERVER_MOST.map((name, i) => [name, most[i] ?? 0])) as Pick<
      LiveSample,
      (typeof SERVER_MOST)[number]
    >),
  };
}

function engineOf({ model, names, samples, means, partial, latencies, preemptions }: EngineSum): EngineSample {
  return {
    model,
    names,
    preemptions,
    ...(Object.fromEntries(ENGINE_MEANS.map((name, i) => [name, round((means[i] ?? 0) / samples)])) as Pick<
      EngineSample,
      (typeof ENGINE_MEANS)[number]
    >),
    ...(Object.fromEntries(ENGINE_PARTIAL.map((name, i) => [name, mean(partial[i])])) as Pick<
      EngineSample,
      (typeof ENGINE_PARTIAL)[number]
    >),
    ...(Object.fromEntries(LATENCIES.map((name, i) => [name, percentiles(latencies[i])])) as Pick<
      EngineSample,
      (typeof LATENCIES)[number]
    >),
  };
}

function addEngine(a: EngineSum, b: EngineSum): EngineSum {
  return {
    model: a.model,
    names: b.names,
    samples: a.samples + b.samples,
    means: added(a.means, b.means),
    partial: a.partial.map((one, at) => added(one, b.partial[at] ?? []) as [number, number]),
    latencies: LATENCIES.map(
      (_, at) => added(a.latencies[at] ?? NO_LATENCY, b.latencies[at] ?? []) as [number, number, number, number],
    ),
    preemptions: Math.max(a.preemptions, b.preemptions),
  };
}

const NO_LATENCY = [0, 0, 0, 0] as const;
const added = (a: readonly number[], b: readonly number[]): number[] => a.map((value, at) => value + (b[at] ?? 0));
const mean = (of: [number, number] | undefined): number | null =>
  of === undefined || of[1] === 0 ? null : round(of[0] / of[1]);
const weighted = (of: Percentiles | null): [number, number, number, number] =>
  of === null ? [0, 0, 0, 0] : [of.p50 * of.count, of.p95 * of.count, of.p99 * of.count, of.count];
const percentiles = (of: [number, number, number, number] | undefined): Percentiles | null =>
  of === undefined || of[3] === 0
    ? null
    : { p50: round(of[0] / of[3]), p95: round(of[1] / of[3]), p99: round(of[2] / of[3]), count: of[3] };
const round = (value: number): number => Math.round(value * 1000) / 1000;
