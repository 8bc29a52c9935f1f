// Computes every two seconds which request-blocking budgets are spent, and passes them to admission in all HTTP
// workers, so that requests never wait for storage. The spending of past hours is kept in memory: a round reads only
// the current hour, the hour before it, and hours not yet counted. One per server, on the primary thread.

import type { ApiKeys } from '../accounts/api-keys.js';
import type { AccountChanges } from '../accounts/changes.js';
import { monthNumber } from '../admission/month-use.js';
import { memberName } from '../shared/spent-budgets.js';
import type { SpentBudget, SpentBudgets } from '../shared/spent-budgets.js';
import type { PriceTable } from '../shared/wire/usage.js';
import type { Log } from '../telemetry/types.js';
import { monthSpan, partStandings, spentByKey } from './budget-standing.js';
import type { CountedKey } from './budget-standing.js';
import type { Budget, BudgetStore } from './budget-store.js';
import type { PriceStore } from './price-store.js';
import { HOUR_MS } from './sums.js';
import type { UsageStore } from './usage-store.js';

const EVERY_MS = 2_000;
const KEYS_PAGE = 500;
/** Maximum age of an organization's list of keys, in case a change notification was lost. */
const KEYS_MS = 60_000;

export interface SpentBudgetWatchDeps {
  budgets: Pick<BudgetStore, 'all'>;
  prices: Pick<PriceStore, 'get'>;
  usage: Pick<UsageStore, 'rows'>;
  apiKeys: Pick<ApiKeys, 'page'>;
  changes: Pick<AccountChanges, 'on'>;
  /** Receives the spent budgets after each round. */
  publish: (spent: SpentBudgets) => void;
  log: Log;
}

/** Spending in the hours of a month before `toHour`. */
interface PastSpending {
  readonly month: number;
  toHour: number;
  readonly byKey: Map<string, number>;
}

export class SpentBudgetWatch {
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void>;
  #closed = false;
  #failing = false;
  #prices = '';
  readonly #past = new Map<string, PastSpending>();
  readonly #keys = new Map<string, { readAt: number; keys: readonly CountedKey[] }>();
  readonly #stopListening: () => void;

  constructor(
    private readonly deps: SpentBudgetWatchDeps,
    everyMs = EVERY_MS,
  ) {
    this.#stopListening = deps.changes.on((organizationId) => {
      if (organizationId === null) this.#keys.clear();
      else this.#keys.delete(organizationId);
    });
    const round = async (): Promise<void> => {
      try {
        await this.run();
        this.#failing = false;
      } catch (err) {
        // Budgets already found to be spent still count as spent. Only the first failure in a row is logged, because a
        // check runs every few seconds.
        if (!this.#failing) deps.log.error({ err }, 'checking budgets that stop requests failed');
        this.#failing = true;
      }
      if (!this.#closed)
        this.#timer = setTimeout(() => {
          this.#running = round();
        }, everyMs).unref();
    };
    this.#running = round();
  }

  async run(now = Date.now()): Promise<void> {
    const { budgets, prices, publish } = this.deps;
    const organizations = new Map<string, SpentBudget>();
    const members = new Map<string, SpentBudget>();
    const keys = new Map<string, SpentBudget>();
    const stopping = [...(await budgets.all())].filter(([, budget]) => stops(budget));
    const table = stopping.length === 0 ? null : await prices.get();
    this.#forget(table, new Set(stopping.map(([id]) => id)));
    for (const [id, budget] of table === null ? [] : stopping) {
      if (this.#closed) return;
      const spent = await this.#spent(id, table as PriceTable, now);
      const { amount } = budget;
      const all = sumOf(spent.values());
      if (budget.stops === true && amount !== null && all >= amount)
        organizations.set(id, { scope: 'organization', organizationId: id, id, amount, spent: all });
      const listed = hasParts(budget) ? await this.#keysOf(id, now) : [];
      for (const part of partStandings(budget, listed, spent)) {
        if (part.spent < part.amount) continue;
        const { scope, amount: limit, spent: used } = part;
        const one: SpentBudget = { scope, organizationId: id, id: part.id, amount: limit, spent: used };
        if (part.scope === 'member') members.set(memberName(id, part.id), one);
        // A key's budget comes after its member's budget and replaces it, because the narrowest spent budget is
        // reported.
        for (const key of part.keys) keys.set(key, one);
      }
    }
    publish({ month: monthNumber(now), currency: table?.currency ?? '', organizations, members, keys });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopListening();
    clearTimeout(this.#timer);
    await this.#running;
  }

  /**
   * Drops the cached data of organizations without a budget that blocks requests. Drops all past spending if the prices
   * have changed.
   */
  #forget(table: PriceTable | null, organizations: ReadonlySet<string>): void {
    const text = JSON.stringify(table);
    if (text !== this.#prices) this.#past.clear();
    this.#prices = text;
    for (const kept of [this.#past, this.#keys])
      for (const id of kept.keys()) if (!organizations.has(id)) kept.delete(id);
  }

  /** Key ID → spending in the month of `now`. */
  async #spent(id: string, prices: PriceTable, now: number): Promise<ReadonlyMap<string, number>> {
    const { usage } = this.deps;
    const { fromHour, toHour } = monthSpan(now);
    let past = this.#past.get(id);
    if (past?.month !== monthNumber(now)) past = { month: monthNumber(now), toHour: fromHour, byKey: new Map() };
    // Usage is recorded within seconds, so the sums for hours before the previous hour no longer change.
    const settled = Math.max(fromHour, Math.floor(now / HOUR_MS) - 1);
    if (settled > past.toHour) {
      addAll(past.byKey, await spentByKey(usage, id, prices, { fromHour: past.toHour, toHour: settled }));
      past.toHour = settled;
    }
    this.#past.set(id, past);
    const recent = await spentByKey(usage, id, prices, { fromHour: past.toHour, toHour });
    return addAll(recent, past.byKey);
  }

  async #keysOf(id: string, now: number): Promise<readonly CountedKey[]> {
    const known = this.#keys.get(id);
    if (known !== undefined && now - known.readAt < KEYS_MS && now >= known.readAt) return known.keys;
    // Cached before the read, so that a change during the read removes the entry again.
    const read = { readAt: now, keys: [] as readonly CountedKey[] };
    this.#keys.set(id, read);
    try {
      read.keys = await allKeys(this.deps.apiKeys, id);
    } catch (error) {
      this.#keys.delete(id);
      throw error;
    }
    return read.keys;
  }
}

/** All keys of an organization, newest first. */
export async function allKeys(apiKeys: Pick<ApiKeys, 'page'>, organizationId: string): Promise<CountedKey[]> {
  const keys: CountedKey[] = [];
  for (let after: string | null = null; ; ) {
    const page = await apiKeys.page(organizationId, KEYS_PAGE, after);
    if (page === null) return keys; // the last key of the previous page is gone
    for (const { id, createdBy, rotatedFrom } of page.data) keys.push({ id, createdBy, rotatedFrom });
    if (page.next === null) return keys;
    after = page.next;
  }
}

const hasParts = ({ members = {}, keys = {} }: Budget): boolean =>
  Object.keys(members).length + Object.keys(keys).length > 0;

const stops = (budget: Budget): boolean => (budget.stops === true && budget.amount !== null) || hasParts(budget);

function sumOf(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

function addAll(to: Map<string, number>, more: ReadonlyMap<string, number>): Map<string, number> {
  for (const [key, value] of more) to.set(key, (to.get(key) ?? 0) + value);
  return to;
}
