// The processes that share the database. Each HTTP worker thread has a row with a lease that it renews. When a lease
// expires, other processes take over the thread's running work and release its holds.

import type { Migration } from './migration.js';

export const processes: Migration = {
  what: 'processes and their leases',
  oldest: 1,
  statements: [
    `CREATE TABLE processes (
      id text COLLATE "C" PRIMARY KEY,
      lease_until double precision NOT NULL,
      started_at timestamptz NOT NULL DEFAULT now()
    )`,
  ],
};
