// Implements UsageStore on the usage tables (see sums.ts). A sum is read and written in the same transaction, so that
// several threads can add to it. Erasing uses short transactions with long pauses in between, so that requests that
// write data do not have to wait.

import { monthName, monthNumber } from '../../../admission/month-use.js';
import type { Key, Store, Table } from '../../store.js';
import type { PriceTable } from '../../../shared/wire/usage.js';
import { organizationsOf, usageRows, usageTotals } from './usage-query.js';
import type { Sketches } from '../../../usage/latency-groups.js';
import { latenciesOf, putLatencies } from './latencies.js';
import { addSums, HOUR_MS, isFinished, noUsage, summedUp } from '../../../usage/sums.js';
import type { UsageRow, UsageSums } from '../../../usage/sums.js';
import type {
  LatencyGroup,
  UsageCursor,
  UsageEntry,
  UsageExpiry,
  UsageQuery,
  UsageRows,
  UsageSpan,
  UsageStore,
  UsageTotal,
} from '../../../usage/usage-store.js';

/** Number of keys per erasing transaction. */
const BATCH = 1_000;

export class LmdbUsageStore implements UsageStore {
  readonly #rows: Table<UsageRow>;
  readonly #hours: Table<UsageSums>;
  readonly #months: Table<number>;
  readonly #latencies: Table<Sketches>;
  #number = 0;

  constructor(private readonly store: Store) {
    this.#rows = store.table('usage-rows');
    this.#hours = store.table('usage-hours');
    this.#months = store.table('usage-months');
    this.#latencies = store.table('usage-latencies');
  }

  record(entries: readonly UsageEntry[]): Promise<void> {
    return this.store.transaction(() => this.#put(entries));
  }

  async monthTokens(organizationIds: readonly string[], month: string): Promise<number[]> {
    return organizationIds.map((id) => this.#months.get([id, month]) ?? 0);
  }

  rows(query: UsageQuery, limit: number, after: UsageCursor | null): Promise<UsageRows> {
    return usageRows(this.#hours, query, limit, after);
  }

  totals(span: UsageSpan, organizationIds: readonly string[], prices: PriceTable | null): Promise<UsageTotal[]> {
    return usageTotals(this.#hours, span, organizationIds, prices);
  }

  latencies(query: UsageQuery): Promise<LatencyGroup[]> {
    return latenciesOf(this.#latencies, query);
  }

  async erase({ rows, sums }: UsageExpiry, signal: AbortSignal): Promise<number> {
    let erased = await this.#erase(this.#rows, {}, [rows], signal);
    for (const table of [this.#hours, this.#latencies]) {
      for (const organization of organizationsOf(table))
        erased += await this.#erase(
          table,
          { from: [organization] },
          [organization, Math.floor(sums / HOUR_MS)],
          signal,
        );
    }
    for (const organization of organizationsOf(this.#months))
      erased += await this.#erase(
        this.#months,
        { from: [organization] },
        [organization, monthName(monthNumber(sums))],
        signal,
      );
    return erased;
  }

  async #erase(table: Table<unknown>, begin: { from?: Key }, to: Key, signal: AbortSignal): Promise<number> {
    let erased = 0;
    while (!signal.aborted) {
      const keys = [...table.keys({ ...begin, to, limit: BATCH })];
      if (keys.length === 0) break;
      await this.store.transaction(() => {
        for (const key of keys) void table.remove(key);
      });
      erased += keys.length;
    }
    return erased;
  }

  #put(entries: readonly UsageEntry[]): void {
    const { hours, months } = summedUp(entries);
    for (const { usage } of entries)
      if (isFinished(usage)) void this.#rows.put([usage.endedAt, usage.requestId, this.#number++], usage);
    putLatencies(
      this.#latencies,
      entries.flatMap(({ usage, at }) => (isFinished(usage) ? [{ usage, at }] : [])),
    );
    for (const { key, sums } of hours.values())
      void this.#hours.put(key, addSums(sums, this.#hours.get(key) ?? noUsage()));
    for (const { key, tokens } of months.values()) void this.#months.put(key, tokens + (this.#months.get(key) ?? 0));
  }
}
