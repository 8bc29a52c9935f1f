// Implements WebhookStore on the PostgreSQL tables `webhook_endpoints` and `webhook_jobs`.

import { withinLimit } from '../../../webhooks/webhook-store.js';
import type { Endpoint, Job, WebhookStore } from '../../../webhooks/webhook-store.js';
import type { Database, Queryable } from '../database.js';

const ERASED_AT_ONCE = 500;

interface Row {
  record: string;
}

const endpointsOf = (rows: readonly Row[]): Endpoint[] => rows.map(({ record }) => JSON.parse(record) as Endpoint);
const jobsOf = (rows: readonly Row[]): Job[] => rows.map(({ record }) => JSON.parse(record) as Job);

export class PostgresWebhookStore implements WebhookStore {
  constructor(private readonly database: Database) {}

  addEndpoint(endpoint: Endpoint, max: number): Promise<boolean> {
    const { organizationId, id, createdAt } = endpoint;
    return this.database.transaction(async (sql) => {
      // The lock makes an organization's concurrent requests count its endpoints one after another.
      await sql.query("SELECT pg_advisory_xact_lock(hashtextextended('webhooks ' || $1, 0))", [organizationId]);
      const [{ n = 0 } = {}] = await sql.query<{ n: number }>(
        'SELECT count(*) AS n FROM webhook_endpoints WHERE organization = $1',
        [organizationId],
      );
      if (n >= max) return false;
      await sql.execute(
        'INSERT INTO webhook_endpoints (organization, id, created_at, record) VALUES ($1, $2, $3, $4)',
        [organizationId, id, createdAt, JSON.stringify(endpoint)],
      );
      return true;
    });
  }

  async endpoints(organizationId: string): Promise<Endpoint[]> {
    return endpointsOf(
      await this.database.query<Row>(
        'SELECT record FROM webhook_endpoints WHERE organization = $1 ORDER BY created_at, id',
        [organizationId],
      ),
    );
  }

  async endpoint(organizationId: string, id: string): Promise<Endpoint | null> {
    const rows = await this.database.query<Row>(
      'SELECT record FROM webhook_endpoints WHERE organization = $1 AND id = $2',
      [organizationId, id],
    );
    return endpointsOf(rows)[0] ?? null;
  }

  changeEndpoint(
    organizationId: string,
    id: string,
    change: (before: Endpoint) => Endpoint | null,
  ): Promise<Endpoint | null> {
    return this.database.transaction(async (sql) => {
      const [before] = endpointsOf(
        await sql.query<Row>('SELECT record FROM webhook_endpoints WHERE organization = $1 AND id = $2 FOR UPDATE', [
          organizationId,
          id,
        ]),
      );
      const after = before === undefined ? null : change(before);
      if (after !== null)
        await sql.execute('UPDATE webhook_endpoints SET record = $3 WHERE organization = $1 AND id = $2', [
          organizationId,
          id,
          JSON.stringify(after),
        ]);
      return after;
    });
  }

  async removeEndpoint(organizationId: string, id: string): Promise<boolean> {
    const removed = await this.database.execute('DELETE FROM webhook_endpoints WHERE organization = $1 AND id = $2', [
      organizationId,
      id,
    ]);
    if (removed === 0) return false;
    try {
      for (let some = ERASED_AT_ONCE; some === ERASED_AT_ONCE; )
        some = await this.database.execute(
          `DELETE FROM webhook_jobs WHERE id IN (
             SELECT id FROM webhook_jobs WHERE organization = $1 AND endpoint = $2 LIMIT $3)`,
          [organizationId, id, ERASED_AT_ONCE],
        );
    } catch {
      // Only the endpoint is removed here. The dispatcher removes its pending deliveries, and the sweep removes the
      // others.
    }
    return true;
  }

  add(jobs: readonly Job[], replaces?: string): Promise<void> {
    return this.database.transaction(async (sql) => {
      if (replaces !== undefined && (await sql.execute('DELETE FROM webhook_jobs WHERE id = $1', [replaces])) === 0)
        return;
      const [first] = jobs;
      if (first === undefined) return;
      const pending = await sql.query<{ endpoint: string; n: number }>(
        `SELECT endpoint, count(*) AS n FROM webhook_jobs
         WHERE organization = $1 AND due_at IS NOT NULL AND endpoint = ANY ($2::text[]) GROUP BY endpoint`,
        [first.organizationId, jobs.map(({ endpointId }) => endpointId)],
      );
      for (const job of withinLimit(jobs, new Map(pending.map(({ endpoint, n }) => [endpoint, n]))))
        await insert(sql, job);
    });
  }

  async makeDue(id: string, now: number): Promise<void> {
    await this.database.execute('UPDATE webhook_jobs SET due_at = $2 WHERE id = $1 AND due_at IS NOT NULL', [id, now]);
  }

  async claim(now: number, until: number, limit: number, except: readonly string[] = []): Promise<Job[]> {
    return jobsOf(
      await this.database.query<Row>(
        `UPDATE webhook_jobs SET due_at = $2 WHERE id IN (
           SELECT id FROM webhook_jobs WHERE due_at <= $1 AND organization <> ALL ($4::text[])
           ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED
         ) RETURNING record`,
        [now, until, limit, except],
      ),
    );
  }

  async settle(id: string, until: number, job: Job | null): Promise<void> {
    if (job === null)
      await this.database.execute('DELETE FROM webhook_jobs WHERE id = $1 AND due_at = $2', [id, until]);
    else
      await this.database.execute('UPDATE webhook_jobs SET due_at = $3, record = $4 WHERE id = $1 AND due_at = $2', [
        id,
        until,
        job.dueAt,
        JSON.stringify(job),
      ]);
  }

  async deliveries(
    organizationId: string,
    endpointId: string,
    limit: number,
    before: string | null = null,
  ): Promise<Job[]> {
    return jobsOf(
      await this.database.query<Row>(
        `SELECT record FROM webhook_jobs WHERE organization = $1 AND endpoint = $2 AND ($4::text IS NULL OR id < $4)
         ORDER BY id DESC LIMIT $3`,
        [organizationId, endpointId, limit, before],
      ),
    );
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    await this.database.execute('DELETE FROM webhook_endpoints WHERE organization = $1', [organizationId]);
    while (
      (await this.database.execute(
        'DELETE FROM webhook_jobs WHERE id IN (SELECT id FROM webhook_jobs WHERE organization = $1 LIMIT $2)',
        [organizationId, ERASED_AT_ONCE],
      )) > 0
    );
  }

  async sweep(before: number): Promise<number> {
    let erased = 0;
    for (;;) {
      const some = await this.database.execute(
        `DELETE FROM webhook_jobs WHERE id IN (
           SELECT id FROM webhook_jobs WHERE due_at IS NULL AND created_at < $1 LIMIT $2
         )`,
        [before, ERASED_AT_ONCE],
      );
      erased += some;
      if (some < ERASED_AT_ONCE) return erased;
    }
  }
}

const insert = (sql: Queryable, job: Job): Promise<number> =>
  sql.execute(
    'INSERT INTO webhook_jobs (id, organization, endpoint, created_at, due_at, record) VALUES ($1, $2, $3, $4, $5, $6)',
    [job.id, job.organizationId, job.endpointId, job.createdAt, job.dueAt, JSON.stringify(job)],
  );
