// Which processes share the database. Each answering thread has a row with a lease that it renews: what a process had
// under way or held is given up when its lease is over.

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
