// Stores latencies in the `usage-latencies` table: sketches of the time to first token and of the total duration, by
// hour, model and key. Written in the same transaction as the sums (usage-store.ts) and, like them, read in slices.

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Key, Table } from '../../store.js';
import type { FinishedUsage } from '../../../shared/usage-sink.js';
import { LatencyGroups, latencyRows } from '../../../usage/latency-groups.js';
import type { LatencyKey, Sketches } from '../../../usage/latency-groups.js';
import { Sketching } from '../../../usage/latency-sketch.js';
import type { LatencyGroup, UsageQuery } from '../../../usage/usage-store.js';

const SLICE = 500;

/** Must be called within a transaction. Only for requests that returned at least one token. */
export function putLatencies(table: Table<Sketches>, entries: readonly { usage: FinishedUsage; at: number }[]): void {
  for (const { key, first, total } of latencyRows(entries)) {
    const before = table.get(key);
    void table.put(
      key,
      before === undefined
        ? { first, total }
        : {
            first: new Sketching().merge(first).merge(before.first).stored(),
            total: new Sketching().merge(total).merge(before.total).stored(),
          },
    );
  }
}

/** See UsageStore.latencies(). */
export async function latenciesOf(table: Table<Sketches>, query: UsageQuery): Promise<LatencyGroup[]> {
  const groups = new LatencyGroups(query);
  let from: Key = [query.organizationId, query.fromHour];
  for (let skips = false; ; skips = true) {
    const slice = [...table.range({ from, to: [query.organizationId, query.toHour], limit: SLICE })] as {
      key: LatencyKey;
      value: Sketches;
    }[];
    for (const {
      key: [, , model, keyId],
      value,
    } of skips ? slice.slice(1) : slice)
      groups.add(model, keyId, value);
    if (slice.length < SLICE) return groups.result();
    from = (slice.at(-1) as { key: LatencyKey }).key;
    await nextTurn();
  }
}
