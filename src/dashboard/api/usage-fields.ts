// Query parameters of …/usage and …/usage.csv. Time ranges and lists are bounded. Errors name the parameter.

import { apiError } from '../../shared/errors.js';
import { queryList } from '../../http/query.js';
import { readTime } from './times.js';
import { HOUR_MS } from '../../usage/sums.js';
import type { UsageCursor, UsageQuery } from '../../usage/usage-store.js';
import type { PriceTable, UsageBucket, UsageGroup } from '../../shared/wire/usage.js';

const DAY_MS = 24 * HOUR_MS;
const DEFAULT_DAYS = 7;
/** Maximum number of days per query. */
const MAX_DAYS: Readonly<Record<UsageBucket, number>> = { hour: 400, day: 3_660 };
const GROUPS: readonly UsageGroup[] = ['model', 'api_key', 'endpoint', 'member'];
const MAX_LISTED = 100;
const MAX_NAME = 128;
const DEFAULT_LIMIT = 1_000;
const MAX_LIMIT = 10_000;

/** Throws ApiError 400. Rounds `from` down and `to` up to a full hour or, for daily buckets, to a full UTC day. */
export function readUsageQuery(
  query: URLSearchParams,
  organizationId: string,
  prices: PriceTable | null,
  now: number,
): UsageQuery {
  const bucket = oneOf(query, 'bucket', ['hour', 'day'] as const, 'day');
  const to = readTime(query, 'to') ?? now;
  const from = readTime(query, 'from') ?? to - DEFAULT_DAYS * DAY_MS;
  if (from >= to) throw invalid('from', 'from must be before to.');
  const size = bucket === 'day' ? 24 : 1;
  const fromHour = Math.floor(from / HOUR_MS / size) * size;
  const toHour = Math.ceil(to / HOUR_MS / size) * size;
  if (toHour - fromHour > (MAX_DAYS[bucket] + 1) * 24) {
    throw invalid('from', `from and to may be at most ${MAX_DAYS[bucket]} days apart with bucket ${bucket}.`);
  }
  const groupBy = list(query, 'group_by') ?? [];
  for (const group of groupBy) {
    if (!GROUPS.includes(group as UsageGroup))
      throw invalid('group_by', `group_by must be one or more of ${GROUPS.join(', ')}.`);
  }
  return {
    organizationId,
    bucket,
    fromHour,
    toHour,
    groupBy: groupBy as UsageGroup[],
    models: list(query, 'models'),
    apiKeys: list(query, 'api_keys'),
    prices,
  };
}

/** Rows per page. The maximum is higher than for other lists, because a chart needs all rows. Throws ApiError 400. */
export function readUsagePage(query: URLSearchParams): { limit: number; after: UsageCursor | null } {
  const text = query.get('limit') ?? String(DEFAULT_LIMIT);
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LIMIT) throw invalid('limit', `limit must be a whole number from 1 to ${MAX_LIMIT}.`);
  const after = query.get('after');
  return { limit, after: after === null ? null : readCursor(after) };
}

export const writeCursor = ({ hour, group }: UsageCursor): string =>
  Buffer.from(JSON.stringify([hour, group])).toString('base64url');

function readCursor(text: string): UsageCursor {
  try {
    const [hour, group] = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as [unknown, unknown];
    if (text.length <= 1_024 && Number.isSafeInteger(hour) && typeof group === 'string')
      return { hour: hour as number, group };
  } catch {
    // handled by the check below
  }
  throw invalid('after', 'after must be the `next_page` value of the previous page.');
}

function list(query: URLSearchParams, name: string): string[] | null {
  const values = [...new Set(queryList(query, name))];
  if (values.length > MAX_LISTED || values.some((value) => value.length > MAX_NAME))
    throw invalid(name, `${name} may list at most ${MAX_LISTED} names of up to ${MAX_NAME} characters each.`);
  return values.length === 0 ? null : values;
}

function oneOf<T extends string>(query: URLSearchParams, name: string, values: readonly T[], otherwise: T): T {
  const text = query.get(name);
  if (text === null) return otherwise;
  const found = values.find((value) => value === text);
  if (found === undefined) throw invalid(name, `${name} must be ${values.join(' or ')}.`);
  return found;
}

const invalid = (name: string, message: string): Error => apiError('invalid_query_parameter', message, name);
