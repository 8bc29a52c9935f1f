// Implements AlertProcesses on the shared database. A process's heartbeat is the renewal of its lease
// (process-lease.ts). A process removes its row when it shuts down cleanly. A row with an expired lease belongs to a
// process that was killed or has crashed.

import type { AlertProcesses, SeenProcess } from '../../../alerts/alert-store.js';
import type { Readings } from '../../../alerts/readings.js';
import type { Database } from '../database.js';
import { ALIVE, LEASE_S } from '../process-lease.js';
import type { ProcessLease } from '../process-lease.js';

const NOW = 'extract(epoch FROM clock_timestamp())';
const REPORT = `INSERT INTO alert_processes (name, lease, sends, readings, seen_at) VALUES ($1, $2, $3, $4, ${NOW})
  ON CONFLICT (name) DO UPDATE SET lease = excluded.lease, sends = excluded.sends, readings = excluded.readings, seen_at = excluded.seen_at`;
const HOLDER = 'SELECT holder FROM alert_sender';
const SENDERS = `SELECT lease FROM alert_processes WHERE sends AND lease IN (${ALIVE})`;
/** $1: lease, $2: whether this process has destinations. */
const TAKE = `UPDATE alert_sender SET holder = $1 WHERE holder <> $1
  AND (holder NOT IN (${ALIVE}) OR ($2 AND holder NOT IN (${SENDERS}))) AND ($2 OR NOT EXISTS (${SENDERS}))`;
const ALL = `SELECT p.name, p.readings, p.lease IN (${ALIVE}) AS alive,
    p.lease = (SELECT holder FROM alert_sender) AS leads,
    greatest(0, ${NOW} - coalesce((SELECT lease_until - ${LEASE_S} FROM processes l WHERE l.id = p.lease), p.seen_at)) AS silent
  FROM alert_processes p ORDER BY p.name`;

export class PostgresAlertProcesses implements AlertProcesses {
  readonly shared = true;

  /** `name`: this process's name, which is the same after a restart. */
  constructor(
    private readonly database: Database,
    private readonly lease: ProcessLease,
    private readonly name: string,
  ) {}

  get isSteady(): boolean {
    return this.lease.isSteady;
  }

  async report(readings: Readings, sends: boolean): Promise<boolean> {
    const { database, lease } = this;
    await database.execute(REPORT, [this.name, lease.id, sends, JSON.stringify(readings)]);
    await database.execute(TAKE, [lease.id, sends]);
    return (await database.query<{ holder: string }>(HOLDER))[0]?.holder === lease.id;
  }

  async all(): Promise<SeenProcess[]> {
    const rows = await this.database.query<{
      name: string;
      readings: Readings;
      alive: boolean;
      leads: boolean;
      silent: number;
    }>(ALL);
    return rows.map(({ name, readings, alive, leads, silent }) => ({
      name,
      readings,
      alive,
      leads: leads && alive,
      silentMs: silent * 1000,
    }));
  }

  async forget(name: string): Promise<void> {
    await this.database.execute(`DELETE FROM alert_processes WHERE name = $1 AND lease NOT IN (${ALIVE})`, [name]);
  }

  async leave(): Promise<void> {
    const { database, lease } = this;
    await database.execute('DELETE FROM alert_processes WHERE lease = $1', [lease.id]);
    await database.execute("UPDATE alert_sender SET holder = '' WHERE holder = $1", [lease.id]);
  }
}
