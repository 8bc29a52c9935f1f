// Service accounts, and the addresses from which an organization may be opened on the dashboard.

import type { Migration } from './migration.js';

export const serviceAccounts: Migration = {
  what: 'service accounts, and the addresses from which an organization may be opened on the dashboard',
  oldest: 1,
  statements: [
    `CREATE TABLE service_accounts (
      id text COLLATE "C" PRIMARY KEY,
      organization_id text COLLATE "C" NOT NULL,
      name text NOT NULL,
      role text NOT NULL,
      disabled boolean NOT NULL DEFAULT false,
      created_by text COLLATE "C",
      created_at bigint NOT NULL
    )`,
    'CREATE UNIQUE INDEX service_accounts_of_organization ON service_accounts (organization_id, name)',
    `ALTER TABLE organizations ADD COLUMN dashboard_addresses json NOT NULL DEFAULT '[]'`,
  ],
};
