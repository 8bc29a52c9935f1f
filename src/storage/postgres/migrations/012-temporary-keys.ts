// A flag for API keys that a command created for its own use. Lists omit them once they are no longer valid.

import type { Migration } from './migration.js';

export const temporaryKeys: Migration = {
  what: 'a flag for temporary API keys',
  oldest: 1,
  statements: ['ALTER TABLE api_keys ADD COLUMN temporary boolean NOT NULL DEFAULT false'],
};
