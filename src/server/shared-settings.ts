// Requires the shared database and Redis to be configured together. Limits that are counted across processes require
// all processes to have the same organizations. Conversely, without Redis, an organization in the shared database would
// get its full limits from each process.

import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';

export function checkShared({ database, redis }: Pick<Config, 'database' | 'redis'>): void {
  if ((database.url === null) === (redis.url === null)) return;
  const [given, absent] = database.url === null ? ['redis.url', 'database.url'] : ['database.url', 'redis.url'];
  throw new StartError(
    `${given} is set, but ${absent} is not. Several processes need both a shared database (--database) and Redis (--redis); a single process needs neither. See docs/guides/scaling.md.`,
  );
}
