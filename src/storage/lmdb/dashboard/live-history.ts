// Implements LiveHistory on the `live-sums` and `live-keys` tables, keyed [step, start of the slot].

import type { KeyCounts } from '../../../shared/live-collected.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { Key, Store, Table } from '../../store.js';
import { mergedKeys } from '../../../dashboard/admin/key-counts.js';
import { RINGS } from '../../../dashboard/admin/live-history.js';
import type { KeySlot, LiveHistory, LiveSpan, Ring, SumSlot } from '../../../dashboard/admin/live-history.js';
import { addSum } from '../../../dashboard/admin/live-sums.js';
import type { LiveSum } from '../../../dashboard/admin/live-sums.js';

/** Maximum number of old slots erased for each new slot. Greater than 1, because erasing must outpace adding. */
const ERASED_AT_ONCE = 20;

export class LmdbLiveHistory implements LiveHistory {
  readonly #sums: Table<LiveSum>;
  readonly #keys: Table<KeyCounts[]>;

  constructor(
    private readonly store: Store,
    private readonly gate: Pick<EraseGate, 'allows'> = OPEN_GATE,
  ) {
    this.#sums = store.table('live-sums');
    this.#keys = store.table('live-keys');
  }

  add(at: number, sum: LiveSum, keys: readonly KeyCounts[]): Promise<void> {
    return this.store.transaction(() => {
      for (const { stepS, keptS } of RINGS) {
        const place = [stepS, Math.floor(at / stepS) * stepS];
        const before = this.#sums.get(place);
        void this.#sums.put(place, before === undefined ? sum : addSum(before, sum));
        if (keys.length > 0) void this.#keys.put(place, mergedKeys([...(this.#keys.get(place) ?? []), ...keys]));
        if (!this.gate.allows()) continue;
        const old = { from: [stepS], to: [stepS, at - keptS], limit: ERASED_AT_ONCE };
        for (const key of [...this.#sums.keys(old)]) void this.#sums.remove(key);
        for (const key of [...this.#keys.keys(old)]) void this.#keys.remove(key);
      }
    });
  }

  async sums(ring: Ring, span: LiveSpan): Promise<SumSlot[]> {
    return [...this.#sums.range(rangeOf(ring, span))].map(({ key, value }) => ({ at: timeOf(key), sum: value }));
  }

  async keys(ring: Ring, span: LiveSpan): Promise<KeySlot[]> {
    return [...this.#keys.range(rangeOf(ring, span))].map(({ key, value }) => ({ at: timeOf(key), keys: value }));
  }
}

const rangeOf = ({ stepS }: Ring, { from, to }: LiveSpan): { from: Key; to: Key } => ({
  from: [stepS, Math.floor(from / stepS) * stepS],
  to: [stepS, to],
});
const timeOf = (key: Key): number => (key as [number, number])[1];
