// Creates the tables of conversations. Times are seconds since 1970. Content is stored as JSON text, as in stored
// responses.

import type { Migration } from './migration.js';

export const conversations: Migration = {
  what: 'conversations',
  oldest: 1,
  statements: [
    // next: position of the next item; positions are never reused. used_at: start of the retention period.
    `CREATE TABLE conversations (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      created_at bigint NOT NULL,
      used_at bigint NOT NULL,
      metadata text NOT NULL,
      next integer NOT NULL,
      items integer NOT NULL,
      size bigint NOT NULL
    )`,
    'CREATE INDEX conversations_of ON conversations (organization)',
    'CREATE INDEX conversations_by_use ON conversations (used_at)',
    `CREATE TABLE conversation_items (
      conversation_id text COLLATE "C" NOT NULL REFERENCES conversations ON DELETE CASCADE,
      position integer NOT NULL,
      item_key text COLLATE "C" NOT NULL,
      row text NOT NULL,
      images bytea[] NOT NULL,
      size bigint NOT NULL,
      repeats boolean NOT NULL,
      PRIMARY KEY (conversation_id, position)
    )`,
    'CREATE INDEX conversation_items_by_id ON conversation_items (conversation_id, item_key, position)',
  ],
};
