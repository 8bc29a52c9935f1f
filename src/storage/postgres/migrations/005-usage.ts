// Usage and the request log. Sums are kept per hour and per month, and every process adds to them. `written_batches`
// shows whether a batch whose commit was not confirmed must be written again (src/storage/postgres/batch-once.ts).

import type { Migration } from './migration.js';

export const usage: Migration = {
  what: 'usage and the request log',
  oldest: 1,
  statements: [
    `CREATE TABLE written_batches (
      id text COLLATE "C" PRIMARY KEY,
      at bigint NOT NULL
    )`,
    'CREATE INDEX written_batches_by_time ON written_batches (at)',
    `CREATE TABLE usage_rows (
      number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      ended_at bigint NOT NULL,
      usage json NOT NULL
    )`,
    'CREATE INDEX usage_rows_by_time ON usage_rows (ended_at)',
    `CREATE TABLE usage_hours (
      organization_id text COLLATE "C" NOT NULL,
      hour integer NOT NULL,
      model text COLLATE "C" NOT NULL,
      key_id text COLLATE "C" NOT NULL,
      endpoint text COLLATE "C" NOT NULL,
      requests bigint NOT NULL,
      errors bigint NOT NULL,
      rate_limited bigint NOT NULL,
      input_tokens bigint NOT NULL,
      cached_tokens bigint NOT NULL,
      output_tokens bigint NOT NULL,
      reasoning_tokens bigint NOT NULL,
      images bigint NOT NULL,
      answered bigint NOT NULL,
      first_token_ms double precision NOT NULL,
      duration_ms double precision NOT NULL,
      decode_ms double precision NOT NULL,
      PRIMARY KEY (organization_id, hour, model, key_id, endpoint)
    )`,
    'CREATE INDEX usage_hours_by_time ON usage_hours (hour)',
    `CREATE TABLE usage_months (
      organization_id text COLLATE "C" NOT NULL,
      month text COLLATE "C" NOT NULL,
      tokens bigint NOT NULL,
      PRIMARY KEY (organization_id, month)
    )`,
    `CREATE TABLE usage_latencies (
      organization_id text COLLATE "C" NOT NULL,
      hour integer NOT NULL,
      model text COLLATE "C" NOT NULL,
      key_id text COLLATE "C" NOT NULL,
      first_sketch json NOT NULL,
      total_sketch json NOT NULL,
      PRIMARY KEY (organization_id, hour, model, key_id)
    )`,
    'CREATE INDEX usage_latencies_by_time ON usage_latencies (hour)',
    `CREATE TABLE requests (
      ended_at bigint NOT NULL,
      request_id text COLLATE "C" NOT NULL,
      organization_id text COLLATE "C" NOT NULL,
      key_id text COLLATE "C" NOT NULL,
      model text COLLATE "C",
      outcome text COLLATE "C" NOT NULL,
      entry json NOT NULL,
      bytes integer NOT NULL,
      text json,
      text_bytes integer NOT NULL,
      PRIMARY KEY (ended_at, request_id)
    )`,
    'CREATE INDEX requests_of_organization ON requests (organization_id, ended_at, request_id)',
    `CREATE TABLE request_log_size (
      one boolean PRIMARY KEY DEFAULT true CHECK (one),
      rows bigint NOT NULL DEFAULT 0,
      bytes bigint NOT NULL DEFAULT 0
    )`,
    'INSERT INTO request_log_size DEFAULT VALUES',
  ],
};
