// Requires the shared database and Redis to be set together. Limits counted across processes need organizations known
// to all of them, and shared organizations would otherwise get their full limits in each process.

import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';

export function checkShared({ state, counters }: Pick<Config, 'state' | 'counters'>): void {
  if ((state.url === null) === (counters.url === null)) return;
  const [given, absent] = state.url === null ? ['counters.url', 'state.url'] : ['state.url', 'counters.url'];
  throw new StartError(
    `${given} is set, but ${absent} is not. Several processes need both a shared database (--state) and Redis (--counters); a single process needs neither. See docs/guides/scaling.md.`,
  );
}
