// Usage data for the page: fetches a whole range, sums it up, and distributes it over time buckets.
import type { UsageBucket, UsageGroup, UsagePage, UsageRowObject } from '../../../shared/wire/usage.js';
import { api } from './api.js';

export type Range = '24h' | '7d' | '30d' | '90d' | '365d';
export const RANGES: readonly { value: Range; label: string; days: number }[] = [
  { value: '24h', label: '24 h', days: 1 },
  { value: '7d', label: '7 d', days: 7 },
  { value: '30d', label: '30 d', days: 30 },
  { value: '90d', label: '90 d', days: 90 },
  { value: '365d', label: '1 y', days: 365 },
];
/** Longer ranges are shown by day, because hourly data would have more bars than pixels. */
export const HOURLY_DAYS = 7;

const PAGE_ROWS = 5_000;
const MAX_ROWS = 50_000;
const HOUR_S = 3_600;
const DAY_S = 86_400;

export interface UsageAsk {
  from: string;
  to: string;
  bucket: UsageBucket;
  group_by: UsageGroup;
  models?: string;
  api_keys?: string;
}

/** The range of UTC days from the date fields, including the last day; null if invalid. */
export function customRange(first: string, last: string): { from: string; to: string; days: number } | null {
  const from = Date.parse(`${first}T00:00:00Z`);
  const to = Date.parse(`${last}T00:00:00Z`) + DAY_S * 1000;
  const days = (to - from) / (DAY_S * 1000);
  return Number.isFinite(days) && days >= 1 && days <= 3_660
    ? { from: new Date(from).toISOString(), to: new Date(to).toISOString(), days }
    : null;
}

/** The range that ends now. */
export function rangeOf(range: Range, now = Date.now()): { from: string; to: string } {
  const days = RANGES.find(({ value }) => value === range)?.days ?? 7;
  // The end is rounded up to the minute, so that repeated queries can use the cache.
  const to = Math.ceil(now / 60_000) * 60_000;
  return { from: new Date(to - days * DAY_S * 1000).toISOString(), to: new Date(to).toISOString() };
}

export async function loadUsage(path: string, ask: UsageAsk, signal: AbortSignal): Promise<UsageRowObject[]> {
  const rows: UsageRowObject[] = [];
  let after: string | null = null;
  do {
    const page: UsagePage = await api.get<UsagePage>(`${path}/usage`, { ...ask, limit: PAGE_ROWS, after }, signal);
    rows.push(...page.data);
    after = page.has_more ? page.next_page : null;
  } while (after !== null && rows.length < MAX_ROWS);
  return rows;
}

export type Sums = Pick<
  UsageRowObject,
  | 'requests'
  | 'errors'
  | 'rate_limited'
  | 'input_tokens'
  | 'cached_tokens'
  | 'output_tokens'
  | 'reasoning_tokens'
  | 'images'
  | 'answered'
  | 'first_token_ms'
  | 'duration_ms'
  | 'decode_ms'
