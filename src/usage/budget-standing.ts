// Computes how much of its budgets an organization has spent. Pure, except for reading the usage.

import type { KeyRecord } from '../accounts/keys.js';
import type { PriceTable } from '../shared/wire/usage.js';
import type { Budget } from './budget-store.js';
import { HOUR_MS } from './sums.js';
import type { UsageCursor, UsageSpan, UsageStore } from './usage-store.js';

const PAGE = 2_000;

/** The fields that determine which budgets a key's spending counts toward. */
export type CountedKey = Pick<KeyRecord, 'id' | 'createdBy' | 'rotatedFrom'>;

/** A budget of a member or an API key. */
export interface PartStanding {
  readonly scope: 'member' | 'key';
  /** User ID, or the ID of the first key in a chain of rotations. */
  readonly id: string;
  readonly amount: number;
  readonly spent: number;
  /** The keys whose spending counts, newest first. */
  readonly keys: readonly string[];
}

/** The hours of the calendar month (UTC) that contains `now`. */
export function monthSpan(now: number): UsageSpan {
  const date = new Date(now);
  const hourOf = (month: number): number => Date.UTC(date.getUTCFullYear(), month, 1) / HOUR_MS;
  return { fromHour: hourOf(date.getUTCMonth()), toHour: hourOf(date.getUTCMonth() + 1) };
}

/** Key ID → cost of usage of models that have a price. */
export async function spentByKey(
  usage: Pick<UsageStore, 'rows'>,
  organizationId: string,
  prices: PriceTable,
  span: UsageSpan,
): Promise<Map<string, number>> {
  const spent = new Map<string, number>();
  const query = {
    ...span,
    organizationId,
    bucket: 'day',
    groupBy: ['api_key'],
    models: null,
    apiKeys: null,
    prices,
  } as const;
  for (let after: UsageCursor | null = null; ; ) {
    const { rows, next } = await usage.rows(query, PAGE, after);
    for (const { api_key_id: id, cost } of rows)
      if (id !== null && cost !== null) spent.set(id, (spent.get(id) ?? 0) + cost);
    if (next === null) return spent;
    after = next;
  }
}

/** Key ID → ID of the first key in its chain of rotations. A key that was never rotated is its own first key. */
export function firstKeys(keys: readonly CountedKey[]): Map<string, string> {
  const before = new Map(keys.map(({ id, rotatedFrom }) => [id, rotatedFrom]));
  const first = new Map<string, string>();
  for (const { id } of keys) {
    const seen = new Set([id]);
    let at = id;
    for (let earlier = before.get(at); earlier != null && !seen.has(earlier); earlier = before.get(at)) {
      seen.add(earlier);
      at = earlier;
    }
    first.set(id, at);
  }
  return first;
}

/** The budgets of members and keys with their spending. `keys`: all keys of the organization, newest first. */
export function partStandings(
  { members = {}, keys: keyBudgets = {} }: Pick<Budget, 'members' | 'keys'>,
  keys: readonly CountedKey[],
  spent: ReadonlyMap<string, number>,
): PartStanding[] {
  const first = firstKeys(keys);
  const standing = (scope: PartStanding['scope'], id: string, amount: number, own: string[]): PartStanding => ({
    scope,
    id,
    amount,
    spent: own.reduce((sum, key) => sum + (spent.get(key) ?? 0), 0),
    keys: own,
  });
  const idsWhere = (matches: (key: CountedKey) => boolean): string[] => keys.filter(matches).map(({ id }) => id);
  return [
    ...Object.entries(members).map(([user, amount]) =>
      standing(
        'member',
        user,
        amount,
        idsWhere(({ createdBy }) => createdBy === user),
      ),
    ),
    ...Object.entries(keyBudgets).map(([key, amount]) =>
      standing(
        'key',
        key,
        amount,
        idsWhere(({ id }) => first.get(id) === key),
      ),
    ),
  ];
}
