// Implements UsageStore on the usage tables. Sums are updated in place, so that several processes can add to them; rows
// are locked in key order. Reports are summed by the database.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { monthName, monthNumber } from '../../../admission/month-use.js';
import { BatchOnce } from '../batch-once.js';
import type { Database, Queryable } from '../database.js';
import type { PriceTable } from '../../../shared/wire/usage.js';
import { LatencyGroups, latencyRows } from '../../../usage/latency-groups.js';
import type { LatencyRow } from '../../../usage/latency-groups.js';
import { Sketching } from '../../../usage/latency-sketch.js';
import { HOUR_MS, isFinished, summedUp } from '../../../usage/sums.js';
import type { FinishedUsage } from '../../../shared/usage-sink.js';
import type {
  LatencyGroup,
  UsageCursor,
  UsageEntry,
  UsageExpiry,
  UsageQuery,
  UsageRows,
  UsageSpan,
  UsageStore,
  UsageTotal,
} from '../../../usage/usage-store.js';
import { NEVER, SUMS, usageRows, usageTotals } from './usage-query.js';

/** Number of rows per erasing statement. */
const BATCH = 1_000;
const SLICE = 5_000;

const TYPES = [...Array<string>(9).fill('bigint'), ...Array<string>(3).fill('double precision')];

const ADD_HOURS = `INSERT INTO usage_hours (organization_id, hour, model, key_id, endpoint, ${SUMS.join(', ')})
  SELECT * FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[], ${TYPES.map((type, at) => `$${at + 6}::${type}[]`).join(', ')})
  ON CONFLICT (organization_id, hour, model, key_id, endpoint) DO UPDATE SET ${SUMS.map((name) => `${name} = usage_hours.${name} + excluded.${name}`).join(', ')}`;

export class PostgresUsageStore implements UsageStore {
  readonly #once: BatchOnce<UsageEntry>;

  constructor(private readonly database: Database) {
    this.#once = new BatchOnce(database);
  }

  record(entries: readonly UsageEntry[]): Promise<void> {
    return this.#once.write(entries, put);
  }

  async monthTokens(organizationIds: readonly string[], month: string): Promise<number[]> {
    const rows = await this.database.query<{ organization_id: string; tokens: number }>(
      'SELECT organization_id, tokens FROM usage_months WHERE organization_id = ANY($1) AND month = $2',
      [organizationIds, month],
    );
    const tokens = new Map(rows.map((row) => [row.organization_id, row.tokens]));
    return organizationIds.map((id) => tokens.get(id) ?? 0);
  }

  rows(query: UsageQuery, limit: number, after: UsageCursor | null): Promise<UsageRows> {
    return usageRows(this.database, query, limit, after);
  }

  totals(span: UsageSpan, organizationIds: readonly string[], prices: PriceTable | null): Promise<UsageTotal[]> {
    return usageTotals(this.database, span, organizationIds, prices);
  }

  async latencies(query: UsageQuery): Promise<LatencyGroup[]> {
    const groups = new LatencyGroups(query);
    let last: [hour: number, model: string, keyId: string] = [query.fromHour, '', ''];
    for (;;) {
      const slice = await this.database.query<{ hour: number; model: string; key_id: string } & Sketches>(
        `SELECT hour, model, key_id, first_sketch, total_sketch FROM usage_latencies
         WHERE organization_id = $1 AND hour < $2 AND (hour, model, key_id) > ($3, $4, $5) ORDER BY hour, model, key_id LIMIT $6`,
        [query.organizationId, Math.min(query.toHour, NEVER), ...last, SLICE],
      );
      for (const { model, key_id: keyId, first_sketch: first, total_sketch: total } of slice)
        groups.add(model, keyId, { first, total });
      const end = slice.at(-1);
      if (end === undefined || slice.length < SLICE) return groups.result();
      last = [end.hour, end.model, end.key_id];
      await nextTurn();
    }
  }

