// Converts monotonic time to wall-clock time. Pure except for reading the two clocks.

import { performance } from 'node:perf_hooks';

/**
 * Converts performance.now() to milliseconds since the Unix epoch, by the current wall clock. All of a request's times
 * must be converted with the same converter, when the request ends. The wall clock may be changed while the server
 * runs, and the monotonic clock stops while the machine sleeps, so offsets taken at different times are inconsistent.
 */
export function wallClock(): (at: number) => number {
  const offset = Date.now() - performance.now();
  return (at) => at + offset;
}
