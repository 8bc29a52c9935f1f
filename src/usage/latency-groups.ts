// Latency sketches by hour, model and key: created from completed requests, and merged over a report's time range.
// No side effects.

import type { FinishedUsage } from '../shared/usage-sink.js';
import { Sketching } from './latency-sketch.js';
import type { Sketch } from './latency-sketch.js';
import { HOUR_MS } from './sums.js';
import type { LatencyGroup, UsageQuery } from './usage-store.js';

export type LatencyKey = [organizationId: string, hour: number, model: string, keyId: string];

/** Sketches of the time to first token and of the total duration. */
export interface Sketches {
  readonly first: Sketch;
  readonly total: Sketch;
}
export interface LatencyRow extends Sketches {
  readonly key: LatencyKey;
}

interface Pair {
  first: Sketching;
  total: Sketching;
}
const nothing = (): Pair => ({ first: new Sketching(), total: new Sketching() });

/** One pair of sketches per key, from requests that returned at least one token. */
export function latencyRows(entries: readonly { usage: FinishedUsage; at: number }[]): LatencyRow[] {
  const pairs = new Map<string, { key: LatencyKey; pair: Pair }>();
  for (const {
    usage: { organizationId, model, keyId, receivedAt, firstTokenAt, endedAt },
    at,
  } of entries) {
    if (firstTokenAt === null) continue;
    const key: LatencyKey = [organizationId, Math.floor(at / HOUR_MS), model, keyId];
    let known = pairs.get(key.join('\n'));
    if (known === undefined) pairs.set(key.join('\n'), (known = { key, pair: nothing() }));
    known.pair.first.add(Math.max(0, firstTokenAt - receivedAt));
    known.pair.total.add(Math.max(0, endedAt - receivedAt));
  }
  return [...pairs.values()].map(({ key, pair: { first, total } }) => ({
    key,
    first: first.stored(),
    total: total.stored(),
  }));
}

/** Collects the groups of a report. */
export class LatencyGroups {
  readonly #groups = new Map<string, { model: string | null; apiKeyId: string | null; pair: Pair }>();

  constructor(private readonly query: Pick<UsageQuery, 'groupBy' | 'models' | 'apiKeys'>) {}

  /** Adds sketches if the report includes their model and key. */
  add(model: string, keyId: string, { first, total }: Sketches): void {
    const { groupBy, models, apiKeys } = this.query;
    if ((models !== null && !models.includes(model)) || (apiKeys !== null && !apiKeys.includes(keyId))) return;
    const group = {
      model: groupBy.includes('model') ? model : null,
      apiKeyId: groupBy.includes('api_key') ? keyId : null,
    };
    const name = `${group.model ?? ''}\n${group.apiKeyId ?? ''}`;
    let known = this.#groups.get(name);
    if (known === undefined) this.#groups.set(name, (known = { ...group, pair: nothing() }));
    known.pair.first.merge(first);
    known.pair.total.merge(total);
  }

  /** Ordered by model and key. */
  result(): LatencyGroup[] {
    return [...this.#groups]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(
        ([
          ,
          {
            model,
            apiKeyId,
            pair: { first, total },
          },
        ]) => ({
          model,
          apiKeyId,
          answered: first.count,
          firstTokenMs: first.quantiles(),
          durationMs: total.quantiles(),
        }),
      );
  }
}
