// The logarithmic scale of a slider. Ranges span several powers of ten, and small values must stay reachable. No side
// effects.

/** Number of positions of the slider. */
export const STEPS = 200;
/** Minimum distance between two ticks, as a fraction of the scale. */
const TICK_GAP = 0.12;

// A logarithmic scale cannot start at 0, so a range with a minimum below 1 is shifted to start at 1.
const shift = (min: number): number => (min < 1 ? 1 - min : 0);

const fractionOf = (value: number, min: number, max: number): number => {
  const [low, high] = [Math.log(min + shift(min)), Math.log(max + shift(min))];
  return high === low ? 0 : (Math.log(Math.min(max, Math.max(min, value)) + shift(min)) - low) / (high - low);
};

/** The slider position of a value. Values outside the range are clamped to its ends. */
export const toSlider = (value: number, min: number, max: number): number =>
  Math.round(STEPS * fractionOf(value, min, max));

/** The value at a slider position, rounded to two significant digits. The number field accepts any value. */
export function fromSlider(at: number, min: number, max: number): number {
  if (at <= 0) return min;
  if (at >= STEPS) return max;
  const [low, high] = [Math.log(min + shift(min)), Math.log(max + shift(min))];
  const exact = Math.exp(low + (at / STEPS) * (high - low)) - shift(min);
  const size = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(exact, 1))) - 1);
  return Math.min(max, Math.max(min, Math.round(exact / size) * size));
}

/** Labeled values: both ends, and as many powers of ten between them as fit. `at` is a fraction from 0 to 1. */
export function ticksOf(min: number, max: number): { value: number; at: number }[] {
  const ticks = [{ value: min, at: 0 }];
  for (let value = 1; value < max; value *= 10) {
    const at = fractionOf(value, min, max);
    if (value > min && at - (ticks.at(-1)?.at ?? 0) >= TICK_GAP && 1 - at >= TICK_GAP) ticks.push({ value, at });
  }
  return [...ticks, { value: max, at: 1 }];
}
