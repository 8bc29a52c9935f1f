// …/usage and …/usage.csv: an organization's usage by hour or day, for charts and spreadsheets.

import { FairSlots } from '../../generation/fair-slots.js';
import type { ApiKeys } from '../../accounts/api-keys.js';
import type { Route } from '../../http/exchange.js';
import { shareOf } from '../../shared/thread-count.js';
import type { UsageCursor, UsageQuery, UsageStore } from '../../usage/usage-store.js';
import type { PriceTable, UsagePage, UsageRowObject } from '../../shared/wire/usage.js';
import type { PriceStore } from '../../usage/price-store.js';
import { PLAYGROUND_KEY } from './playground.js';
import { PLAYGROUND_MEMBER } from '../../shared/wire/usage.js';
import type { Members } from '../../accounts/members.js';
import type { ServiceAccounts } from '../../accounts/service-accounts.js';
import type { Page } from '../../accounts/page.js';
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
const MEMBER_COLUMNS = [...COLUMNS, 'member_id', 'member_email', 'member_name'] as const;

export interface UsageDeps {
  guard: Guard;
  usage: Pick<UsageStore, 'rows'>;
  prices: Pick<PriceStore, 'get'>;
  apiKeys: Pick<ApiKeys, 'page'>;
  members: Pick<Members, 'page'>;
  serviceAccounts: Pick<ServiceAccounts, 'list'>;
}

export function usageRoutes(deps: UsageDeps): Route[] {
  const { guard, usage, prices, apiKeys } = deps;
  const read = async (parameters: URLSearchParams, organizationId: string): Promise<UsageQuery> => {
    const query = readUsageQuery(parameters, organizationId, await prices.get(), Date.now());
    if (!query.groupBy.includes('member')) return query;
    return { ...query, keyOwners: await keyOwners(apiKeys, organizationId) };
  };
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
        const query = await read(exchange.query, organization.id);
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
        const query = await read(exchange.query, organization.id);
        await readingUsage.run({ organization: organization.id }, 1, async () => {
          if (exchange.aborted) return;
          const names = query.groupBy.includes('member') ? await memberNames(deps, organization.id) : null;
          const columns = names === null ? COLUMNS : MEMBER_COLUMNS;
          await sendCsv(exchange, { file: 'usage.csv', columns, rows: CSV_ROWS }, async (after: UsageCursor | null) => {
            const { rows, next } = await usage.rows(query, CSV_PAGE, after);
            const named = rows.map((row) => {
              const member = names?.get(row.member_id ?? '');
              return { ...row, member_email: member?.email ?? null, member_name: member?.name ?? null };
            });
            return { lines: named.map((row) => csvLine(row, columns)), next };
          });
        });
      },
    }),
  ];
}

const READ_PAGE = 500;

/** Maps each of an organization's keys to its creator. */
async function keyOwners(apiKeys: Pick<ApiKeys, 'page'>, organizationId: string): Promise<Map<string, string>> {
  const owners = new Map<string, string>([[PLAYGROUND_KEY, PLAYGROUND_MEMBER]]);
  for await (const { id, createdBy } of entriesOf((after) => apiKeys.page(organizationId, READ_PAGE, after)))
    if (createdBy !== null) owners.set(id, createdBy);
  return owners;
}

interface Named {
  readonly email: string | null;
  readonly name: string;
}

/** Current members and service accounts, by ID. */
async function memberNames(
  { members, serviceAccounts }: Pick<UsageDeps, 'members' | 'serviceAccounts'>,
  organizationId: string,
): Promise<Map<string, Named>> {
  const names = new Map<string, Named>(
    (await serviceAccounts.list(organizationId)).map(({ id, name }) => [id, { email: null, name }]),
  );
  for await (const { userId, email, name } of entriesOf((after) => members.page(organizationId, READ_PAGE, after)))
    names.set(userId, { email, name });
  return names;
}

async function* entriesOf<T>(read: (after: string | null) => Promise<Page<T> | null>): AsyncGenerator<T> {
  for (let after: string | null = null; ; ) {
    const page: Page<T> | null = await read(after);
    if (page === null) return; // the last entry of the previous page no longer exists
    yield* page.data;
    if (page.next === null) return;
    after = page.next;
  }
}
