// Selects the settings to try next: maximizes the expected improvement in goodput times the probability that every
// objective is met. Gaussian processes model the throughput, the fraction of good requests where the objectives are
// met, and each objective (Gardner et al., Bayesian Optimization with Inequality Constraints, 2014). Pure: the same
// seed and measurements yield the same points.

import { GaussianProcess } from './gaussian-process.js';
import { normal, randomFrom } from '../../shared/random.js';
import type { Random } from '../../shared/random.js';
import { Space } from './space.js';
import type { Knob, Point } from './space.js';

export interface Observation {
  readonly point: Point;
  /** Completed requests per second. */
  readonly throughput: number;
  /** Completed requests that met every objective, per second. */
  readonly goodput: number;
  /** For each objective, the measured value divided by the limit. If it is above 1, the objective is missed. */
  readonly ratios: readonly number[];
  /**
   * Whether the measurement ended early because objectives were missed. If so, its throughput is meaningless and its
   * ratios are lower bounds.
   */
  readonly stopped: boolean;
}

/** The prediction for a point. */
export interface Forecast {
  readonly throughput: number;
  readonly met: number;
  readonly ratios: readonly number[];
}

export interface SearchOptions {
  readonly knobs: readonly Knob[];
  readonly seed: number;
  /**
   * Number of initial points, which cover the search space before the model selects points. Default: two per setting.
   */
  readonly spread?: number;
}

const CANDIDATES = 900;
const NEAR = 300;
/**
 * Hyperparameters are fitted from scratch each time this many measurements have been added. Fits in between start from
 * the previous hyperparameters.
 */
const ANEW = 8;
/** Ratios are clamped here, because far beyond an objective the distance does not matter. */
const MAX_LOG_RATIO = 1.5;
/** Points with at least this probability count as feasible. */
const LIKELY = 0.5;
/** Minimum probability of meeting the objectives for an unmeasured point to be chosen as the predicted best. */
const SURE = 0.8;
/**
 * Lower bound for the fraction of good requests. Smaller fractions are raised to this value, so that the model does not
 * distinguish between them.
 */
const MIN_SHARE = 0.05;

interface Models {
  throughput: GaussianProcess;
  good: GaussianProcess | null;
  ratios: GaussianProcess[];
}

export class Search {
  readonly space: Space;
  readonly #random: Random;
  readonly #spread: Point[];
  readonly #seen: Observation[] = [];
  #models: Models | null = null;
  #before: Models | null = null; // fitted to fewer measurements than there are now

  constructor({ knobs, seed, spread = 2 * knobs.length }: SearchOptions) {
    this.space = new Space(knobs);
    this.#random = randomFrom(seed);
    this.#spread = this.space.spread(spread, this.#random);
  }

  get observations(): readonly Observation[] {
    return this.#seen;
  }

  tell(observation: Observation): void {
    this.#seen.push(observation);
    this.#models = null;
  }