  async erase({ rows, sums }: UsageExpiry, signal: AbortSignal): Promise<number> {
    if (signal.aborted) return 0;
    await this.#once.sweep();
    const hour = Math.floor(sums / HOUR_MS);
    let erased = 0;
    for (const [text, bound] of [
      [
        'DELETE FROM usage_rows WHERE number IN (SELECT number FROM usage_rows WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)',
        rows,
      ],
      [
        `DELETE FROM usage_hours WHERE (organization_id, hour, model, key_id, endpoint) IN (
         SELECT organization_id, hour, model, key_id, endpoint FROM usage_hours WHERE hour < $1 LIMIT $2)`,
        hour,
      ],
      [
        `DELETE FROM usage_latencies WHERE (organization_id, hour, model, key_id) IN (
         SELECT organization_id, hour, model, key_id FROM usage_latencies WHERE hour < $1 LIMIT $2)`,
        hour,
      ],
      [
        `DELETE FROM usage_months WHERE (organization_id, month) IN (
         SELECT organization_id, month FROM usage_months WHERE month < $1 LIMIT $2)`,
        monthName(monthNumber(sums)),
      ],
    ] as const) {
      for (let gone = BATCH; gone === BATCH && !signal.aborted; erased += gone)
        gone = await this.database.execute(text, [bound, BATCH]);
    }
    return erased;
  }
}

interface Sketches {
  first_sketch: number[];
  total_sketch: number[];
}

/** Must be called within a transaction. */
async function put(sql: Queryable, entries: readonly UsageEntry[]): Promise<void> {
  const { hours, months } = summedUp(entries);
  const finished = entries.filter((entry): entry is UsageEntry & { usage: FinishedUsage } => isFinished(entry.usage));
  if (finished.length > 0) {
    await sql.execute(
      'INSERT INTO usage_rows (ended_at, usage) SELECT ended_at, usage::json FROM unnest($1::bigint[], $2::text[]) AS given (ended_at, usage)',
      [finished.map(({ usage }) => usage.endedAt), finished.map(({ usage }) => JSON.stringify(usage))],
    );
  }
  const sorted = [...hours].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, hour]) => hour);
  await sql.execute(ADD_HOURS, [
    ...[0, 1, 2, 3, 4].map((at) => sorted.map(({ key }) => key[at] as string | number)),
    ...SUMS.map((_, at) => sorted.map(({ sums }) => sums[at] as number)),
  ]);
  const sums = [...months].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, month]) => month);
  await sql.execute(
    `INSERT INTO usage_months (organization_id, month, tokens) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
     ON CONFLICT (organization_id, month) DO UPDATE SET tokens = usage_months.tokens + excluded.tokens`,
    [sums.map(({ key }) => key[0]), sums.map(({ key }) => key[1]), sums.map(({ tokens }) => tokens)],
  );
  await putLatencies(sql, latencyRows(finished));
}

/** Sketches are merged in this process: each row is created if needed, then locked and read. */
async function putLatencies(sql: Queryable, rows: readonly LatencyRow[]): Promise<void> {
  if (rows.length === 0) return;
  const sorted = [...rows].sort((a, b) => (a.key.join('\n') < b.key.join('\n') ? -1 : 1));
  const keys = [0, 1, 2, 3].map((at) => sorted.map(({ key }) => key[at] as string | number));
  await sql.execute(
    `INSERT INTO usage_latencies (organization_id, hour, model, key_id, first_sketch, total_sketch)
     SELECT organization_id, hour, model, key_id, '[]', '[]' FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[]) AS given (organization_id, hour, model, key_id)
     ON CONFLICT (organization_id, hour, model, key_id) DO NOTHING`,
    keys,
  );
  const before = await sql.query<{ name: number } & Sketches>(
    `SELECT given.name, kept.first_sketch, kept.total_sketch
     FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[]) WITH ORDINALITY AS given (organization_id, hour, model, key_id, name)
     JOIN usage_latencies AS kept USING (organization_id, hour, model, key_id) ORDER BY given.name FOR UPDATE OF kept`,
    keys,
  );
  const merged = before.map(({ name, first_sketch: first, total_sketch: total }) => {
    const row = sorted[name - 1] as LatencyRow;
    return {
      key: row.key,
      first: new Sketching().merge(row.first).merge(first).stored(),
      total: new Sketching().merge(row.total).merge(total).stored(),
    };
  });
  await sql.execute(
    `UPDATE usage_latencies SET first_sketch = given.first::json, total_sketch = given.total::json
     FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[]) AS given (organization_id, hour, model, key_id, first, total)
     WHERE usage_latencies.organization_id = given.organization_id AND usage_latencies.hour = given.hour AND usage_latencies.model = given.model AND usage_latencies.key_id = given.key_id`,
    [
      ...[0, 1, 2, 3].map((at) => merged.map(({ key }) => key[at] as string | number)),
      merged.map(({ first }) => JSON.stringify(first)),
      merged.map(({ total }) => JSON.stringify(total)),
    ],
  );
}
