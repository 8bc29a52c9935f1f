// One process's measurements: requests and latencies over the last few minutes, and free disk space. Readings of
// several processes can be added up. They are stored as JSON in the shared database.

import { statfs } from 'node:fs/promises';
import type { Latency } from '../bench/load/types.js';
import { LATENCY_BUCKETS } from '../telemetry/latency-counts.js';
import type { LiveCollected } from '../shared/live-collected.js';

export interface LatencyReading {
  readonly model: string;
  readonly metric: Latency;
  /**
   * The index and the count of each non-empty bucket, alternating: index, count, index, count, …
   * (src/telemetry/latency-counts.ts).
   */
  readonly counts: readonly number[];
}

export interface Readings {
  /** Number of API requests that finished in the window. */
  readonly requests: number;
  /** Number of these requests that failed with a server error (5xx). */
  readonly serverErrors: number;
  readonly latencies: readonly LatencyReading[];
  /** Null if the free space could not be determined. */
  readonly diskFreeBytes: number | null;
}

/** Number of segments in the window. The oldest segment is dropped as a whole. */
const SLOTS = 30;
/** Maximum number of models whose latencies are counted. */
const MAX_MODELS = 200;

interface Slot {
  number: number;
  requests: number;
  serverErrors: number;
  /** Model → metric → counts. */
  readonly latencies: Map<string, Map<Latency, Uint32Array>>;
}

/** Counts requests and latencies over the last `windowS` seconds. Primary thread only. */
export class RequestWindow {
  readonly #slotMs: number;
  #slots: Slot[] = [];

  /** `metrics`: the latencies to count. `now`: milliseconds on a monotonic clock. */
  constructor(
    windowS: number,
    private readonly metrics: ReadonlySet<Latency>,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#slotMs = (windowS * 1000) / SLOTS;
  }

  add(threads: readonly LiveCollected[]): void {
    const slot = this.#current();
    for (const { apiRequests, serverErrors, latencies } of threads) {
      slot.requests += apiRequests;
      slot.serverErrors += serverErrors;
      for (const one of latencies)
        for (const metric of this.metrics) {
          const counts = one[metric];
          if (counts !== null) addCounts(slot, one.model, metric, counts);
        }
    }
  }

  read(): Omit<Readings, 'diskFreeBytes'> {
    this.#current();
    const sums: Slot = { number: 0, requests: 0, serverErrors: 0, latencies: new Map() };
    for (const { requests, serverErrors, latencies } of this.#slots) {
      sums.requests += requests;
      sums.serverErrors += serverErrors;
      for (const [model, metrics] of latencies)
        for (const [metric, counts] of metrics) addCounts(sums, model, metric, counts);
    }
    return {
      requests: sums.requests,
      serverErrors: sums.serverErrors,
      latencies: [...sums.latencies].flatMap(([model, metrics]) =>
        [...metrics].map(([metric, counts]) => ({ model, metric, counts: sparse(counts) })),
      ),
    };
  }

  #current(): Slot {
    const number = Math.floor(this.now() / this.#slotMs);
    this.#slots = this.#slots.filter((slot) => slot.number > number - SLOTS);
    let slot = this.#slots.at(-1);
    if (slot?.number !== number)
      this.#slots.push((slot = { number, requests: 0, serverErrors: 0, latencies: new Map() }));
    return slot;
  }
}

function addCounts({ latencies }: Slot, model: string, metric: Latency, counts: Readonly<Uint32Array>): void {
  let metrics = latencies.get(model);
  if (metrics === undefined) {
    if (latencies.size >= MAX_MODELS) return;
    latencies.set(model, (metrics = new Map()));
  }
  let sum = metrics.get(metric);
  if (sum === undefined) metrics.set(metric, (sum = new Uint32Array(LATENCY_BUCKETS)));
  for (let bucket = 0; bucket < sum.length; bucket++)
    sum[bucket] = (sum[bucket] as number) + (counts[bucket] as number);
}

const sparse = (counts: Readonly<Uint32Array>): number[] =>
  [...counts].flatMap((count, bucket) => (count === 0 ? [] : [bucket, count]));

/** Adds a reading's counts to `sum`. */
export function addSparse(sum: Uint32Array, counts: readonly number[]): void {
  for (let at = 0; at + 1 < counts.length; at += 2) {
    const bucket = counts[at] as number;
    if (bucket < sum.length) sum[bucket] = (sum[bucket] as number) + (counts[at + 1] as number);
  }
}

/** Null if it cannot be determined. */
export async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}
