// Stored responses; for the layout, see response-rows.ts. Times are seconds since the Unix epoch. Content is JSON
// stored as text, which accepts any client data. IDs are compared bytewise, regardless of the database's locale.

import type { Migration } from './migration.js';

export const responses: Migration = {
  what: 'stored responses',
  oldest: 1,
  statements: [
    // owner: the process that generates or generated the response in the background, or that ended it on behalf of a
    // process that has ended; no other process writes to it. log_until: when its event log expires; 0 once the log has
    // been erased. images: whether it has images.
    `CREATE TABLE responses (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      model text NOT NULL,
      created_at bigint NOT NULL,
      made_at double precision NOT NULL,
      status text NOT NULL,
      background boolean NOT NULL,
      previous_id text COLLATE "C",
      depth integer NOT NULL,
      context_size bigint NOT NULL,
      chain_size bigint NOT NULL,
      dead boolean NOT NULL DEFAULT false,
      log_until bigint,
      owner text COLLATE "C",
      usage text,
      resource text,
      output text NOT NULL,
      shown text,
      images integer NOT NULL
    )`,
    'CREATE INDEX responses_listed ON responses (organization, made_at DESC, id DESC) WHERE NOT dead',
    'CREATE INDEX responses_by_age ON responses (created_at) WHERE NOT dead',
    'CREATE INDEX responses_continued ON responses (previous_id) WHERE previous_id IS NOT NULL',
    'CREATE INDEX responses_dead ON responses (id) WHERE dead',
    "CREATE INDEX responses_unfinished ON responses (owner) WHERE status IN ('queued', 'in_progress')",
    'CREATE INDEX responses_logged ON responses (log_until) WHERE log_until > 0',
    `CREATE TABLE response_inputs (
      response_id text COLLATE "C" NOT NULL,
      first integer NOT NULL,
      rows text NOT NULL,
      PRIMARY KEY (response_id, first)
    )`,
    `CREATE TABLE response_images (
      response_id text COLLATE "C" NOT NULL,
      place text NOT NULL,
      item integer NOT NULL,
      image integer NOT NULL,
      bytes bytea NOT NULL,
      PRIMARY KEY (response_id, place, item, image)
    )`,
    `CREATE TABLE response_items (
      organization text COLLATE "C" NOT NULL,
      item_key text COLLATE "C" NOT NULL,
      created_at bigint NOT NULL,
      response_id text COLLATE "C" NOT NULL,
      place text NOT NULL,
      item integer NOT NULL,
      repeats boolean NOT NULL,
      PRIMARY KEY (organization, item_key, created_at, response_id)
    )`,
    'CREATE INDEX response_items_of ON response_items (response_id)',
    `CREATE TABLE response_events (
      response_id text COLLATE "C" NOT NULL,
      first bigint NOT NULL,
      events text NOT NULL,
      PRIMARY KEY (response_id, first)
    )`,
    `CREATE TABLE response_holds (
      response_id text COLLATE "C" NOT NULL,
      process text COLLATE "C" NOT NULL,
      PRIMARY KEY (response_id, process)
    )`,
  ],
};
