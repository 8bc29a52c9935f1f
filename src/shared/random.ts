// Reproducible random numbers: the same seed yields the same sequence. No side effects.

/** Uniform in [0, 1). */
export type Random = () => number;

export interface Draws {
  /** Uniform in [0, 1). */
  unit(): number;
  /** 0 … bound - 1. */
  below(bound: number): number;
  /** Mean 1. */
  exponential(): number;
  normal(): number;
  /** Mean `shape`, scale 1. */
  gamma(shape: number): number;
}

const scramble = (value: number): number => {
  let bits = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return (bits ^ (bits >>> 15)) >>> 0;
};

/**
 * Derives a separate seed for each purpose and index, so that the random values for one never depend on the values
 * drawn for another.
 */
export const seedOf = (seed: number, ...parts: readonly number[]): number =>
  parts.reduce(
    (mixed, part) => scramble((mixed + Math.imul(part + 1, 0x9e3779b9)) >>> 0),
    scramble((seed + 0x85ebca6b) >>> 0),
  );

/** Uniform in [0, 1). SplitMix32. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    return scramble(state) / 2 ** 32;
  };
}

/** Standard normal (Box and Muller). */
export function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

export function drawsFrom(seed: number): Draws {
  const unit = randomFrom(seed);
  const open = (): number => unit() + 2 ** -33; // in (0, 1), for logarithms
  // Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), including its boost for shapes below
  // 1.
  const gamma = (shape: number): number => {
    if (shape < 1) return gamma(shape + 1) * open() ** (1 / shape);
    const d = shape - 1 / 3;
    const c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = normal(unit);
      const v = (1 + c * x) ** 3;
      if (v > 0 && Math.log(open()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
    }
  };
  return {
    unit,
    below: (bound) => Math.floor(unit() * bound),
    exponential: () => -Math.log(open()),
    normal: () => normal(unit),
    gamma,
  };
}
