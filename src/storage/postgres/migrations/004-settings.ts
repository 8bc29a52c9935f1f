// Settings that operators and owners change at run time, one document per kind and name; and encrypted saved playground
// items.

import type { Migration } from './migration.js';

export const settings: Migration = {
  what: 'settings, prices, budgets, saved presets',
  oldest: 1,
  statements: [
    `CREATE TABLE settings (
      kind text COLLATE "C" NOT NULL,
      name text COLLATE "C" NOT NULL,
      value json NOT NULL,
      PRIMARY KEY (kind, name)
    )`,
    // A single row, which is locked by changes to settings outside of account transactions.
    'CREATE TABLE settings_lock (one boolean PRIMARY KEY DEFAULT true CHECK (one))',
    'INSERT INTO settings_lock DEFAULT VALUES',
    `CREATE TABLE saved (
      organization_id text COLLATE "C" NOT NULL,
      id text COLLATE "C" NOT NULL,
      user_id text COLLATE "C" NOT NULL,
      kind text NOT NULL,
      sealed_name text NOT NULL,
      shared boolean NOT NULL,
      created_at bigint NOT NULL,
      expires_at bigint,
      sealed_content text NOT NULL,
      PRIMARY KEY (organization_id, id)
    )`,
    'CREATE INDEX saved_by_user ON saved (user_id, organization_id)',
  ],
};
