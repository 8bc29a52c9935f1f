// A simulated engine for tuning runs, and the exhaustive grid search to which the runs are compared.
import { Space } from '../../src/bench/tune/space.js';
import type { HeldEngine, Measure } from '../../src/bench/tune/ports.js';
import type { TuneSettings } from '../../src/shared/wire/tuning.js';
import { simulate } from './engine-surface.js';
import type { Surface } from './engine-surface.js';

export const RANGES = {
  max_batch_tokens: { min: 1, max: 4_096 },
  max_sequences: { min: 1, max: 256 },
  step_ms: { min: 0, max: 60_000 },
};
export const MAX_LOAD = 128;
export const REQUESTS = 100;

/** An engine that records its settings. `kept`: the settings that a real engine would have after a restart. */
export class SimulatedEngine implements HeldEngine {
  readonly ranges = RANGES;
  readonly taken = new AbortController();
  readonly lost: HeldEngine['lost'] = this.taken.signal;
  inForce: TuneSettings;
  kept: TuneSettings;
  released = 0;

  constructor(readonly before: TuneSettings) {
    this.inForce = before;
    this.kept = before;
  }

  set(settings: TuneSettings): Promise<void> {
    this.inForce = settings;
    return Promise.resolve();
  }

  apply(settings: TuneSettings): Promise<void> {
    this.kept = settings;
    return Promise.resolve();
  }

  release(): Promise<void> {
    this.released++;
    this.inForce = this.kept;
    return Promise.resolve();
  }
}

/** `worse` returns a factor by which the measured latencies are multiplied. */
export function measuring(surface: Surface, engine: SimulatedEngine, worse: () => number = () => 1): Measure {
  return ({ load, seed }) => {
    const { throughput, ttft, itl, seconds } = simulate(surface, engine.inForce, load, REQUESTS, seed);
    const verdicts = [
      { name: 'ttft', limit: surface.ttftMs, value: ttft * worse() },
      { name: 'itl', limit: surface.itlMs, value: itl * worse() },
    ].map((verdict) => ({ ...verdict, met: verdict.value <= verdict.limit }));
    return Promise.resolve({
      seconds,
      throughput,
      goodput: throughput * (verdicts.every(({ met }) => met) ? 1 : 0.5),
      outputTokensPerSecond: throughput * surface.answer,
      ttftMs: [ttft / 2, ttft],
      itlMs: [itl / 2, itl],
      verdicts,
      stopped: false,
      errors: {},
    });
  };
}

export interface Truth {
  readonly throughput: number;
  readonly worst: number;
}

/** A point's true values, measured with many requests. */
export function truth(surface: Surface, settings: TuneSettings, load: number): Truth {
  const { throughput, ttft, itl } = simulate(surface, settings, load, 12 * REQUESTS, 4_711);
  return { throughput, worst: Math.max(ttft / surface.ttftMs, itl / surface.itlMs) };
}

/** Maximum ratio between a measured percentile and the true percentile. */
export const TOLERANCE = 1.1;

/**
 * Returns the best of all combinations. The most promising combinations are measured again with many requests.
 * `seconds`: the total time for measuring all combinations.
 */
export function exhaustive(
  surface: Surface,
  steps: Readonly<Record<string, number>>,
): { points: number; seconds: number; best: number } {
  const space = new Space([
    { name: 'max_batch_tokens', min: 16, max: 4_096 },
    { name: 'max_sequences', min: 1, max: 256 },
    { name: 'step_ms', min: 5, max: 1_000 },
    { name: 'load', min: 1, max: MAX_LOAD },
  ]);
  const points = space.grid(steps);
  let seconds = 0;
  const met = points
    .flatMap((point, at) => {
      const settings = point as unknown as TuneSettings;
      const load = point['load'] as number;
      const one = simulate(surface, settings, load, REQUESTS, 90_000 + at);
      seconds += one.seconds;
      return one.ttft <= surface.ttftMs && one.itl <= surface.itlMs
        ? [{ settings, load, throughput: one.throughput }]
        : [];
    })
    .sort((a, b) => b.throughput - a.throughput)
    .slice(0, 6);
  const best = met
    .map(({ settings, load }) => truth(surface, settings, load))
    .filter(({ worst }) => worst <= TOLERANCE);
  return { points: points.length, seconds, best: Math.max(...best.map(({ throughput }) => throughput)) };
}
