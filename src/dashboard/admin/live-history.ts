// Port for the live view's 30-day history (see docs/internals/storage.md). Ring buffers of sums with decreasing
// resolution: recent data is finer. A ring numbers its slots from the Unix epoch.

import type { KeyCounts } from '../../shared/live-collected.js';
import type { LiveSum } from './live-sums.js';

export interface Ring {
  readonly stepS: number;
  readonly keptS: number;
}

const HOUR_S = 3_600;
/** The rings, finest first. Each slot length is a multiple of the one before. */
export const RINGS: readonly Ring[] = [
  { stepS: 10, keptS: 2 * HOUR_S },
  { stepS: 60, keptS: 13 * HOUR_S },
  { stepS: 300, keptS: 49 * HOUR_S },
  { stepS: 1_800, keptS: 8 * 24 * HOUR_S },
  { stepS: 7_200, keptS: 31 * 24 * HOUR_S },
];
/** Maximum number of slots per response. */
const MAX_SLOTS = 800;

/** Seconds since the Unix epoch. */
export interface LiveSpan {
  readonly from: number;
  readonly to: number;
}

export interface SumSlot {
  readonly at: number;
  readonly sum: LiveSum;
}
export interface KeySlot {
  readonly at: number;
  readonly keys: readonly KeyCounts[];
}

export interface LiveHistory {
  /** Adds to the slot that contains `at` in each ring, and deletes slots beyond a ring's retention. */
  add(at: number, sum: LiveSum, keys: readonly KeyCounts[]): Promise<void>;
  /** In chronological order, without empty slots. */
  sums(ring: Ring, span: LiveSpan): Promise<SumSlot[]>;
  keys(ring: Ring, span: LiveSpan): Promise<KeySlot[]>;
}

/**
 * Returns the finest ring that still contains the start of the range and covers the range with no more than the maximum
 * number of slots.
 */
export function ringFor({ from, to }: LiveSpan, now: number): Ring {
  return (
    RINGS.find(({ stepS, keptS }) => from >= now - keptS && (to - from) / stepS <= MAX_SLOTS) ?? (RINGS.at(-1) as Ring)
  );
}
