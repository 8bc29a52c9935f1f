// UsageStore's reports on the hourly table, summed by the database: over a range, by hour or day, optionally grouped,
// paginated. Prices are passed as a table; usage of models without a price is counted as free.

import type { Queryable, Value } from '../database.js';
import { NO_MEMBER } from '../../../shared/wire/usage.js';
import type { PriceTable, UsageRowObject } from '../../../shared/wire/usage.js';
import { HOUR_MS } from '../../../usage/sums.js';
import type { UsageCursor, UsageQuery, UsageRows, UsageSpan, UsageTotal } from '../../../usage/usage-store.js';

/** Later than any possible hour. */
export const NEVER = 2 ** 31 - 1;

type Counts = Omit<UsageRowObject, 'bucket_start' | 'model' | 'api_key_id' | 'endpoint' | 'member_id'>;
interface SummedRow extends Counts {
  bucket: number;
  name: string;
  model: string;
  key_id: string;
  endpoint: string;
  member: string;
}

/** The columns of UsageSums, in the same order. */
export const SUMS = [
  'requests',
  'errors',
  'rate_limited',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'reasoning_tokens',
  'images',
  'answered',
  'first_token_ms',
  'duration_ms',
  'decode_ms',
] as const;

/**
 * Sums of usage_hours joined with `prices`. The sum of a bigint column is numeric, which `pg` does not return as a
 * number. All sums are far below 2^53, so they are cast back to bigint.
 */
const COUNTS = [
  ...SUMS.map((name) => `sum(hours.${name})${name.endsWith('_ms') ? '' : '::bigint'} AS ${name}`),
  `sum((greatest(0, hours.input_tokens - hours.cached_tokens) * prices.input + hours.cached_tokens * prices.cached_input + hours.output_tokens * prices.output) / 1e6) AS cost`,
].join(', ');

/** Parameters $1 to $4. */
const PRICES =
  'LEFT JOIN unnest($1::text[], $2::double precision[], $3::double precision[], $4::double precision[]) AS prices (model, input, cached_input, output) ON prices.model = hours.model';

const valuesOf = (prices: PriceTable | null): Value[] => {
  const all = Object.entries(prices?.models ?? {});
  return [
    all.map(([model]) => model),
    all.map(([, { input }]) => input),
    all.map(([, { cached_input: cached }]) => cached),
    all.map(([, { output }]) => output),
  ];
};

const NO_OWNERS: ReadonlyMap<string, string> = new Map();

/** See UsageStore.rows(). */
export async function usageRows(
  sql: Queryable,
  query: UsageQuery,
  limit: number,
  after: UsageCursor | null,
): Promise<UsageRows> {
  const { organizationId, fromHour, toHour, bucket, groupBy, models, apiKeys, prices } = query;
  const owners = groupBy.includes('member') ? (query.keyOwners ?? NO_OWNERS) : NO_OWNERS;
  const found = await sql.query<SummedRow>(
    `SELECT * FROM (
       SELECT hours.hour / $5::integer * $5::integer AS bucket, concat_ws(E'\\n', fields.model, fields.key_id, fields.endpoint, fields.member) COLLATE "C" AS name,
         fields.model, fields.key_id, fields.endpoint, fields.member, ${COUNTS}
       FROM usage_hours AS hours ${PRICES}
       LEFT JOIN unnest($17::text[], $18::text[]) AS owners (key_id, member) ON owners.key_id = hours.key_id
       CROSS JOIN LATERAL (SELECT CASE WHEN $6 THEN hours.model ELSE '' END AS model, CASE WHEN $7 THEN hours.key_id ELSE '' END AS key_id, CASE WHEN $8 THEN hours.endpoint ELSE '' END AS endpoint,
         CASE WHEN $19 THEN coalesce(owners.member, '${NO_MEMBER}') ELSE '' END AS member) AS fields
       WHERE hours.organization_id = $9 AND hours.hour >= $10 AND hours.hour < $11
         AND ($12::text[] IS NULL OR hours.model = ANY($12)) AND ($13::text[] IS NULL OR hours.key_id = ANY($13))
       GROUP BY 1, 2, 3, 4, 5, 6
     ) AS summed WHERE (bucket, name) > ($14::integer, $15::text) ORDER BY bucket, name LIMIT $16`,
    [
      ...valuesOf(prices),
      bucket === 'day' ? 24 : 1,
      groupBy.includes('model'),
      groupBy.includes('api_key'),
      groupBy.includes('endpoint'),
      organizationId,
      after === null ? fromHour : Math.max(fromHour, after.hour),
      Math.min(toHour, NEVER),
      models,
      apiKeys,
      after?.hour ?? -1,
      after?.group ?? '',
      limit + 1,
      [...owners.keys()],
      [...owners.values()],
      groupBy.includes('member'),
    ],
  );
  const rows = found.slice(0, limit);
  const last = rows.at(-1);
  return {
    rows: rows.map((row) => ({
      bucket_start: new Date(row.bucket * HOUR_MS).toISOString(),
      model: groupBy.includes('model') && row.model !== '' ? row.model : null,
      api_key_id: groupBy.includes('api_key') ? row.key_id : null,
      endpoint: groupBy.includes('endpoint') ? row.endpoint : null,
      member_id: groupBy.includes('member') ? row.member : null,
      ...countsOf(row),
    })),
    next: found.length > limit && last !== undefined ? { hour: last.bucket, group: last.name } : null,
  };
}

/** See UsageStore.totals(). */
export async function usageTotals(
  sql: Queryable,
  { fromHour, toHour }: UsageSpan,
  organizationIds: readonly string[],
  prices: PriceTable | null,
): Promise<UsageTotal[]> {
  const rows = await sql.query<SummedRow & { organization_id: string }>(
    `SELECT hours.organization_id, hours.model, ${COUNTS} FROM usage_hours AS hours ${PRICES}
     WHERE hours.organization_id = ANY($5) AND hours.hour >= $6 AND hours.hour < $7
     GROUP BY hours.organization_id, hours.model ORDER BY array_position($5, hours.organization_id), hours.model`,
    [...valuesOf(prices), organizationIds, fromHour, Math.min(toHour, NEVER)],
  );
  return rows.map((row) => ({
    organization_id: row.organization_id,
    model: row.model === '' ? null : row.model,
    ...countsOf(row),
  }));
}

function countsOf(row: SummedRow): Counts {
  return Object.fromEntries([...SUMS, 'cost'].map((name) => [name, row[name as keyof Counts]])) as unknown as Counts;
}
