// Creates the table of token IDs of generated tool calls and reasoning blocks.

import type { Migration } from './migration.js';

export const replays: Migration = {
  what: 'tokens of tool calls and reasoning',
  oldest: 1,
  statements: [
    `CREATE TABLE replays (
      organization_id text COLLATE "C" NOT NULL,
      key text COLLATE "C" NOT NULL,
      model text COLLATE "C" NOT NULL,
      tokens bytea NOT NULL,
      response_id text COLLATE "C",
      expires_at bigint NOT NULL,
      PRIMARY KEY (organization_id, key)
    )`,
    'CREATE INDEX replays_expired ON replays (expires_at)',
    'CREATE INDEX replays_of_response ON replays (organization_id, response_id) WHERE response_id IS NOT NULL',
  ],
};
