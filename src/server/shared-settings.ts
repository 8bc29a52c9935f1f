// What several processes share is two things, and one without the other is neither: limits counted together are those of
// organizations that all of them know, and organizations that all of them know would have their limits once in each process.

import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';

/** Throws StartError. */
export function checkShared({ state, counters }: Pick<Config, 'state' | 'counters'>): void {
  if ((state.url === null) === (counters.url === null)) return;
  const [given, absent] = state.url === null ? ['counters.url', 'state.url'] : ['state.url', 'counters.url'];
  throw new StartError(
    `${given} is set and ${absent} is not: several processes share both what is kept (--state) and what is counted (--counters), one process neither (docs/guides/scaling.md).`,
  );
}
