// Chart scales. No side effects.

/**
 * Returns the tick values of a linear axis: at most about six round values, from 0 to the first one that is at least
 * `most`.
 */
export function ticks(most: number): number[] {
  const rough = (most > 0 ? most : 1) / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * unit).find((value) => value >= rough) ?? unit;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
}

/**
 * Returns the tick values of a logarithmic axis: 1, 2 and 5 times powers of ten that cover both bounds, at most about
 * nine values. The bounds must be positive.
 */
export function logTicks(least: number, most: number): number[] {
  const all: number[] = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power++)
    for (const factor of [1, 2, 5]) all.push(factor * 10 ** power);
  const from = all.findLastIndex((value) => value <= least * (1 + 1e-9));
  const to = all.findIndex((value) => value >= most * (1 - 1e-9));
  const within = all.slice(Math.max(0, from), to < 0 ? undefined : to + 1);
  const thin =
    within.length > 9
      ? within.filter((value, at) => at === 0 || at === within.length - 1 || Math.abs(Math.log10(value) % 1) < 1e-9)
      : within;
  return thin.length > 1 ? thin : [least, most * 2];
}
