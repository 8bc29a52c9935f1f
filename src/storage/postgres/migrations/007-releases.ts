// Which releases may work beside these tables: an earlier one asks before it starts (migrations.ts).

import type { Migration } from './migration.js';

export const releases: Migration = {
  what: 'releases side by side',
  oldest: 1,
  statements: ['ALTER TABLE monolith_versions ADD COLUMN oldest integer NOT NULL DEFAULT 1'],
};
