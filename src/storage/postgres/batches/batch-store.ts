// Implements BatchStore on the PostgreSQL tables `batches` and `batch_lines`, which several processes share. A row lock
// on the batch serializes the changes of its phase and counts. Leases use the database's clock.

import { base62, isBatchId } from '../../../shared/ids.js';
import {
  begun,
  CLAIMED_CHARACTERS,
  ended,
  ERASED_AT_ONCE,
  failed,
  inTurns,
  lineEnded,
  newBatchRow,
  openLines,
  stoppedOutcome,
  stopping,
  tooManyBatches,
  UNBEGUN_MS,
} from '../../batch-store.js';
import type {
  Batch,
  BatchKind,
  BatchListQuery,
  BatchPage,
  BatchProblem,
  BatchStore,
  Claim,
  ClaimedLine,
  LineResult,
  NewBatch,
  NewLine,
  StoredResult,
} from '../../batch-store.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { Database, Queryable } from '../database.js';

const DAY_MS = 86_400_000;
/** Maximum number of batches from which one claim() takes lines. The oldest batch of each organization comes first. */
const CONSIDERED = 200;
/** Approximate number of bytes of lines that are erased in one statement. */
const ERASED_BYTES = 8_388_608;
/**
 * `ended_at` of a batch that is being erased. Such a batch can no longer be found or changed. Its lines are erased in
 * many short statements, then its row. After a crash, the sweep continues the erasure.
 */
const ERASED = 0;

interface Row {
  data: string;
  job_owner: string;
}
interface LineRow {
  line: number;
  custom_id: string;
  body: string;
  lost: number;
}
interface ResultRow {
  line: number;
  custom_id: string;
  outcome: StoredResult['outcome'];
  result: string;
}

export interface PostgresBatchOptions {
  /** Returns milliseconds since 1970 on the database's clock. */
  now?: () => number;
  gate?: EraseGate;
}

export class PostgresBatchStore implements BatchStore {
  readonly #retentionMs: number;
  readonly #now: () => number;
  readonly #gate: EraseGate;
  #turn = 0;

  constructor(
    private readonly database: Database,
    settings: { retention_days: number },
    { now = Date.now, gate = OPEN_GATE }: PostgresBatchOptions = {},
  ) {
    this.#retentionMs = settings.retention_days * DAY_MS;
    this.#now = now;
    this.#gate = gate;
  }

  create(batch: NewBatch, maxActive: number): Promise<void> {
    return this.database.transaction(async (within) => {
      // The lock prevents concurrent creations by the same organization from exceeding the limit.
      await within.query('SELECT pg_advisory_xact_lock(hashtext($1))', [`batches ${batch.organizationId}`]);
      const [active] = await within.query<{ n: number }>(
        'SELECT count(*) AS n FROM batches WHERE organization = $1 AND ended_at IS NULL',
        [batch.organizationId],
      );
      if ((active?.n ?? 0) >= maxActive) throw tooManyBatches(maxActive);
      await within.execute(
        'INSERT INTO batches (id, organization, kind, phase, created_at, expires_at, data) VALUES ($1, $2, $3, $4, $5, $6, $7)',
        [
          batch.id,
          batch.organizationId,
          batch.kind,
          'validating',
          batch.createdAt,
          batch.expiresAt,
          JSON.stringify(newBatchRow(batch)),
        ],
      );
    });
  }

  addLines(id: string, lines: readonly NewLine[]): Promise<void> {
    return this.database.transaction(async (within) => {
      const batch = await locked(within, id);
      if (batch?.phase !== 'validating') return;
      await within.execute(
        `INSERT INTO batch_lines (batch_id, line, custom_id, body)
         SELECT $1, u.line, u.custom_id, u.body FROM unnest($2::integer[], $3::text[], $4::text[]) AS u (line, custom_id, body)
         ON CONFLICT (batch_id, line) DO UPDATE SET custom_id = excluded.custom_id, body = excluded.body`,
        [id, lines.map(({ line }) => line), lines.map(({ customId }) => customId), lines.map(({ body }) => body)],
      );
    });
  }

