// A flag for permanently revoked API keys, so that no process needs to compare its clock with another's. Processes of
// earlier releases still write only the time, which is compared with the database's clock.

import type { Migration } from './migration.js';

export const revokedKeys: Migration = {
  what: 'a flag for revoked API keys',
  oldest: 1,
  statements: [
    'ALTER TABLE api_keys ADD COLUMN revoked boolean NOT NULL DEFAULT false',
    'UPDATE api_keys SET revoked = true WHERE revoked_at <= extract(epoch FROM clock_timestamp()) * 1000',
  ],
};
