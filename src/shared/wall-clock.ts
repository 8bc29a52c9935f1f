// From the clock that is never set to the one on the wall. Pure but for the two clocks.

import { performance } from 'node:perf_hooks';

/**
 * performance.now() → milliseconds since 1970, by the wall's clock as it stands now. Times of one request go through one of
 * these at its end: the wall's clock may be set while a server runs, and the other stands still while the machine sleeps, so
 * what was read of the two at different times does not fit together.
 */
export function wallClock(): (at: number) => number {
  const offset = Date.now() - performance.now();
  return (at) => at + offset;
}
