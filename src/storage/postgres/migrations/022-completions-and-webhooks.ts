// Creates the tables of stored chat completions and of webhooks. Times are seconds since 1970. Content is stored as
// JSON text.

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
  ],
};
