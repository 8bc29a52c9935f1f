// Times of answers in the table `usage-latencies`: sketches of the time to the first token and of all of it, by hour, model and
// key. Written within the transaction of the sums beside them (lmdb-usage-store.ts); read in slices, as these are.

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Key, Table } from '../storage/store.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import { Sketching } from './latency-sketch.js';
import type { Sketch } from './latency-sketch.js';
import { HOUR_MS } from './sums.js';
import type { LatencyGroup, UsageQuery } from './usage-store.js';

export interface LatencyRow { readonly first: Sketch; readonly total: Sketch }
type LatencyKey = [organizationId: string, hour: number, model: string, keyId: string];

const SLICE = 500;

interface Pair { first: Sketching; total: Sketching }
const nothing = (): Pair => ({ first: new Sketching(), total: new Sketching() });

/** Within a transaction. Of those that said anything. */
export function putLatencies(table: Table<LatencyRow>, entries: readonly { usage: FinishedUsage; at: number }[]): void {
  const pairs = new Map<string, { key: LatencyKey; pair: Pair }>();
  for (const { usage: { organizationId, model, keyId, receivedAt, firstTokenAt, endedAt }, at } of entries) {
    if (firstTokenAt === null) continue;
    const key: LatencyKey = [organizationId, Math.floor(at / HOUR_MS), model, keyId];
    let known = pairs.get(key.join('\n'));
    if (known === undefined) pairs.set(key.join('\n'), (known = { key, pair: nothing() }));
    known.pair.first.add(Math.max(0, firstTokenAt - receivedAt));
    known.pair.total.add(Math.max(0, endedAt - receivedAt));
  }
  for (const { key, pair: { first, total } } of pairs.values()) {
    const before = table.get(key);
    if (before !== undefined) {
      first.merge(before.first);
      total.merge(before.total);
    }
    void table.put(key, { first: first.stored(), total: total.stored() });
  }
}

/** As UsageStore.latencies(). */
export async function latenciesOf(table: Table<LatencyRow>, { organizationId, fromHour, toHour, groupBy, models, apiKeys }: UsageQuery): Promise<LatencyGroup[]> {
  const groups = new Map<string, { model: string | null; apiKeyId: string | null; pair: Pair }>();
  let from: Key = [organizationId, fromHour];
  for (let skips = false; ; skips = true) {
    const slice = [...table.range({ from, to: [organizationId, toHour], limit: SLICE })] as { key: LatencyKey; value: LatencyRow }[];
    for (const { key: [, , model, keyId], value } of skips ? slice.slice(1) : slice) {
      if ((models !== null && !models.includes(model)) || (apiKeys !== null && !apiKeys.includes(keyId))) continue;
      const group = { model: groupBy.includes('model') ? model : null, apiKeyId: groupBy.includes('api_key') ? keyId : null };
      const name = `${group.model ?? ''}\n${group.apiKeyId ?? ''}`;
      let known = groups.get(name);
      if (known === undefined) groups.set(name, (known = { ...group, pair: nothing() }));
      known.pair.first.merge(value.first);
      known.pair.total.merge(value.total);
    }
    if (slice.length < SLICE) break;
    from = (slice.at(-1) as { key: LatencyKey }).key;
    await nextTurn();
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { model, apiKeyId, pair: { first, total } }]) => ({
    model, apiKeyId, answered: first.count, firstTokenMs: first.quantiles(), durationMs: total.quantiles(),
  }));
}
