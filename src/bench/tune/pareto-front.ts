// The Pareto front of several objectives. No side effects.

/**
 * `objectives`: for each point, the values to minimize. Returns, for each point, whether no other point is at least as
 * good in all values and better in one.
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
