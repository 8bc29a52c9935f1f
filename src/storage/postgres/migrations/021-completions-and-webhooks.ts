// Creates the tables of stored chat completions and of webhooks. Times of completions are seconds since 1970. Content
// is stored as JSON text.

import type { Migration } from './migration.js';

export const completionsAndWebhooks: Migration = {
  what: 'stored chat completions and webhooks',
  oldest: 1,
  statements: [
    // IDs start with the time, so the order of the IDs is the order of creation.
    `CREATE TABLE chat_completions (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      model text NOT NULL,
      created_at bigint NOT NULL,
      metadata text NOT NULL,
      body text NOT NULL,
      size bigint NOT NULL,
      messages integer NOT NULL
    )`,
    'CREATE INDEX chat_completions_of ON chat_completions (organization, id)',
    'CREATE INDEX chat_completions_by_time ON chat_completions (created_at)',
    `CREATE TABLE chat_completion_messages (
      completion_id text COLLATE "C" NOT NULL REFERENCES chat_completions ON DELETE CASCADE,
      index integer NOT NULL,
      message text NOT NULL,
      PRIMARY KEY (completion_id, index)
    )`,
    // record: the endpoint as JSON. Times of webhooks are milliseconds since 1970.
    `CREATE TABLE webhook_endpoints (
      organization text COLLATE "C" NOT NULL,
      id text COLLATE "C" NOT NULL,
      created_at bigint NOT NULL,
      record text NOT NULL,
      PRIMARY KEY (organization, id)
    )`,
    // endpoint: '' for a response whose end is an event. due_at: null if no attempt will be made.
    `CREATE TABLE webhook_jobs (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      endpoint text COLLATE "C" NOT NULL,
      created_at bigint NOT NULL,
      due_at bigint,
      record text NOT NULL
    )`,
    'CREATE INDEX webhook_jobs_due ON webhook_jobs (due_at) WHERE due_at IS NOT NULL',
    'CREATE INDEX webhook_jobs_pending ON webhook_jobs (organization) WHERE due_at IS NOT NULL',
    'CREATE INDEX webhook_jobs_of ON webhook_jobs (organization, endpoint, id)',
    'CREATE INDEX webhook_jobs_ended ON webhook_jobs (created_at) WHERE due_at IS NULL',
  ],
};
