// Draws that repeat: the same seed gives the same load. Pure.

export interface Draws {
  /** From 0 up to 1, never 1. */
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

/** A seed of its own for each number of each purpose: what is drawn for one never depends on the others. */
export const seedOf = (seed: number, ...parts: readonly number[]): number =>
  parts.reduce((mixed, part) => scramble((mixed + Math.imul(part + 1, 0x9e3779b9)) >>> 0), scramble((seed + 0x85ebca6b) >>> 0));

/** SplitMix32. */
export function drawsFrom(seed: number): Draws {
  let state = seed >>> 0;
  const bits = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    return scramble(state);
  };
  const unit = (): number => bits() / 2 ** 32;
  const open = (): number => (bits() + 0.5) / 2 ** 32;      // neither 0 nor 1, for logarithms
  // Box and Muller.
  const normal = (): number => Math.sqrt(-2 * Math.log(open())) * Math.cos(2 * Math.PI * unit());
  // Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); below 1 by their boost.
  const gamma = (shape: number): number => {
    if (shape < 1) return gamma(shape + 1) * open() ** (1 / shape);
    const d = shape - 1 / 3;
    const c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = normal();
      const v = (1 + c * x) ** 3;
      if (v > 0 && Math.log(open()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
    }
  };
  return { unit, below: (bound) => Math.floor(unit() * bound), exponential: () => -Math.log(open()), normal, gamma };
}
