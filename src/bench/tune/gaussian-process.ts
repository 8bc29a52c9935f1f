// Gaussian process regression with a Matérn 5/2 kernel, a separate length scale per input, and noise. The
// hyperparameters maximize the posterior density: likelihood (Rasmussen and Williams, Gaussian Processes for Machine
// Learning, 2006, algorithm 2.1) times log-normal priors. Pure; meant for dozens of points.

export interface Belief {
  readonly mean: number;
  readonly deviation: number;
}

/** The logarithms of each input's length scale, the signal's standard deviation, and the noise. */
type Logs = readonly number[];

const SQRT5 = Math.sqrt(5);
/** Priors, assuming inputs in the unit cube and outputs with a standard deviation of 1. */
const LENGTH = { mean: Math.log(0.7), deviation: 0.8 };
const HEIGHT = { mean: 0, deviation: 0.7 };
const NOISE = { mean: Math.log(0.05), deviation: 1 };
const JITTER = 1e-8;

interface Fitted {
  readonly inputs: readonly (readonly number[])[];
  readonly logs: Logs;
  /** Mean and standard deviation of the outputs. */
  readonly center: number;
  readonly scale: number;
  /** Cholesky factor of the inputs' covariance matrix. */
  readonly factor: Float64Array;
  readonly weights: Float64Array;
}

export class GaussianProcess {
  private constructor(private readonly fitted: Fitted) {}

  /** `start`: the hyperparameters from which the optimization starts, taken from an earlier fit to fewer points. */
  static fit(
    inputs: readonly (readonly number[])[],
    outputs: readonly number[],
    start: Logs | null = null,
  ): GaussianProcess {
    const n = outputs.length;
    const center = outputs.reduce((sum, value) => sum + value, 0) / Math.max(1, n);
    const spread = Math.sqrt(outputs.reduce((sum, value) => sum + (value - center) ** 2, 0) / Math.max(1, n));
    const scale = spread > 1e-9 ? spread : 1;
    const values = Float64Array.from(outputs, (value) => (value - center) / scale);
    const dimensions = inputs[0]?.length ?? 0;
    const first = start ?? [...Array<number>(dimensions).fill(LENGTH.mean), HEIGHT.mean, NOISE.mean];
    const logs = n < 3 ? first : climb(first, start === null ? 0.6 : 0.25, (at) => density(inputs, values, at));
    const factor = cholesky(covariance(inputs, logs), n);
    return new GaussianProcess({ inputs, logs, center, scale, factor, weights: solve(factor, values) });
  }

  get parameters(): Logs {
    return this.fitted.logs;
  }

  /** Predicts the underlying function, without measurement noise. */
  at(input: readonly number[]): Belief {
    const { inputs, logs, center, scale, factor, weights } = this.fitted;
    const n = inputs.length;
    const { lengths, height } = unfold(logs);
    const across = new Float64Array(n);
    let mean = 0;
    for (let i = 0; i < n; i++) {
      const k = height * matern(inputs[i] as readonly number[], input, lengths);
      across[i] = k;
      mean += k * (weights[i] as number);
    }
    forward(factor, across);
    let known = 0;
    for (let i = 0; i < n; i++) known += (across[i] as number) ** 2;
    return {
      mean: center + scale * mean,
      deviation: scale * Math.sqrt(Math.max(1e-12, height - known)),
    };
  }
}

function unfold(logs: Logs): { lengths: number[]; height: number; noise: number } {
  const lengths = logs.slice(0, -2).map(Math.exp);
  return { lengths, height: Math.exp(2 * (logs.at(-2) as number)), noise: Math.exp(2 * (logs.at(-1) as number)) };
}

function matern(a: readonly number[], b: readonly number[], lengths: readonly number[]): number {
  let square = 0;
  for (let d = 0; d < lengths.length; d++)
    square += (((a[d] as number) - (b[d] as number)) / (lengths[d] as number)) ** 2;
  const r = SQRT5 * Math.sqrt(square);
  return (1 + r + (r * r) / 3) * Math.exp(-r);
}

function covariance(inputs: readonly (readonly number[])[], logs: Logs): Float64Array {
  const n = inputs.length;
  const { lengths, height, noise } = unfold(logs);
  const matrix = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < i; j++)
      matrix[i * n + j] = height * matern(inputs[i] as readonly number[], inputs[j] as readonly number[], lengths);
    matrix[i * n + i] = height + noise + JITTER;
  }
  return matrix;
}

/** Log posterior density of the hyperparameters, up to a constant. */
function density(inputs: readonly (readonly number[])[], values: Float64Array, logs: Logs): number {
  const n = values.length;
  const factor = cholesky(covariance(inputs, logs), n);
  const half = Float64Array.from(values);
  forward(factor, half);
  let sum = 0;
  for (let i = 0; i < n; i++) sum -= 0.5 * (half[i] as number) ** 2 + Math.log(factor[i * n + i] as number);
  const priors = [...Array<typeof LENGTH>(logs.length - 2).fill(LENGTH), HEIGHT, NOISE];
  priors.forEach(({ mean, deviation }, at) => {
    sum -= 0.5 * (((logs[at] as number) - mean) / deviation) ** 2;
  });
  return sum;
}

/**
 * Computes the lower triangle of the Cholesky factor in place. A pivot that rounding has made negative is replaced by a
 * tiny positive one.
 */
function cholesky(matrix: Float64Array, n: number): Float64Array {
  for (let j = 0; j < n; j++) {
    for (let i = j; i < n; i++) {
      let sum = matrix[i * n + j] as number;
      for (let k = 0; k < j; k++) sum -= (matrix[i * n + k] as number) * (matrix[j * n + k] as number);
      matrix[i * n + j] = i === j ? Math.sqrt(Math.max(sum, JITTER)) : sum / (matrix[j * n + j] as number);
    }
  }
  return matrix;
}

/** Solves L x = b in place. */
function forward(factor: Float64Array, b: Float64Array): void {
  const n = b.length;
  for (let i = 0; i < n; i++) {
    let sum = b[i] as number;
    for (let k = 0; k < i; k++) sum -= (factor[i * n + k] as number) * (b[k] as number);
    b[i] = sum / (factor[i * n + i] as number);
  }
}

function solve(factor: Float64Array, values: Float64Array): Float64Array {
  const n = values.length;
  const b = Float64Array.from(values);
  forward(factor, b);
  for (let i = n - 1; i >= 0; i--) {
    let sum = b[i] as number;
    for (let k = i + 1; k < n; k++) sum -= (factor[k * n + i] as number) * (b[k] as number);
    b[i] = sum / (factor[i * n + i] as number);
  }
  return b;
}

/**
 * Coordinate ascent. The step size of a coordinate grows after a step that improves the result and shrinks after one
 * that does not.
 */
function climb(start: Logs, step: number, heightAt: (logs: Logs) => number): number[] {
  const at = [...start];
  let height = heightAt(at);
  const steps = at.map(() => step);
  for (let round = 0; round < 24 && Math.max(...steps) > 0.05; round++) {
    for (let axis = 0; axis < at.length; axis++) {
      const before = at[axis] as number;
      const step = steps[axis] as number;
      let isBetter = false;
      for (const direction of [step, -step]) {
        at[axis] = before + direction;
        const there = heightAt(at);
        if (there > height) {
          height = there;
          isBetter = true;
          break;
        }
        at[axis] = before;
      }
      steps[axis] = isBetter ? Math.min(1.2, step * 1.3) : step * 0.5;
    }
  }
  return at;
}
