// Which releases can work with these tables. An older release checks this before it starts (migrations.ts).

import type { Migration } from './migration.js';

export const releases: Migration = {
  what: 'releases side by side',
  oldest: 1,
  statements: ['ALTER TABLE monolith_versions ADD COLUMN oldest integer NOT NULL DEFAULT 1'],
};
