// One tuning run: measures the current settings, searches for better ones, measures the best candidates again,
// alternating with the current settings, and derives a result. The engine is leased for the whole run, and its previous
// settings are restored no matter how the run ends.

import { repeatedOf } from '../load/distribution.js';
import type {
  TunePhase,
  TunePick,
  TuneResult,
  TuneRun,
  TuneSettings,
  TuneTrial,
  TuneVerdict,
} from '../../shared/wire/tuning.js';
import { paretoFrontOf } from './pareto-front.js';
import type { HeldEngine, Measure } from './ports.js';
import { newRun } from './plan.js';
import type { TunePlan } from './plan.js';
import { Search } from './search.js';
import type { Knob, Point } from './space.js';
import { verdictOf } from './verdict.js';

/** Number of repetitions for each finalist, and the initial and maximum number of finalists. */
const REPEATS = 3;
const FINALISTS = 2;
const MAX_FINALISTS = 6;
/** A finalist is dropped if its goodput is less than this fraction of the best so far. */
const HOPELESS = 0.85;
/** Step size for rates and speeds. */
const FINE = 0.01;
const STEP_RANGE = { min: 5, max: 1_000 };

const NAMES = ['max_batch_tokens', 'max_sequences', 'step_ms'] as const satisfies readonly (keyof TuneSettings)[];

interface Runs {
  readonly settings: TuneSettings;
  readonly load: number;
  readonly trials: TuneTrial[];
}

interface TuneDeps {
  engine: HeldEngine;
  measure: Measure;
  signal: AbortSignal;
  onChange: (run: TuneRun) => void;
}

