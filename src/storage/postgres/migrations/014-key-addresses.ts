// The addresses from which an API key may be used.

import type { Migration } from './migration.js';

export const keyAddresses: Migration = {
  what: 'the addresses from which an API key may be used',
  oldest: 1,
  statements: [`ALTER TABLE api_keys ADD COLUMN allowed_addresses json NOT NULL DEFAULT '[]'`],
};
