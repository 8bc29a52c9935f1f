// Operator alerts: incidents, the processes that take measurements, and the process that holds the lease to send
// alerts.

import type { Migration } from './migration.js';

export const alerts: Migration = {
  what: 'alerts',
  oldest: 1,
  statements: [
    `CREATE TABLE alert_incidents (
      id text COLLATE "C" PRIMARY KEY,
      key text COLLATE "C" NOT NULL,
      active boolean NOT NULL,
      open boolean NOT NULL,
      record json NOT NULL
    )`,
    'CREATE UNIQUE INDEX alert_incidents_active ON alert_incidents (key) WHERE active',
    'CREATE INDEX alert_incidents_open ON alert_incidents (id) WHERE open',
    // The name is the same after a restart. The lease refers to the process's row in `processes`.
    `CREATE TABLE alert_processes (
      name text COLLATE "C" PRIMARY KEY,
      lease text COLLATE "C" NOT NULL,
      sends boolean NOT NULL,
      readings json NOT NULL,
      seen_at double precision NOT NULL
    )`,
    // A single row. The holder is a row in `processes`.
    'CREATE TABLE alert_sender (one boolean PRIMARY KEY DEFAULT true CHECK (one), holder text COLLATE "C" NOT NULL)',
    "INSERT INTO alert_sender (holder) VALUES ('')",
  ],
};
