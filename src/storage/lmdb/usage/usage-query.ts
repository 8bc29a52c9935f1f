// UsageStore's queries on the hourly table: sums over a range, by hour or day, optionally grouped, paginated. Entries
// are read in slices, with yields to the event loop in between, because an organization with many keys can have
// hundreds of thousands of entries per year.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { NO_MEMBER } from '../../../shared/wire/usage.js';
import type { PriceTable, UsageGroup, UsageRowObject } from '../../../shared/wire/usage.js';
import type { Key, Table } from '../../store.js';
import { costOf } from '../../../usage/price-store.js';
import { addSums, HOUR_MS, noUsage } from '../../../usage/sums.js';
import type { HourKey, UsageSums } from '../../../usage/sums.js';
import type { UsageCursor, UsageQuery, UsageRows, UsageSpan, UsageTotal } from '../../../usage/usage-store.js';

/** `cost`: the cost of the models that have a price; null if none of them has a price. */
interface Group {
  readonly fields: readonly [model: string, keyId: string, endpoint: string, member: string];
  readonly sums: UsageSums;
  cost: number | null;
}

const SLICE = 1_000;
/** Later than any possible hour. */
const NEVER = 2 ** 40;

/** See UsageStore.rows(). */
export async function usageRows(
  table: Table<UsageSums>,
  query: UsageQuery,
  limit: number,
  after: UsageCursor | null,
): Promise<UsageRows> {
  const size = query.bucket === 'day' ? 24 : 1;
  const first = after === null ? query.fromHour : Math.max(query.fromHour, after.hour);
  const rows: UsageRowObject[] = [];
  let hour = -1; // first hour of the bucket being summed
  let groups = new Map<string, Group>();
  let next: UsageCursor | null = null;

  /** Returns false if the page is full and more rows follow. */
  const emit = (): boolean => {
    for (const group of [...groups.keys()].sort()) {
      if (after !== null && hour === after.hour && group <= after.group) continue;
      if (rows.length === limit) return false;
      rows.push(rowObject(hour, groups.get(group) as Group, query.groupBy));
      next = { hour, group };
    }
    groups = new Map();
    return true;
  };

  for await (const {
    key: [, at, model, keyId, endpoint],
    value,
  } of hoursOf(table, query.organizationId, { fromHour: first, toHour: query.toHour })) {
    const bucket = Math.floor(at / size) * size;
    if (bucket !== hour) {
      if (!emit()) return { rows, next };
      hour = bucket;
    }
    if (query.models !== null && !query.models.includes(model)) continue;
    if (query.apiKeys !== null && !query.apiKeys.includes(keyId)) continue;
    const fields = [
      query.groupBy.includes('model') ? model : '',
      query.groupBy.includes('api_key') ? keyId : '',
      query.groupBy.includes('endpoint') ? endpoint : '',
      query.groupBy.includes('member') ? (query.keyOwners?.get(keyId) ?? NO_MEMBER) : '',
    ] as const;
    const group = fields.join('\n');
    let known = groups.get(group);
    if (known === undefined) groups.set(group, (known = { fields, sums: noUsage(), cost: null }));
    addTo(known, model, value, query.prices);
  }
  return emit() ? { rows, next: null } : { rows, next };
}

/** See UsageStore.totals(). */
export async function usageTotals(
  table: Table<UsageSums>,
  span: UsageSpan,
  organizationIds: readonly string[],
  prices: PriceTable | null,
): Promise<UsageTotal[]> {
  const totals: UsageTotal[] = [];
  for (const organizationId of organizationIds) {
    const models = new Map<string, Group>();
    for await (const {
      key: [, , model],
      value,
    } of hoursOf(table, organizationId, span)) {
      let group = models.get(model);
      if (group === undefined)
        models.set(model, (group = { fields: [model, '', '', ''], sums: noUsage(), cost: null }));
      addTo(group, model, value, prices);
    }
    for (const group of models.values()) {
      const {
        bucket_start: _start,
        api_key_id: _key,
        endpoint: _endpoint,
        member_id: _member,
        ...counts
      } = rowObject(0, group, ['model']);
      totals.push({ organization_id: organizationId, ...counts });
    }
    await nextTurn();
  }
  return totals;
}

/** Yields the organizations that have entries in a table whose keys start with the organization. */
export function organizationsOf(table: Table<unknown>): string[] {
  const found: string[] = [];
  for (let from: [string, number] | null = null; ; ) {
    const [key]: Key[] = [...table.keys({ ...(from === null ? {} : { from }), limit: 1 })];
    if (!Array.isArray(key)) return found;
    const organization: string = String(key[0]);
    found.push(organization);
    from = [`${organization}\u0001`, 0];
  }
}

async function* hoursOf(
  table: Table<UsageSums>,
  organizationId: string,
  { fromHour, toHour }: UsageSpan,
): AsyncGenerator<{ key: HourKey; value: UsageSums }> {
  let last: HourKey | null = null;
  for (;;) {
    const from: HourKey | [string, number] = last ?? [organizationId, fromHour];
    const slice = [...table.range({ from, to: [organizationId, Math.min(toHour, NEVER)], limit: SLICE })] as {
      key: HourKey;
      value: UsageSums;
    }[];
    const fresh = last !== null && slice.length > 0 && String(slice[0]?.key) === String(last) ? slice.slice(1) : slice;
    yield* fresh;
    if (slice.length < SLICE) return;
    last = (slice.at(-1) as { key: HourKey }).key;
    await nextTurn();
  }
}

function addTo(group: Group, model: string, sums: UsageSums, prices: PriceTable | null): void {
  addSums(group.sums, sums);
  const price = prices !== null && Object.hasOwn(prices.models, model) ? prices.models[model] : undefined;
  if (price !== undefined) group.cost = (group.cost ?? 0) + costOf(price, sums);
}

function rowObject(
  hour: number,
  { fields: [model, keyId, endpoint, member], sums, cost }: Group,
  groupBy: readonly UsageGroup[],
): UsageRowObject {
  const [
    requests,
    errors,
    rateLimited,
    input,
    cached,
    output,
    reasoning,
    images,
    answered,
    firstTokenMs,
    durationMs,
    decodeMs,
  ] = sums;
  return {
    bucket_start: new Date(hour * HOUR_MS).toISOString(),
    model: groupBy.includes('model') && model !== '' ? model : null,
    api_key_id: groupBy.includes('api_key') ? keyId : null,
    endpoint: groupBy.includes('endpoint') ? endpoint : null,
    member_id: groupBy.includes('member') ? member : null,
    requests,
    errors,
    rate_limited: rateLimited,
    input_tokens: input,
    cached_tokens: cached,
    output_tokens: output,
    reasoning_tokens: reasoning,
    images,
    answered,
    first_token_ms: firstTokenMs,
    duration_ms: durationMs,
    decode_ms: decodeMs,
    cost,
  };
}
