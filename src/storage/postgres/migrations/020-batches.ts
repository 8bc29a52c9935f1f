// Creates the tables of batches. Times are milliseconds since 1970.

import type { Migration } from './migration.js';

export const batches: Migration = {
  what: 'batches',
  oldest: 1,
  statements: [
    // data: the batch as JSON. The other columns repeat some of its members for queries. job_*: which process
    // validates, stops or finalizes the batch, and until when.
    `CREATE TABLE batches (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      kind text COLLATE "C" NOT NULL,
      phase text COLLATE "C" NOT NULL,
      created_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      ended_at bigint,
      job_owner text COLLATE "C" NOT NULL DEFAULT '',
      job_until bigint NOT NULL DEFAULT 0,
      data text NOT NULL
    )`,
    'CREATE INDEX batches_of ON batches (organization, kind, id)',
    'CREATE INDEX batches_active ON batches (id) WHERE ended_at IS NULL',
    'CREATE INDEX batches_ended ON batches (ended_at) WHERE ended_at IS NOT NULL',
    // outcome: null while the line is open. body: '' after the line has ended. token: '' if the line is not claimed.
    `CREATE TABLE batch_lines (
      batch_id text COLLATE "C" NOT NULL REFERENCES batches ON DELETE CASCADE,
      line integer NOT NULL,
      custom_id text NOT NULL,
      body text NOT NULL,
      owner text COLLATE "C" NOT NULL DEFAULT '',
      token text COLLATE "C" NOT NULL DEFAULT '',
      lease_until bigint NOT NULL DEFAULT 0,
      lost integer NOT NULL DEFAULT 0,
      outcome text COLLATE "C",
      result text NOT NULL DEFAULT '',
      PRIMARY KEY (batch_id, line)
    )`,
    'CREATE INDEX batch_lines_open ON batch_lines (batch_id, line) WHERE outcome IS NULL',
  ],
};
