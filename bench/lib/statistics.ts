// Summarizes repeated measurements by median and spread, never by the mean alone.

export interface Spread {
  median: number;
  min: number;
  max: number;
  runs: number[];
}

export function spreadOf(runs: readonly number[]): Spread {
  const sorted = [...runs].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const at = (index: number): number => sorted[index] ?? NaN;
  const median = sorted.length % 2 === 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2;
  return { median, min: at(0), max: at(sorted.length - 1), runs: [...runs] };
}