export async function tune(
  plan: TunePlan,
  { engine, measure, signal, onChange, now = () => new Date() }: TuneDeps & { now?: (() => Date) | undefined },
): Promise<TuneRun> {
  const run = newRun(plan, engine.before);
  onChange(run);
  const ending = AbortSignal.any([signal, engine.lost]);
  try {
    run.result = await new Tuning(plan, run, { engine, measure, signal: ending, onChange }).result();
    run.state = 'done';
  } catch (error) {
    // If the run was aborted, the reason is fixed. If the lease was lost, the lease's signal contains the reason.
    run.state = signal.aborted ? 'stopped' : 'failed';
    run.error = signal.aborted
      ? 'Stopped early.'
      : engine.lost.aborted
        ? messageOf(engine.lost.reason)
        : messageOf(error);
  } finally {
    await engine.release().catch((error: unknown) => {
      run.state = 'failed';
      run.error = `${run.error ?? ''} The previous settings could not be restored: ${messageOf(error)}`.trim();
    });
  }
  run.ended_at = now().toISOString();
  onChange(run);
  return run;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

class Tuning {
  readonly #search: Search;
  readonly #unit: number;

  constructor(
    private readonly plan: TunePlan,
    private readonly run: TuneRun,
    private readonly deps: TuneDeps,
  ) {
    this.#unit = plan.loadKind === 'concurrency' ? 1 : FINE;
    this.#search = new Search({ knobs: knobsOf(plan, deps.engine, this.#unit), seed: plan.seed, spread: 6 });
  }

  async result(): Promise<TuneResult> {
    const { plan } = this;
    const last = REPEATS * (FINALISTS + 1) + (plan.apply ? REPEATS : 0);
    const searched = plan.trials - last;
    const asIs = this.#point(this.deps.engine.before);
    for (let at = 0; at < Math.max(3, Math.round(searched / 8)); at++) {
      await this.#trial(
        'current',
        this.deps.engine.before,
        this.#loadOf(at === 0 ? this.#middle() : this.#search.ask(asIs)),
      );
    }
    while (this.run.trials.length < searched) {
      const point = this.#search.ask();
      await this.#trial('search', settingsOf(point), this.#loadOf(point));
    }
    const { current, best } = await this.#confirmed(asIs);
    const result = verdictOf(plan, current, best, this.run.trials);
    if (result.outcome !== 'advised' || !plan.apply || result.best === null) return result;
    return await this.#applied(result, result.best);
  }

  /**
   * Measures the best points from the search and the points with the current settings again, in alternation, so that
   * drift affects all of them equally.
   */
  async #confirmed(asIs: Point): Promise<{ current: TunePick | null; best: TunePick | null }> {
    const asTheyAre = (point: Point | undefined): Runs | null =>
      point === undefined ? null : { settings: this.deps.engine.before, load: this.#loadOf(point), trials: [] };
    // Only a few loads were measured with the current settings, so a model fitted to all measurements predicts the best
    // load for these settings more accurately.
    const measured = asTheyAre(this.#search.ranked(asIs)[0]);
    let current = asTheyAre(this.#search.believed(asIs) ?? undefined) ?? measured;
    const waiting = this.#search.ranked().filter((point) => NAMES.some((name) => point[name] !== asIs[name]));
    const running: Runs[] = [];
    const done: Runs[] = [];
    let tried = 0;
    while (this.run.trials.length < this.plan.trials - (this.plan.apply ? REPEATS : 0)) {
      while (running.length < FINALISTS - done.length && waiting.length > 0 && tried < MAX_FINALISTS) {
        const point = waiting.shift() as Point;
        running.push({ settings: settingsOf(point), load: this.#loadOf(point), trials: [] });
        tried++;
      }
      const least = [...running, ...(current === null || current.trials.length >= REPEATS ? [] : [current])].sort(
        (a, b) => a.trials.length - b.trials.length,
      )[0];
      if (least === undefined) break;
      const trial = await this.#trial('confirm', least.settings, least.load);
      least.trials.push(trial);
      if (least === current) {
        if (!trial.met && measured !== null && current.load !== measured.load) current = measured;
        continue;
      }
      const leader = Math.max(
        0,
        ...[...running, ...done].filter((one) => one !== least).map((one) => meanGoodput(one)),
      );
      const drop = least.trials.some(({ met }) => !met) || meanGoodput(least) < HOPELESS * leader;
      if (drop || least.trials.length >= REPEATS) running.splice(running.indexOf(least), 1);
      if (!drop && least.trials.length >= REPEATS) done.push(least);
    }
    const [best] = [...done, ...running]
      .filter(({ trials }) => trials.length > 0 && trials.every(({ met }) => met))
      .sort((a, b) => meanGoodput(b) - meanGoodput(a));
    return {
      current: current === null || current.trials.length === 0 || !mostly(current.trials) ? null : pickOf(current),
      best: best === undefined ? null : pickOf(best),
    };
  }

  /** Runs while the lease is still held, so that if the process is killed here, the previous settings stay in force. */
  async #applied(result: TuneResult, best: TunePick): Promise<TuneResult> {
    const trials: TuneTrial[] = [];
    for (let at = 0; at < REPEATS; at++) {
      trials.push(await this.#trial('verify', best.settings, best.load));
      if (trials.filter(({ met }) => !met).length * 2 > REPEATS) break;
    }
    if (!mostly(trials)) {
      const missed = trials.flatMap(({ verdicts }) => verdicts).find(({ met }) => !met);
      return {
        ...result,
        outcome: 'rolled_back',
        says: `${result.says} A verification run missed ${missed?.name ?? 'the objectives'}, so the previous settings were restored.`,
      };
    }
    await this.deps.engine.apply(best.settings);
    return {
      ...result,
      outcome: 'applied',
      says: `${result.says} A verification run confirmed them; they are applied now and for later starts.`,
    };
  }

  async #trial(phase: TunePhase, settings: TuneSettings, load: number): Promise<TuneTrial> {
    this.deps.signal.throwIfAborted();
    const { run, plan } = this;
    run.phase = phase;
    await this.deps.engine.set(settings);
    this.deps.signal.throwIfAborted();
    const number = run.trials.length + 1;
    const measured = await this.deps.measure({
      load,
      seed: plan.seed * 1_000 + number,
      mayStopEarly: phase === 'current' || phase === 'search',
      signal: this.deps.signal,
    });
    this.deps.signal.throwIfAborted();
    const { seconds, throughput, goodput, outputTokensPerSecond, ttftMs, itlMs, verdicts, stopped, errors } = measured;
    const trial: TuneTrial = {
      number,
      phase,
      settings,
      load,
      seconds,
      throughput,
      goodput,
      output_tokens_per_s: outputTokensPerSecond,
      ttft_ms: ttftMs === null ? null : [...ttftMs],
      itl_ms: itlMs === null ? null : [...itlMs],
      verdicts: [...verdicts],
      met: !stopped && verdicts.every(({ met }) => met),
      stopped,
      errors: { ...errors },
      front: false,
    };
    run.trials.push(trial);
    markFront(run.trials);
    this.#search.tell({
      point: { ...this.#point(settings), load: Math.round(load / this.#unit) },
      throughput,
      goodput,
      ratios: verdicts.map(ratioOf),
      stopped,
    });
    this.deps.onChange(this.run);
    return trial;
  }

  #middle(): Point {
    return this.#search.space.point(this.#search.space.knobs.map(() => 0.5));
  }
  #loadOf(point: Point): number {
    return Number(((point['load'] as number) * this.#unit).toFixed(2));
  }

  /** A setting of 0 means that there is no limit; it is treated as the maximum value. */
  #point({ max_batch_tokens, max_sequences, step_ms }: TuneSettings): Point {
    return { max_batch_tokens, max_sequences, step_ms: step_ms === 0 ? STEP_RANGE.max : step_ms };
  }
}

/** The search space. `unit`: the load represented by one step. */
export function knobsOf({ minLoad, maxLoad }: TunePlan, { ranges, before }: HeldEngine, unit: number): Knob[] {
  const knobs: Knob[] = NAMES.map((name) => {
    const { min, max } =
      name === 'step_ms'
        ? { min: Math.max(STEP_RANGE.min, ranges.step_ms.min), max: Math.min(STEP_RANGE.max, ranges.step_ms.max) }
        : ranges[name];
    // Engine steps with very few tokens are never useful.
    const least = name === 'max_batch_tokens' ? Math.min(16, max, Math.max(1, before.max_batch_tokens)) : min;
    return { name, min: Math.max(1, least), max };
  });
  return [
    ...knobs,
    { name: 'load', min: Math.max(1, Math.round(minLoad / unit)), max: Math.max(1, Math.round(maxLoad / unit)) },
  ];
}

const settingsOf = (point: Point): TuneSettings => ({
  max_batch_tokens: point['max_batch_tokens'] as number,
  max_sequences: point['max_sequences'] as number,
  step_ms: point['step_ms'] as number,
});

/** An objective that could not be measured and is not met counts as missed by a wide margin. */
const ratioOf = ({ value, limit, met }: TuneVerdict): number =>
  value === null ? (met ? 1 : Infinity) : limit > 0 ? value / limit : met ? 0 : Infinity;

const mostly = (trials: readonly TuneTrial[]): boolean => trials.filter(({ met }) => met).length * 2 > trials.length;
const meanGoodput = ({ trials }: Runs): number =>
  trials.length === 0 ? 0 : trials.reduce((sum, { goodput }) => sum + goodput, 0) / trials.length;

function pickOf({ settings, load, trials }: Runs): TunePick {
  const { mean, low, high, runs } = repeatedOf(trials.map(({ goodput }) => goodput));
  const verdicts = (trials[0]?.verdicts ?? []).map(({ name, limit }, at): TuneVerdict => {
    const values = trials
      .map(({ verdicts: all }) => all[at]?.value ?? null)
      .filter((value) => value !== null)
      .sort((a, b) => a - b);
    const value = values[values.length >> 1] ?? null;
    return { name, limit, value, met: value !== null && value <= limit };
  });
  return { settings, load, goodput: { mean, low, high, runs: [...runs] }, verdicts };
}

/** Marks the Pareto front of goodput and the 99th percentile of time to first token, over the completed trials. */
function markFront(trials: TuneTrial[]): void {
  const whole = trials.filter(({ stopped, ttft_ms: ttft }) => !stopped && ttft !== null);
  const front = paretoFrontOf(whole.map(({ goodput, ttft_ms: ttft }) => [-goodput, ttft?.[1] ?? Infinity]));
  for (const trial of trials) trial.front = false;
  whole.forEach((trial, at) => {
    trial.front = front[at] === true;
  });
}
