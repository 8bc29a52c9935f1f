// Deletes and erases stored responses. A response that was deleted or has expired is dead: clients cannot see it. It is
// erased when no stored response continues it and no process holds it. After that, the response that it continues may
// be erased too, and so on up to the root of the chain.
//
// Rows are erased in batches rather than by dropping partitions, because a chain keeps its ancestors past their
// retention, so the rows of one day do not expire together. Rows to be erased are locked before checking whether they
// are needed. A request that continues or holds a response also locks the response, so it either finds the response
// erased or is detected by the check. Event-loop thread only.

import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { Database, Queryable } from '../database.js';
import { ALIVE } from '../process-lease.js';

const BATCH = 200;
/** Maximum number of ancestors processed at a time. */
const ANCESTORS = 500;

const DELETE = `WITH killed AS (
    UPDATE responses SET dead = true, resource = NULL, shown = NULL, usage = NULL WHERE id = $1 AND organization = $2 AND NOT dead AND created_at > $3::float8 RETURNING id
  ), logs AS (DELETE FROM response_events WHERE response_id IN (SELECT id FROM killed)) SELECT id FROM killed`;
const EXPIRE = `WITH killed AS (
    UPDATE responses SET dead = true, resource = NULL, shown = NULL, usage = NULL
    WHERE id IN (SELECT id FROM responses WHERE NOT dead AND created_at <= $1::float8 ORDER BY created_at LIMIT ${BATCH} FOR UPDATE SKIP LOCKED) RETURNING id
  ), logs AS (DELETE FROM response_events WHERE response_id IN (SELECT id FROM killed)) SELECT id FROM killed`;
const DELETE_ALL = `WITH killed AS (
    UPDATE responses SET dead = true, resource = NULL, shown = NULL, usage = NULL
    WHERE id IN (SELECT id FROM responses WHERE organization = $1 AND NOT dead ORDER BY id LIMIT ${BATCH} FOR UPDATE) RETURNING id
  ), logs AS (DELETE FROM response_events WHERE response_id IN (SELECT id FROM killed)) SELECT id FROM killed`;

const CONTINUED = 'EXISTS (SELECT FROM responses c WHERE c.previous_id = r.id AND c.organization = r.organization)';
const HELD = `EXISTS (SELECT FROM response_holds h WHERE h.response_id = r.id AND h.process IN (${ALIVE}))`;

const ERASABLE = `SELECT r.id FROM responses r WHERE r.id = ANY($1::text[]) AND r.dead AND NOT ${CONTINUED}`;
const ALL_ERASABLE = `SELECT r.id FROM responses r WHERE r.dead AND r.id > $1 AND NOT ${CONTINUED} AND NOT ${HELD} ORDER BY r.id LIMIT ${BATCH}`;
// Includes all ancestors up to and including the first one that is not dead. A concurrent transaction that marks this
// ancestor as dead has to wait, and then finds that no response continues it.
const ANCESTRY = `WITH RECURSIVE up (id, previous_id, organization, dead, n) AS (
    SELECT id, previous_id, organization, dead, 1 FROM responses WHERE id = ANY($1::text[])
    UNION ALL
    SELECT r.id, r.previous_id, r.organization, r.dead, u.n + 1 FROM up u JOIN responses r ON r.id = u.previous_id AND r.organization = u.organization WHERE u.dead AND u.n < ${ANCESTORS}
  ) SELECT id, previous_id FROM up`;
const LOCK = 'SELECT id FROM responses WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE';
const LOOK = `SELECT r.id, r.previous_id, r.dead, ${HELD} AS held, (SELECT count(*) FROM responses c WHERE c.previous_id = r.id AND c.organization = r.organization) AS continued
  FROM responses r WHERE r.id = ANY($1::text[])`;
const ERASE = `WITH inputs AS (DELETE FROM response_inputs WHERE response_id = ANY($1::text[])), images AS (DELETE FROM response_images WHERE response_id = ANY($1::text[])),
  items AS (DELETE FROM response_items WHERE response_id = ANY($1::text[])), events AS (DELETE FROM response_events WHERE response_id = ANY($1::text[])),
  holds AS (DELETE FROM response_holds WHERE response_id = ANY($1::text[])) DELETE FROM responses WHERE id = ANY($1::text[])`;

const OLD_LOGS = `WITH due AS (SELECT id FROM responses WHERE log_until > 0 AND log_until <= $1::float8 ORDER BY log_until LIMIT ${BATCH} FOR UPDATE SKIP LOCKED),
  logs AS (DELETE FROM response_events WHERE response_id IN (SELECT id FROM due)) UPDATE responses SET log_until = 0 WHERE id IN (SELECT id FROM due)`;
