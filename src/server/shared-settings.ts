// Requires the shared database and Redis to be set together. Limits that are counted across processes require
// organizations that all of them know. Without Redis, shared organizations would get their full limits in each process.

import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';

export function checkShared({ database, redis }: Pick<Config, 'database' | 'redis'>): void {
  if ((database.url === null) === (redis.url === null)) return;
  const [given, absent] = database.url === null ? ['redis.url', 'database.url'] : ['database.url', 'redis.url'];
  throw new StartError(
    `${given} is set, but ${absent} is not. Several processes need both a shared database (--database) and Redis (--redis); a single process needs neither. See docs/guides/scaling.md.`,
  );
}
