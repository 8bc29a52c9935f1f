// Start times of sessions in an open loop, in milliseconds from the start of the run, ascending. Pure; the same seed
// yields the same times.

import { drawsFrom, seedOf } from '../../shared/random.js';
import type { Arrival } from './types.js';

export type OpenArrival = Exclude<Arrival, { kind: 'closed' }>;

/**
 * The sequence is endless, except for a trace: `traceAt` supplies a trace's times, and returns null after the last
 * session.
 */
export function* arrivalTimes(
  arrival: OpenArrival,
  seed: number,
  traceAt: (session: number) => number | null,
): Generator<number, void> {
  if (arrival.kind === 'trace') {
    for (let session = 0; ; session++) {
      const at = traceAt(session);
      if (at === null) return;
      yield at / arrival.speed;
    }
  }
  if (arrival.kind === 'bursts') {
    for (let burst = 0; ; burst++) for (let i = 0; i < arrival.size; i++) yield burst * arrival.everyMs;
  }
  const gap = gapsOf(arrival, seed);
  for (let at = 0; ; at += gap()) yield at;
}

type Renewal = Exclude<OpenArrival, { kind: 'trace' | 'bursts' }>;

function gapsOf(arrival: Renewal, seed: number): () => number {
  const draws = drawsFrom(seedOf(seed, 0xa));
  const mean = 1000 / arrival.rate;
  if (arrival.kind === 'constant') return () => mean;
  if (arrival.kind === 'poisson') return () => mean * draws.exponential();
  const { burstiness } = arrival;
  return () => (mean * draws.gamma(burstiness)) / burstiness;
}

/** Mean sessions per second; null for a trace. */
export function rateOf(arrival: OpenArrival): number | null {
  if (arrival.kind === 'trace') return null;
  return arrival.kind === 'bursts' ? (arrival.size * 1000) / arrival.everyMs : arrival.rate;
}

/** A description for reports. */
export function showArrival(arrival: Arrival): string {
  switch (arrival.kind) {
    case 'closed':
      return `closed loop, ${arrival.concurrency} concurrent`;
    case 'poisson':
      return `Poisson, ${arrival.rate}/s`;
    case 'gamma':
      return `gamma, ${arrival.rate}/s, burstiness ${arrival.burstiness}`;
    case 'constant':
      return `constant, ${arrival.rate}/s`;
    case 'bursts':
      return `bursts of ${arrival.size} every ${arrival.everyMs} ms`;
    case 'trace':
      return `trace times${arrival.speed === 1 ? '' : `, ${arrival.speed} times as fast`}`;
  }
}
