// GET …/usage: usage by model over a range of hours, for each organization or, if `organization` is given, for one.

import type { ListPage } from '../../shared/wire/list.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { UsageHistory } from '../../shared/wire/usage.js';
import type { UsageStore, UsageTotal } from '../../usage/usage-store.js';
import type { Organizations } from '../../accounts/organizations.js';
import type { PriceStore } from '../../usage/price-store.js';
import { readingUsage } from '../api/usage.js';
import { readHistoryQuery, sendHistoryCsv, usageHistory } from './usage-history.js';
import { dateField } from '../api/key-fields.js';
import { readPage } from '../api/paging.js';
import type { OperatorGuard } from './operator-guard.js';
import { askedOrganization } from './organizations.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DEFAULT_MS = 30 * DAY_MS;
const MAX_MS = 731 * DAY_MS;

export interface UsageDeps {
  organizations: Pick<Organizations, 'page'>;
  usage: Pick<UsageStore, 'totals' | 'rows'>;
  prices: Pick<PriceStore, 'get'>;
}

export function usageRoutes(guard: OperatorGuard, { organizations, usage, prices }: UsageDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/usage',
      handler: async ({ exchange }) => {
        // Returns one page of organizations. Organizations without usage have no rows.
        const { limit, after } = readPage(exchange.query);
        const to = date(exchange.query, 'to') ?? Date.now();
        const from = date(exchange.query, 'from') ?? to - DEFAULT_MS;
        if (from >= to || to - from > MAX_MS)
          throw apiError('value_out_of_range', 'from must be before to and at most two years earlier.', 'from');
        // A deleted organization's usage remains available until its retention period ends.
        const one = askedOrganization(exchange.query);
        const page = one === null ? await organizations.page(limit, after) : { data: [{ id: one }], next: null };
        const rows = await usage.totals(
          { fromHour: Math.floor(from / HOUR_MS), toHour: Math.ceil(to / HOUR_MS) },
          page.data.map(({ id }) => id),
          await prices.get(),
        );
        const list: ListPage<UsageTotal> = {
          object: 'list',
          data: rows,
          has_more: page.next !== null,
          next: page.next,
        };
        exchange.json(200, list);
      },
    }),

    guard({
      method: 'GET',
      path: '/usage/history',
      handler: async ({ exchange }) => {
        const query = readHistoryQuery(exchange.query, await prices.get());
        await readingUsage.run({ organization: 'operators' }, 1, async () => {
          const data = await usageHistory({ organizations, usage }, query, () => exchange.aborted);
          const list: UsageHistory = { object: 'list', data };
          if (!exchange.aborted) exchange.json(200, list);
        });
      },
    }),

    guard({
      method: 'GET',
      path: '/usage.csv',
      handler: async ({ exchange }) => {
        const query = readHistoryQuery(exchange.query, await prices.get());
        await readingUsage.run({ organization: 'operators' }, 1, () =>
          sendHistoryCsv(exchange, { organizations, usage }, query),
        );
      },
    }),
  ];
}

function date(query: URLSearchParams, name: string): number | null {
  const text = query.get(name);
  if (text === null) return null;
  const parsed = dateField.safeParse(text);
  if (!parsed.success)
    throw apiError('invalid_query_parameter', `${name} must be a date and time, such as 2027-01-31T12:00:00Z.`, name);
  return parsed.data.getTime();
}
