// The Pareto front of several objectives. Pure.

/**
 * `wishes`: for each point, the values to minimize. True if no other point is at most as large in all values and
 * smaller in one.
 */
export function paretoFrontOf(objectives: readonly (readonly number[])[]): boolean[] {
  return objectives.map(
    (own) =>
      !objectives.some(
        (other) =>
          other !== own &&
          other.every((value, at) => value <= (own[at] as number)) &&
          other.some((value, at) => value < (own[at] as number)),
      ),
  );
}
