// All organizations' usage over time: sums for a chart, and rows for a spreadsheet.

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Organizations } from '../../accounts/organizations.js';
import { apiError } from '../../shared/errors.js';
import type { PriceTable, UsageHistoryRow, UsageRowObject } from '../../shared/wire/usage.js';
import type { Exchange } from '../../http/exchange.js';
import type { UsageCursor, UsageQuery, UsageStore } from '../../usage/usage-store.js';
import { csvLine, sendCsv } from '../api/csv.js';
import { readUsageQuery } from '../api/usage-fields.js';
import { askedOrganization } from './organizations.js';

const ORGANIZATIONS_PAGE = 100;
const ROWS_PAGE = 2_000;
/** Maximum number of rows in a response, about 10 MB. */
const MAX_ROWS = 25_000;

export interface HistoryDeps {
  organizations: Pick<Organizations, 'page'>;
  usage: Pick<UsageStore, 'rows'>;
}

export interface HistoryQuery {
  readonly usage: UsageQuery;
  /** Null selects all. */
  readonly organization: string | null;
  readonly groupBy: 'organization' | 'model';
}

/** Throws ApiError 400. */
export function readHistoryQuery(query: URLSearchParams, prices: PriceTable | null): HistoryQuery {
  const groupBy = query.get('group_by') ?? 'model';
  if (groupBy !== 'organization' && groupBy !== 'model')
    throw apiError('invalid_query_parameter', 'group_by must be organization or model.', 'group_by');
  const rest = new URLSearchParams(query);
  rest.delete('group_by');
  const usage = readUsageQuery(rest, '', prices, Date.now());
  return { usage: { ...usage, groupBy: ['model'] }, organization: askedOrganization(query), groupBy };
}

/**
 * Sums of all organizations, ordered by time. Stops early if `isGone` returns true. Rejects with ApiError 400 if there
 * are too many rows.
 */
export async function usageHistory(
  deps: HistoryDeps,
  query: HistoryQuery,
  isGone: () => boolean,
): Promise<UsageHistoryRow[]> {
  const sums = new Map<string, UsageHistoryRow>();
  for await (const { organization, rows } of pagesOf(deps, query)) {
    if (isGone()) return [];
    for (const row of rows) {
      const group = query.groupBy === 'model' ? (row.model ?? '') : organization.id;
      const name = `${row.bucket_start}\n${group}`;
      const known = sums.get(name);
      if (known === undefined) sums.set(name, historyRow(row, query.groupBy, organization.id));
      else add(known, row);
    }
    if (sums.size > MAX_ROWS)
      throw apiError(
        'invalid_query_parameter',
        `This range has more than ${MAX_ROWS} rows. Use a shorter range or daily buckets.`,
        'from',
      );
  }
  return [...sums.values()].sort((a, b) => (a.bucket_start < b.bucket_start ? -1 : 1));
}

const COUNTS = [
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
] as const satisfies readonly (keyof UsageRowObject)[];

function historyRow(
  { api_key_id: _key, endpoint: _endpoint, member_id: _member, ...row }: UsageRowObject,
  groupBy: HistoryQuery['groupBy'],
  organizationId: string,
): UsageHistoryRow {
  return groupBy === 'model'
    ? { ...row, organization_id: null }
    : { ...row, model: null, organization_id: organizationId };
}

function add(sum: UsageHistoryRow, row: UsageRowObject): void {
  for (const name of COUNTS) sum[name] += row[name];
  if (row.cost !== null) sum.cost = (sum.cost ?? 0) + row.cost;
}

interface OrganizationRows {
  readonly organization: { readonly id: string; readonly name: string };
  readonly rows: readonly UsageRowObject[];
}

async function* pagesOf(
  { organizations, usage }: HistoryDeps,
  { usage: query, organization: one }: HistoryQuery,
): AsyncGenerator<OrganizationRows> {
  for (let after: string | null = null; ; ) {
    // A deleted organization's usage remains available until its retention period ends.
    const page: { data: { id: string; name: string }[]; next: string | null } =
      one === null
        ? await organizations.page(ORGANIZATIONS_PAGE, after)
        : { data: [{ id: one, name: '' }], next: null };
    for (const { id, name } of page.data) {
      for (let from: UsageCursor | null = null; ; ) {
        const { rows, next } = await usage.rows({ ...query, organizationId: id }, ROWS_PAGE, from);
        yield { organization: { id, name }, rows };
        if (next === null) break;
        from = next;
      }
    }
    if (page.next === null) return;
    after = page.next;
    await nextTurn();
  }
}

const CSV_COLUMNS = ['bucket_start', 'organization_id', 'organization', 'model', ...COUNTS, 'cost'] as const;

/** Sends one row per organization, model and time bucket. Rejects with ApiError 400 if there are too many rows. */
export async function sendHistoryCsv(exchange: Exchange, deps: HistoryDeps, query: HistoryQuery): Promise<void> {
  const pages = pagesOf(deps, query);
  await sendCsv(exchange, { file: 'total-usage.csv', columns: CSV_COLUMNS, rows: MAX_ROWS }, async () => {
    const { value, done } = await pages.next();
    if (done === true) return { lines: [], next: null };
    const { organization, rows } = value;
    const lines = rows.map((row) =>
      csvLine({ ...row, organization_id: organization.id, organization: organization.name }, CSV_COLUMNS),
    );
    return { lines, next: true as const };
  });
}
