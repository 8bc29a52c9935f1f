// Implements AlertStore on the shared database. Only the process that holds the lease to send alerts changes incidents.
// Each write checks this, and prevents other processes from taking the lease until it has committed.

import { isOpen } from '../../../alerts/incident.js';
import type { Incident } from '../../../alerts/incident.js';
import { MAX_INCIDENTS } from '../../../alerts/alert-store.js';
import type { AlertStore } from '../../../alerts/alert-store.js';
import type { Database, Queryable } from '../database.js';

interface Row {
  record: Incident;
}

const HOLDS = 'SELECT holder FROM alert_sender WHERE holder = $1 FOR SHARE';
const ADD = `INSERT INTO alert_incidents (id, key, active, open, record) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (key) WHERE active DO NOTHING`;
const ERASE = `DELETE FROM alert_incidents WHERE NOT open AND id NOT IN (SELECT id FROM alert_incidents ORDER BY id DESC LIMIT ${MAX_INCIDENTS})`;

export class PostgresAlertStore implements AlertStore {
  /** `lease`: ID of this process's lease. */
  constructor(
    private readonly database: Database,
    private readonly lease: string,
  ) {}

  async newest(limit: number): Promise<Incident[]> {
    return recordsOf(
      await this.database.query<Row>('SELECT record FROM alert_incidents ORDER BY id DESC LIMIT $1', [limit]),
    );
  }

  async open(): Promise<Incident[]> {
    return recordsOf(await this.database.query<Row>('SELECT record FROM alert_incidents WHERE open ORDER BY id'));
  }

  begin(incident: Incident): Promise<boolean> {
    return this.database.transaction(async (sql) => {
      if (!(await this.#holds(sql))) return false;
      const { id, key, endedAt } = incident;
      const added = await sql.execute(ADD, [id, key, endedAt === null, isOpen(incident), JSON.stringify(incident)]);
      await sql.execute(ERASE);
      return added === 1;
    });
  }

  change(id: string, change: (before: Incident) => Incident | null): Promise<Incident | null> {
    return this.database.transaction(async (sql) => {
      if (!(await this.#holds(sql))) return null;
      const [row] = await sql.query<Row>('SELECT record FROM alert_incidents WHERE id = $1 FOR UPDATE', [id]);
      const after = row === undefined ? null : change(row.record);
      if (after !== null)
        await sql.execute('UPDATE alert_incidents SET active = $2, open = $3, record = $4 WHERE id = $1', [
          id,
          after.endedAt === null,
          isOpen(after),
          JSON.stringify(after),
        ]);
      return after;
    });
  }

  async #holds(sql: Queryable): Promise<boolean> {
    return (await sql.query(HOLDS, [this.lease])).length > 0;
  }
}

const recordsOf = (rows: readonly Row[]): Incident[] => rows.map(({ record }) => record);