const OLD_HOLDS = `DELETE FROM response_holds WHERE process NOT IN (${ALIVE})`;
const OLD_PROCESSES = 'DELETE FROM processes WHERE lease_until < extract(epoch FROM clock_timestamp()) - 3600';

interface Looked {
  id: string;
  previous_id: string | null;
  dead: boolean;
  held: boolean;
  continued: number;
}

export class ResponseErasure {
  #closed = false;

  constructor(
    private readonly database: Database,
    private readonly now: () => number,
    private readonly retentionS: number,
    private readonly gate: EraseGate = OPEN_GATE,
  ) {}

  /** Work in progress stops after its current transaction. */
  close(): void {
    this.#closed = true;
  }

  /** Returns false if the response was not found. */
  async delete(organizationId: string, id: string): Promise<boolean> {
    const killed = await this.database.query<{ id: string }>(DELETE, [
      id,
      organizationId,
      this.now() - this.retentionS,
    ]);
    if (killed.length === 0) return false;
    await this.erase([id]);
    return true;
  }

  /** Resolves to the number of deleted responses. */
  async eraseOrganization(organizationId: string): Promise<number> {
    return this.#killAll(() => this.database.query(DELETE_ALL, [organizationId]));
  }

  /** Erases expired rows while the gate allows it. Resolves to the number of responses that have expired. */
  async sweep(): Promise<number> {
    if (!this.gate.allows()) return 0;
    const expired = await this.#killAll(() => this.database.query(EXPIRE, [this.now() - this.retentionS]));
    for (let after = ''; !this.#closed; ) {
      const ids = (await this.database.query<{ id: string }>(ALL_ERASABLE, [after])).map(({ id }) => id);
      if (ids.length === 0) break;
      await this.erase(ids);
      after = ids.at(-1) ?? after;
    }
    while (!this.#closed && this.gate.allows() && (await this.database.execute(OLD_LOGS, [this.now()])) === BATCH);
    await this.database.execute(OLD_HOLDS);
    await this.database.execute(OLD_PROCESSES);
    return expired;
  }

  /** Erases responses that are dead and no longer needed, from each of `ids` toward the root. */
  async erase(ids: readonly string[]): Promise<void> {
    for (let left = ids; left.length > 0 && !this.#closed; ) {
      const due = (await this.database.query<{ id: string }>(ERASABLE, [left])).map(({ id }) => id);
      if (due.length === 0) return;
      left = await this.database.transaction((within) => this.#erase(within, due));
    }
  }

  async #killAll(kill: () => Promise<{ id: string }[]>): Promise<number> {
    for (let count = 0; ; ) {
      const killed = await kill();
      if (killed.length === 0 || this.#closed) return count;
      count += killed.length;
      await this.erase(killed.map(({ id }) => id));
    }
  }

  /**
   * Erases the responses that are no longer needed. Returns the IDs of the responses where erasing must continue toward
   * the root.
   */
  async #erase(within: Queryable, due: readonly string[]): Promise<string[]> {
    const near = new Map(
      (await within.query<Pick<Looked, 'id' | 'previous_id'>>(ANCESTRY, [due])).map((row) => [row.id, row.previous_id]),
    );
    await within.query(LOCK, [[...near.keys()]]);
    const looked = new Map((await within.query<Looked>(LOOK, [[...near.keys()]])).map((row) => [row.id, row]));
    const gone = new Set<string>();
    const left: string[] = [];
    for (const start of due) {
      let before: string | null = start;
      // If another process has erased rows in the meantime, that process continues with their ancestors. This process
      // follows them too, so that all work is done when the promise resolves.
      while (before !== null && !looked.has(before) && near.has(before)) before = near.get(before) ?? null;
      if (before !== null && !looked.has(before)) left.push(before);
      for (
        let row = before === null ? undefined : looked.get(before);
        row !== undefined;
        row = before === null ? undefined : looked.get(before)
      ) {
        if (!row.dead || row.held || row.continued > 0 || gone.has(row.id)) break;
        gone.add(row.id);
        before = row.previous_id;
        const parent = before === null ? undefined : looked.get(before);
        if (parent !== undefined) parent.continued--;
        else if (before !== null) left.push(before);
      }
    }
    if (gone.size > 0) await within.execute(ERASE, [[...gone]]);
    return left;
  }
}
