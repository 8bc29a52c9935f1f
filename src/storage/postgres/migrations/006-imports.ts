// Progress of importing a data directory: `monolith state import`.

import type { Migration } from './migration.js';

export const imports: Migration = {
  what: 'imports of data folders',
  oldest: 1,
  statements: [
    `CREATE TABLE imports (
      part text COLLATE "C" PRIMARY KEY,
      rows bigint NOT NULL
    )`,
  ],
};
