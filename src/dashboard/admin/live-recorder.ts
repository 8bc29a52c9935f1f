// Records the live view: sums up samples, and writes the sum every ten seconds and on close. Runs on the primary thread
// together with the sampler. If a write fails, its sum is lost, and the failure is logged once per outage.

import type { KeyCounts } from '../../shared/live-collected.js';
import type { LiveSample } from '../../shared/wire/live.js';
import { mergedKeys } from './key-counts.js';
import { RINGS } from './live-history.js';
import type { LiveHistory } from './live-history.js';
import { addSum, sumOf } from './live-sums.js';
import type { LiveSum } from './live-sums.js';

const STEP_S = RINGS[0]?.stepS ?? 10;
/** When this many per-key entries have been collected, they are merged. */
const MERGE_AT = 4_000;

export class LiveRecorder {
  #slot = 0;
  #sum: LiveSum | null = null;
  #keys: KeyCounts[] = [];
  #writing: Promise<void> = Promise.resolve();
  #failing = false;

  constructor(
    private readonly history: Pick<LiveHistory, 'add'>,
    private readonly onError: (error: unknown) => void,
  ) {}

  add(sample: LiveSample, keys: readonly KeyCounts[]): void {
    const slot = Math.floor(Date.parse(sample.at) / 1000 / STEP_S) * STEP_S;
    if (slot !== this.#slot) this.#write();
    this.#slot = slot;
    this.#sum = this.#sum === null ? sumOf(sample) : addSum(this.#sum, sumOf(sample));
    this.#keys.push(...keys);
    if (this.#keys.length > MERGE_AT) this.#keys = mergedKeys(this.#keys);
  }

  /** Writes the sum collected so far. */
  async close(): Promise<void> {
    this.#write();
    await this.#writing;
  }

  #write(): void {
    const sum = this.#sum;
    if (sum === null) return;
    const keys = mergedKeys(this.#keys);
    const slot = this.#slot;
    this.#sum = null;
    this.#keys = [];
    this.#writing = this.#writing
      .then(() => this.history.add(slot, sum, keys))
      .then(
        () => {
          this.#failing = false;
        },
        (error: unknown) => {
          if (!this.#failing) this.onError(error);
          this.#failing = true;
        },
      );
  }
}
