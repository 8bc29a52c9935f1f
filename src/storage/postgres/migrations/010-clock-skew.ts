// How far each HTTP worker thread's clock is ahead of the database's, in milliseconds. Threads of earlier releases
// leave it empty.

import type { Migration } from './migration.js';

export const clockSkew: Migration = {
  what: 'clock skew of each process',
  oldest: 1,
  statements: ['ALTER TABLE processes ADD COLUMN skew_ms double precision'],
};