> & { cost: number | null };
const SUMMED = [
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

export function totalOf(rows: readonly Sums[]): Sums {
  const total = Object.fromEntries(SUMMED.map((name) => [name, 0])) as unknown as Sums;
  total.cost = null;
  for (const row of rows) {
    for (const name of SUMMED) total[name] += row[name];
    if (row.cost !== null) total.cost = (total.cost ?? 0) + row.cost;
  }
  return total;
}

/** The group of requests that name a model unknown to the server. */
export const UNKNOWN_MODEL = '?';
/** The label of the series that sums all groups without a series of their own. */
export const OTHERS = 'All others';

const FIELDS = { model: 'model', api_key: 'api_key_id', endpoint: 'endpoint', member: 'member_id' } as const;
export const groupOf = (row: UsageRowObject, group: UsageGroup): string => row[FIELDS[group]] ?? UNKNOWN_MODEL;

/** The groups, sorted by tokens and requests, highest first. */
export function byGroup<R extends Sums>(
  rows: readonly R[],
  nameOf: (row: R) => string,
): { name: string; sums: Sums }[] {
  const groups = new Map<string, R[]>();
  for (const row of rows) {
    const name = nameOf(row);
    const known = groups.get(name);
    if (known === undefined) groups.set(name, [row]);
    else known.push(row);
  }
  const weight = ({ sums }: { sums: Sums }): number => sums.input_tokens + sums.output_tokens + sums.requests;
  return [...groups].map(([name, own]) => ({ name, sums: totalOf(own) })).sort((a, b) => weight(b) - weight(a));
}

/** Start of every bucket in the range, including empty buckets, in seconds since the Unix epoch. */
export function bucketsOf({ from, to, bucket }: Pick<UsageAsk, 'from' | 'to' | 'bucket'>): number[] {
  const step = bucket === 'hour' ? HOUR_S : DAY_S;
  const first = Math.floor(Date.parse(from) / 1000 / step) * step;
  const end = Date.parse(to) / 1000;
  const times: number[] = [];
  for (let time = first; time < end; time += step) times.push(time);
  return times;
}

export const MEASURES = [
  { value: 'tokens', label: 'Tokens', of: (row: Sums) => row.input_tokens + row.output_tokens },
  { value: 'requests', label: 'Requests', of: (row: Sums) => row.requests },
  { value: 'input', label: 'Input tokens', of: (row: Sums) => row.input_tokens },
  { value: 'cached', label: 'Cached input tokens', of: (row: Sums) => row.cached_tokens },
  { value: 'output', label: 'Output tokens', of: (row: Sums) => row.output_tokens },
  { value: 'cost', label: 'Cost', of: (row: Sums) => row.cost ?? 0 },
  { value: 'errors', label: 'Errors and rate-limited', of: (row: Sums) => row.errors + row.rate_limited },
] as const;
export type Measure = (typeof MEASURES)[number]['value'];

/** One series of values per name, aligned with the times. */
export function seriesOf<R extends Sums & { bucket_start: string }>(
  rows: readonly R[],
  times: readonly number[],
  names: readonly string[],
  nameOf: (row: R) => string,
  measure: Measure,
): number[][] {
  const of = (MEASURES.find(({ value }) => value === measure) ?? MEASURES[0]).of;
  const at = new Map(times.map((time, index) => [time, index]));
  const place = new Map(names.map((name, index) => [name, index]));
  const lines = names.map(() => new Array<number>(times.length).fill(0));
  for (const row of rows) {
    const index = at.get(Date.parse(row.bucket_start) / 1000);
    // groups without their own series count toward the last series
    const line = lines[place.get(nameOf(row)) ?? names.length - 1];
    if (index !== undefined && line !== undefined) line[index] = (line[index] ?? 0) + of(row);
  }
  return lines;
}

/** A period of the operators' usage pages, in days. */
export type Days = '1' | '7' | '30' | '365';

export const DAYS: readonly { value: Days; label: string }[] = [
  { value: '1', label: '24 h' },
  { value: '7', label: '7 d' },
  { value: '30', label: '30 d' },
  { value: '365', label: '1 y' },
];

/** Mean time to first token over requests that returned at least one token; null if there are none. */
export const firstTokenMs = (sums: Sums): number | null =>
  sums.answered === 0 ? null : sums.first_token_ms / sums.answered;
export const durationMs = (sums: Sums): number | null =>
  sums.answered === 0 ? null : sums.duration_ms / sums.answered;
/** Generation speed per response, measured after its first token. */
export const tokensPerSecond = (sums: Sums): number | null =>
  sums.decode_ms <= 0 ? null : (Math.max(0, sums.output_tokens - sums.answered) * 1000) / sums.decode_ms;

/**
 * Amounts below this have more than two decimal places. The limit is lowest for table cells, because two decimal places
 * keep the digits of a column aligned.
 */
const SMALL = { price: 10, amount: 1, cell: 0.01 } as const;

/** For example €12.34 or, for a price, €2.375. If the currency is not an ISO code, it follows the number. */
export function money(amount: number | null, currency: string, kind: keyof typeof SMALL = 'amount'): string {
  if (amount === null) return '–';
  const places = {
    minimumFractionDigits: 2,
    maximumFractionDigits: amount > 0 && amount < 0.01 ? 6 : amount < SMALL[kind] ? 4 : 2,
  };
  return /^[A-Z]{3}$/.test(currency)
    ? amount.toLocaleString('en-US', { style: 'currency', currency, currencyDisplay: 'narrowSymbol', ...places })
    : `${amount.toLocaleString('en-US', places)} ${currency}`.trim();
}