  begin(id: string, total: number, model: string | null): Promise<boolean> {
    return this.database.transaction(async (within) => {
      const batch = await locked(within, id);
      if (batch?.phase !== 'validating') return false;
      await put(within, begun(batch, total, model, this.#now()), true);
      return true;
    });
  }

  async fail(id: string, problems: readonly BatchProblem[]): Promise<void> {
    const isDone = await this.database.transaction(async (within) => {
      const batch = await locked(within, id);
      if (batch?.phase !== 'validating') return false;
      await put(within, failed(batch, problems, this.#now()), true);
      return true;
    });
    if (isDone) await this.#eraseLines(id, 'open');
  }

  get(organizationId: string, id: string): Promise<Batch | null> {
    return this.#readable(this.database, organizationId, id);
  }

  async list(organizationId: string, kind: BatchKind, { after, before, limit }: BatchListQuery): Promise<BatchPage> {
    const isNewer = before != null;
    const rows = await this.database.query<Row>(
      isNewer
        ? `SELECT data, job_owner FROM batches WHERE organization = $1 AND kind = $2 AND id > $3 AND (ended_at IS NULL OR ended_at > $4)
           ORDER BY id LIMIT $5`
        : `SELECT data, job_owner FROM batches WHERE organization = $1 AND kind = $2 AND ($3::text IS NULL OR id < $3) AND (ended_at IS NULL OR ended_at > $4)
           ORDER BY id DESC LIMIT $5`,
      [organizationId, kind, (isNewer ? before : after) ?? null, this.#now() - this.#retentionMs, limit + 1],
    );
    const batches = rows.slice(0, limit).map(batchOf);
    return { batches: isNewer ? batches.reverse() : batches, more: rows.length > limit };
  }

  cancel(organizationId: string, id: string): Promise<Batch | null> {
    return this.database.transaction(async (within) => {
      if ((await this.#readable(within, organizationId, id)) === null) return null;
      const batch = await locked(within, id);
      if (batch === null) return null;
      const changed = stopping(batch, 'cancelled', this.#now());
      if (changed !== batch) await put(within, changed, true);
      return changed;
    });
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    if (!isBatchId(id)) return false;
    const isFound =
      (await this.database.execute(
        `UPDATE batches SET ended_at = ${ERASED} WHERE id = $1 AND organization = $2 AND ended_at > $3`,
        [id, organizationId, this.#now() - this.#retentionMs],
      )) > 0;
    if (isFound) await this.#erase(id);
    return isFound;
  }

  async claim(
    owner: string,
    limit: number,
    leaseMs: number,
    except: ReadonlySet<string> = new Set(),
  ): Promise<ClaimedLine[]> {
    const rows = await this.database.query<Row>(
      `SELECT data, job_owner FROM (
         SELECT id, data, job_owner, row_number() OVER (PARTITION BY organization ORDER BY id) AS turn FROM batches
         WHERE ended_at IS NULL AND phase = 'running' AND organization <> ALL ($2::text[]) AND id <> ALL ($2::text[])
       ) AS running ORDER BY turn, id LIMIT $1`,
      [CONSIDERED, [...except]],
    );
    const batches = inTurns(rows.map(batchOf), this.#turn++);
    const claimed: ClaimedLine[] = [];
    let characters = 0;
    for (const [at, batch] of batches.entries()) {
      if (claimed.length >= limit || characters >= CLAIMED_CHARACTERS) break;
      // The remaining batches share the remaining lines equally, so that no organization gets all of them.
      const part = Math.ceil((limit - claimed.length) / (batches.length - at));
      const lines = await this.#claim(batch, owner, part, leaseMs);
      for (const { body } of lines) characters += body.length;
      claimed.push(...lines);
    }
    return claimed;
  }

  async #claim(batch: Batch, owner: string, limit: number, leaseMs: number): Promise<ClaimedLine[]> {
    const now = this.#now();
    const token = base62(12);
    const rows = await this.database.query<LineRow>(
      `WITH waiting AS MATERIALIZED (
         SELECT line, octet_length(body) AS bytes FROM batch_lines
         WHERE batch_id = $1 AND outcome IS NULL AND lease_until <= $5
         ORDER BY line LIMIT $6 FOR UPDATE SKIP LOCKED
       ), sized AS (SELECT line, sum(bytes) OVER (ORDER BY line) - bytes AS before FROM waiting)
       UPDATE batch_lines SET owner = $2, token = $3, lease_until = $4, lost = CASE WHEN owner = '' THEN lost ELSE lost + 1 END
       WHERE batch_id = $1 AND line IN (SELECT line FROM sized WHERE before < $7)
       RETURNING line, custom_id, body, lost`,
      [batch.id, owner, token, now + leaseMs, now, limit, CLAIMED_CHARACTERS],
    );
    return rows
      .sort((a, b) => a.line - b.line)
      .map(({ line, custom_id, body, lost }) => ({ batch, line, customId: custom_id, body, token, lost }));
  }

  async renew(
    claims: readonly Claim[],
    leaseMs: number,
  ): Promise<{ claim: Claim; stop: 'canceled' | 'expired' | null }[]> {
    if (claims.length === 0) return [];
    const rows = await this.database.query<{ at: number; data: string; job_owner: string }>(
      `UPDATE batch_lines SET lease_until = $1
       FROM unnest($2::text[], $3::integer[], $4::text[]) WITH ORDINALITY AS u (batch_id, line, token, at), batches
       WHERE batch_lines.batch_id = u.batch_id AND batch_lines.line = u.line AND batch_lines.token = u.token
         AND batch_lines.outcome IS NULL AND batches.id = u.batch_id AND batches.ended_at IS DISTINCT FROM ${ERASED}
       RETURNING u.at, batches.data, batches.job_owner`,
      [
        this.#now() + leaseMs,
        claims.map(({ batch }) => batch.id),
        claims.map(({ line }) => line),
        claims.map(({ token }) => token),
      ],
    );
    return rows.map((row) => {
      const batch = batchOf(row);
      return { claim: claims[row.at - 1] as Claim, stop: batch.phase === 'stopping' ? stoppedOutcome(batch) : null };
    });
  }

  async release({ batch: { id }, line, token }: Claim, delayMs: number): Promise<void> {
    await this.database.execute(
      `UPDATE batch_lines SET owner = '', token = '', lease_until = $4 WHERE batch_id = $1 AND line = $2 AND token = $3 AND outcome IS NULL`,
      [id, line, token, delayMs === 0 ? 0 : this.#now() + delayMs],
    );
  }

  finish({ batch: { id }, line, token }: Claim, result: LineResult): Promise<boolean> {
    return this.database.transaction(async (within) => {
      const batch = await locked(within, id);
      if (batch === null) return false;
      const changed = await within.execute(
        `UPDATE batch_lines SET outcome = $4, result = $5, body = '', owner = '' WHERE batch_id = $1 AND line = $2 AND token = $3 AND outcome IS NULL`,
        [id, line, token, result.outcome, result.text],
      );
      if (changed === 0) return false;
      const after = lineEnded(batch, result, this.#now());
      await put(within, after, after.phase !== batch.phase);
      return true;
    });
  }

  /** Does nothing, because other processes may be alive, so their claims remain valid until the leases expire. */
  async releaseOthers(): Promise<void> {}

  async claimJob(owner: string, leaseMs: number): Promise<Batch | null> {
    const now = this.#now();
    const [row] = await this.database.query<Row>(
      `UPDATE batches SET job_owner = $1, job_until = $2 WHERE id = (
         SELECT id FROM batches WHERE ended_at IS NULL AND job_until <= $3 AND phase <> 'running'
           AND NOT (phase = 'validating' AND kind = 'messages')
         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
       RETURNING data, job_owner`,
      [owner, now + leaseMs, now],
    );
    return row === undefined ? null : batchOf(row);
  }

  async renewJob(id: string, owner: string, leaseMs: number): Promise<boolean> {
    return (
      (await this.database.execute('UPDATE batches SET job_until = $3 WHERE id = $1 AND job_owner = $2', [
        id,
        owner,
        this.#now() + leaseMs,
      ])) > 0
    );
  }

  async releaseJob(id: string, owner: string, delayMs: number): Promise<void> {
    await this.database.execute("UPDATE batches SET job_owner = '', job_until = $3 WHERE id = $1 AND job_owner = $2", [
      id,
      owner,
      this.#now() + delayMs,
    ]);
  }

  async expire(): Promise<number> {
    const over = await this.database.query<{ id: string }>(
      "SELECT id FROM batches WHERE ended_at IS NULL AND expires_at <= $1 AND phase IN ('running', 'validating')",
      [this.#now()],
    );
    for (const { id } of over)
      await this.database.transaction(async (within) => {
        const batch = await locked(within, id);
        if (batch !== null) await put(within, stopping(batch, 'expired', this.#now()), true);
      });
    return over.length;
  }

  stopLines(id: string, limit: number): Promise<number> {
    return this.database.transaction(async (within) => {
      const batch = await locked(within, id);
      if (batch?.phase !== 'stopping') return 0;
      const result: LineResult = { outcome: stoppedOutcome(batch), text: '', usage: null };
      const now = this.#now();
      const lines = await within.execute(
        `UPDATE batch_lines SET outcome = $2, body = '', owner = '' WHERE batch_id = $1 AND line IN (
           SELECT line FROM batch_lines WHERE batch_id = $1 AND outcome IS NULL AND (owner = '' OR lease_until <= $3)
           ORDER BY line LIMIT $4 FOR UPDATE)`,
        [id, result.outcome, now, limit],
      );
      let changed = batch;
      for (let i = 0; i < lines; i++) changed = lineEnded(changed, result, now);
      if (lines > 0) await put(within, changed, changed.phase !== batch.phase);
      return lines;
    });
  }

  async end(id: string, files: { outputFileId: string | null; errorFileId: string | null }): Promise<boolean> {
    const isDone = await this.database.transaction(async (within) => {
      const batch = await locked(within, id);
      if (batch?.phase !== 'finalizing') return false;
      await put(within, ended(batch, files, this.#now()), true);
      return true;
    });
    // A batch that was cancelled or expired during validation may still have lines, which are not part of `total`.
    if (isDone) await this.#eraseLines(id, 'open');
    return isDone;
  }

  async results(id: string, after: number, maxBytes: number): Promise<readonly StoredResult[]> {
    const rows = await this.database.query<ResultRow>(
      `SELECT line, custom_id, outcome, result FROM (
         SELECT line, custom_id, outcome, result, coalesce(sum(octet_length(result)) OVER (ORDER BY line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
         FROM (SELECT line, custom_id, outcome, result FROM batch_lines WHERE batch_id = $1 AND line > $2 AND outcome IS NOT NULL ORDER BY line LIMIT $3) AS first
       ) AS sized WHERE before < $4 ORDER BY line`,
      [id, after, ERASED_AT_ONCE, maxBytes],
    );
    return rows.map(({ line, custom_id, outcome, result }) => ({ line, customId: custom_id, outcome, text: result }));
  }

  dropResults(id: string): Promise<void> {
    return this.#eraseLines(id, 'all');
  }

  /** Erases lines in statements that each erase at most ERASED_AT_ONCE lines and about ERASED_BYTES. */
  async #eraseLines(id: string, which: 'open' | 'all'): Promise<void> {
    const isOpen = which === 'open' ? 'AND outcome IS NULL' : '';
    while (
      (await this.database.execute(
        `WITH first_lines AS (
           SELECT line, octet_length(body)::bigint + octet_length(result) AS bytes FROM batch_lines
           WHERE batch_id = $1 ${isOpen} ORDER BY line LIMIT $2
         ), sized AS (SELECT line, sum(bytes) OVER (ORDER BY line) - bytes AS before FROM first_lines)
         DELETE FROM batch_lines WHERE batch_id = $1 AND line IN (SELECT line FROM sized WHERE before < $3)`,
        [id, ERASED_AT_ONCE, ERASED_BYTES],
      )) > 0
    );
  }

  /** Erases a batch that has been marked with ERASED. */
  async #erase(id: string): Promise<void> {
    await this.#eraseLines(id, 'all');
    await this.database.execute(`DELETE FROM batches WHERE id = $1 AND ended_at = ${ERASED}`, [id]);
  }

  async counts(): Promise<{ running: number; waiting: number }> {
    const batches = (
      await this.database.query<Row>("SELECT data, job_owner FROM batches WHERE ended_at IS NULL AND phase = 'running'")
    ).map(batchOf);
    const open = batches.reduce((sum, batch) => sum + openLines(batch), 0);
    const [row] = await this.database.query<{ n: number }>(
      `SELECT count(*) AS n FROM batch_lines JOIN batches ON batches.id = batch_lines.batch_id
       WHERE batches.ended_at IS NULL AND batches.phase = 'running' AND batch_lines.outcome IS NULL AND batch_lines.owner <> '' AND batch_lines.lease_until > $1`,
      [this.#now()],
    );
    const running = row?.n ?? 0;
    return { running, waiting: Math.max(0, open - running) };
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    // Repeated, because requests in progress may still create batches.
    for (;;) {
      await this.database.execute(
        `UPDATE batches SET ended_at = ${ERASED} WHERE organization = $1 AND ended_at IS DISTINCT FROM ${ERASED}`,
        [organizationId],
      );
      const marked = await this.database.query<{ id: string }>(
        `SELECT id FROM batches WHERE organization = $1 AND ended_at = ${ERASED}`,
        [organizationId],
      );
      if (marked.length === 0) return;
      for (const { id } of marked) await this.#erase(id);
    }
  }

  async sweep(): Promise<number> {
    const interrupted = await this.database.query<{ id: string }>(`SELECT id FROM batches WHERE ended_at = ${ERASED}`);
    for (const { id } of interrupted) await this.#erase(id);
    let erased = 0;
    while (this.#gate.allows()) {
      const now = this.#now();
      const [over] = await this.database.query<{ id: string }>(
        `UPDATE batches SET ended_at = ${ERASED} WHERE id = (
           SELECT id FROM batches WHERE (ended_at <= $1 AND ended_at <> ${ERASED})
             OR (ended_at IS NULL AND phase = 'validating' AND kind = 'messages' AND created_at <= $2)
           LIMIT 1 FOR UPDATE SKIP LOCKED)
         RETURNING id`,
        [now - this.#retentionMs, now - UNBEGUN_MS],
      );
      if (over === undefined) break;
      await this.#erase(over.id);
      erased++;
    }
    const leftOver = await this.database.query<{ id: string; kind: BatchKind }>(
      `SELECT id, kind FROM batches WHERE ended_at <> ${ERASED} AND EXISTS (
         SELECT FROM batch_lines WHERE batch_id = batches.id AND (batches.kind = 'openai' OR outcome IS NULL))`,
    );
    for (const { id, kind } of leftOver) await this.#eraseLines(id, kind === 'openai' ? 'all' : 'open');
    return erased;
  }

  async #readable(sql: Queryable, organizationId: string, id: string): Promise<Batch | null> {
    if (!isBatchId(id)) return null;
    const [row] = await sql.query<Row>(
      'SELECT data, job_owner FROM batches WHERE id = $1 AND organization = $2 AND (ended_at IS NULL OR ended_at > $3)',
      [id, organizationId, this.#now() - this.#retentionMs],
    );
    return row === undefined ? null : batchOf(row);
  }
}

const batchOf = ({ data }: Pick<Row, 'data'>): Batch => JSON.parse(data) as Batch;

/**
 * Locks the row of a batch and returns the batch. Resolves to null if the batch is unknown. Must be called within a
 * transaction.
 */
async function locked(within: Queryable, id: string): Promise<Batch | null> {
  const [row] = await within.query<Row>(
    `SELECT data, job_owner FROM batches WHERE id = $1 AND ended_at IS DISTINCT FROM ${ERASED} FOR UPDATE`,
    [id],
  );
  return row === undefined ? null : batchOf(row);
}

/**
 * Stores a changed batch. `freesJob` ends its job lease. Must be called within the transaction that has locked the
 * batch.
 */
async function put(within: Queryable, batch: Batch, freesJob: boolean): Promise<void> {
  await within.execute(
    `UPDATE batches SET phase = $2, ended_at = $3, data = $4,
       job_owner = CASE WHEN $5 THEN '' ELSE job_owner END, job_until = CASE WHEN $5 THEN 0 ELSE job_until END
     WHERE id = $1`,
    [batch.id, batch.phase, batch.endedAt, JSON.stringify(batch), freesJob],
  );
}
