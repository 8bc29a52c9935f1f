// Seeded random numbers: the same seed gives the same sequence, so a failed round can be repeated.

export interface Random {
  /** Returns an integer from 0 to `bound` - 1. */
  below(bound: number): number;
  pick<T>(values: readonly T[]): T;
}

/** SplitMix32. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  const below = (bound: number): number => {
    state = (state + 0x9e3779b9) >>> 0;
    let bits = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
    return Math.floor((((bits ^ (bits >>> 15)) >>> 0) / 2 ** 32) * bound);
  };
  return { below, pick: <T>(values: readonly T[]): T => values[below(values.length)] as T };
}