  /** The next point to measure. `fixed`: settings that keep the given values, even outside the search space. */
  ask(fixed: Point = {}): Point {
    if (Object.keys(fixed).length === 0) {
      const next = this.#spread.shift();
      if (next !== undefined) return next;
    }
    const models = this.#fitted();
    if (models === null) return { ...this.space.point(this.space.knobs.map(() => this.#random())), ...fixed };
    const measured = new Set(this.#seen.map(({ point }) => this.space.key(point)));
    const best = this.#bestLog(models, fixed);
    let chosen: Point | null = null;
    let most = -Infinity;
    for (const candidate of this.#candidates(fixed)) {
      const key = this.space.key(candidate);
      if (measured.has(key)) continue;
      const value = this.#gain(models, this.space.unit(candidate), best);
      if (value > most) {
        most = value;
        chosen = candidate;
      }
    }
    // All candidates have been measured, which can happen in a small search space.
    return chosen ?? { ...this.space.point(this.space.knobs.map(() => this.#random())), ...fixed };
  }

  forecast(point: Point): Forecast | null {
    const models = this.#fitted();
    if (models === null) return null;
    const unit = this.space.unit(point);
    return {
      throughput: Math.exp(models.throughput.at(unit).mean),
      met: chance(models, unit),
      ratios: models.ratios.map((model) => Math.exp(model.at(unit).mean)),
    };
  }

  /** Measured points that meet the objectives, best first. `matching`: only points with these values. */
  ranked(matching: Point = {}): Point[] {
    const models = this.#fitted();
    const points = new Map<string, Observation[]>();
    for (const one of this.#seen) {
      if (!agrees(one.point, matching)) continue;
      const key = this.space.key(one.point);
      points.set(key, [...(points.get(key) ?? []), one]);
    }
    return [...points.values()]
      .flatMap((runs) => {
        const [{ point }] = runs as [Observation];
        if (!runs.every(({ ratios, stopped }) => !stopped && ratios.every((ratio) => ratio <= 1))) return [];
        const measured =
          runs.reduce(
            (sum, { throughput, goodput }) => sum + Math.log(throughput * shareOf({ throughput, goodput })),
            0,
          ) / runs.length;
        // Points are ranked by the model's prediction, which takes neighboring points into account, so that a single
        // lucky measurement is not ranked first.
        return [{ point, worth: models === null ? measured : worth(models, this.space.unit(point)) }];
      })
      .sort((a, b) => b.worth - a.worth)
      .map(({ point }) => point);
  }

  /**
   * The point with these values that is predicted to be the best, even if it has not been measured. Null if no point
   * meets the objectives with enough confidence.
   */
  believed(fixed: Point): Point | null {
    const models = this.#fitted();
    if (models === null) return null;
    let best: { point: Point; worth: number } | null = null;
    for (const point of this.#candidates(fixed)) {
      const unit = this.space.unit(point);
      if (chance(models, unit) < SURE) continue;
      const one = { point, worth: worth(models, unit) };
      if (best === null || one.worth > best.worth) best = one;
    }
    return best?.point ?? null;
  }

  #fitted(): Models | null {
    if (this.#models !== null) return this.#models;
    const counted = this.#seen.filter(({ stopped, throughput }) => !stopped && throughput > 0);
    if (counted.length < 2) return null;
    // Uses only points that meet the objectives. Otherwise, the low fractions of points that miss the objectives would
    // affect points that barely meet them.
    const met = counted.filter(({ ratios }) => ratios.every((ratio) => ratio <= 1));
    const objectives = this.#seen[0]?.ratios.length ?? 0;
    const all = this.#seen.map(({ point }) => this.space.unit(point));
    const near = this.#seen.length % ANEW === 0 ? null : this.#before;
    this.#models = {
      throughput: GaussianProcess.fit(
        counted.map(({ point }) => this.space.unit(point)),
        counted.map(({ throughput }) => Math.log(throughput)),
        near?.throughput.parameters,
      ),
      good:
        met.length < 2
          ? null
          : GaussianProcess.fit(
              met.map(({ point }) => this.space.unit(point)),
              met.map(shareOf),
              near?.good?.parameters,
            ),
      ratios: Array.from({ length: objectives }, (_, at) =>
        GaussianProcess.fit(
          all,
          this.#seen.map(({ ratios, stopped }) => logRatio(ratios[at] as number, stopped)),
          near?.ratios[at]?.parameters,
        ),
      ),
    };
    this.#before = this.#models;
    return this.#models;
  }

  /**
   * Logarithm of the best goodput among the points that are predicted to meet the objectives; null if there are
   * none.
   */
  #bestLog(models: Models, fixed: Point): number | null {
    let best: number | null = null;
    for (const { point, stopped, ratios } of this.#seen) {
      if (stopped || !agrees(point, fixed) || ratios.some((ratio) => ratio > 1)) continue;
      const unit = this.space.unit(point);
      if (chance(models, unit) < LIKELY) continue;
      const mean = logGoodput(models, unit);
      if (best === null || mean > best) best = mean;
    }
    return best;
  }

  #gain(models: Models, unit: readonly number[], best: number | null): number {
    const met = chance(models, unit);
    if (best === null) return met;
    const { deviation } = models.throughput.at(unit);
    const z = (logGoodput(models, unit) - best) / deviation;
    return met * deviation * (z * distribution(z) + Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI));
  }

  /** Random points in the whole search space, and points near the best ones. */
  *#candidates(fixed: Point): Iterable<Point> {
    const { knobs } = this.space;
    const place = (unit: readonly number[]): Point => ({ ...this.space.point(unit), ...fixed });
    for (let at = 0; at < CANDIDATES; at++) yield place(knobs.map(() => this.#random()));
    const good = this.ranked()
      .slice(0, 4)
      .map((point) => this.space.unit(point));
    if (good.length === 0) return;
    for (let at = 0; at < NEAR; at++) {
      const center = good[at % good.length] as number[];
      const width = at % 2 === 0 ? 0.03 : 0.12;
      yield place(center.map((value) => (this.#random() < 0.5 ? value : value + width * normal(this.#random))));
    }
  }
}

const agrees = (point: Point, fixed: Point): boolean =>
  Object.entries(fixed).every(([name, value]) => point[name] === value);

function logRatio(ratio: number, stopped: boolean): number {
  const log = Math.log(Math.max(1e-3, Number.isFinite(ratio) ? ratio : Math.exp(MAX_LOG_RATIO)));
  return Math.min(MAX_LOG_RATIO, stopped ? log : Math.max(-2 * MAX_LOG_RATIO, log));
}

const shareOf = ({ throughput, goodput }: Pick<Observation, 'throughput' | 'goodput'>): number =>
  Math.min(1, Math.max(MIN_SHARE, goodput / throughput));

function logGoodput({ throughput, good }: Models, unit: readonly number[]): number {
  return throughput.at(unit).mean + Math.log(Math.min(1, Math.max(MIN_SHARE, good?.at(unit).mean ?? 1)));
}

/**
 * A point's rank depends on its goodput and, to a lesser degree, on the probability that the next measurement meets the
 * objectives.
 */
const worth = (models: Models, unit: readonly number[]): number =>
  logGoodput(models, unit) + 0.5 * Math.log(Math.max(0.02, chance(models, unit)));

/** Probability that all objectives are met. */
function chance({ ratios }: Models, unit: readonly number[]): number {
  let all = 1;
  for (const model of ratios) {
    const { mean, deviation } = model.at(unit);
    all *= distribution(-mean / deviation);
  }
  return all;
}

/**
 * Cumulative distribution function of the standard normal distribution (Abramowitz and Stegun, 7.1.26: within 2e-7).
 */
function distribution(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const k = 1 / (1 + 0.3275911 * x);
  const tail =
    0.5 *
    k *
    (0.254829592 + k * (-0.284496736 + k * (1.421413741 + k * (-1.453152027 + k * 1.061405429)))) *
    Math.exp(-x * x);
  return z > 0 ? 1 - tail : tail;
}
