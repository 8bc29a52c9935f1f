// Converts monotonic time to wall-clock time. Pure except for reading the two clocks.

import { performance } from 'node:perf_hooks';

/**
 * performance.now() → milliseconds since the Unix epoch, by the current wall clock. Convert all times of a request with
 * one converter, at its end: the wall clock may be set while the server runs, and the monotonic clock stops while the
 * machine sleeps, so offsets taken at different times are inconsistent.
 */
export function wallClock(): (at: number) => number {
  const offset = Date.now() - performance.now();
  return (at) => at + offset;
}
