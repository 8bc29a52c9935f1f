// …/usage and …/usage.csv: an organization's usage by hour or day, for charts and spreadsheets.

import { FairSlots } from '../../generation/fair-slots.js';
import type { Route } from '../../http/exchange.js';
import { shareOf } from '../../shared/thread-count.js';
import type { UsageCursor, UsageStore } from '../../usage/usage-store.js';
import type { PriceTable, UsagePage, UsageRowObject } from '../../shared/wire/usage.js';
import type { PriceStore } from '../../usage/price-store.js';
import { csvLine, sendCsv } from './csv.js';
import { readUsagePage, readUsageQuery, writeCursor } from './usage-fields.js';
import type { Guard } from './guard.js';

export const NO_PRICES: PriceTable = { currency: '', models: {} };

const CSV_PAGE = 2_000;
/** Maximum number of rows in a CSV file, about 10 MB. */
const CSV_ROWS = 25_000;

/**
 * Reading a year of hourly data takes seconds and tens of MB, so only a few such reads run at a time, shared fairly
 * between organizations.
 */
export const readingUsage = new FairSlots(shareOf(2), 'usage reports', 64);

const COLUMNS = [
  'bucket_start',
  'model',
  'api_key_id',
  'endpoint',
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
  'cost',
] as const satisfies readonly (keyof UsageRowObject)[];

export interface UsageDeps {
  guard: Guard;
  usage: Pick<UsageStore, 'rows'>;
  prices: Pick<PriceStore, 'get'>;
}

export function usageRoutes({ guard, usage, prices }: UsageDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org/prices',
      handler: async ({ exchange }) => exchange.json(200, (await prices.get()) ?? NO_PRICES),
    }),

    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org/usage',
      handler: async ({ exchange, organization }) => {
        const query = readUsageQuery(exchange.query, organization.id, await prices.get(), Date.now());
        const { limit, after } = readUsagePage(exchange.query);
        await readingUsage.run({ organization: organization.id }, 1, async () => {
          if (exchange.aborted) return;
          const { rows, next } = await usage.rows(query, limit, after);
          const page: UsagePage = {
            object: 'list',
            data: rows,
            next_page: next === null ? null : writeCursor(next),
            has_more: next !== null,
          };
          exchange.json(200, page);
        });
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org/usage.csv',
      handler: async ({ exchange, organization }) => {
        const query = readUsageQuery(exchange.query, organization.id, await prices.get(), Date.now());
        await readingUsage.run({ organization: organization.id }, 1, async () => {
          if (exchange.aborted) return;
          await sendCsv(
            exchange,
            { file: 'usage.csv', columns: COLUMNS, rows: CSV_ROWS },
            async (after: UsageCursor | null) => {
              const { rows, next } = await usage.rows(query, CSV_PAGE, after);
              return { lines: rows.map((row) => csvLine(row, COLUMNS)), next };
            },
          );
        });
      },
    }),
  ];
}
