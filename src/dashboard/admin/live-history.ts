// What is kept of the live view for the last 30 days: a port, see docs/internals/storage.md. Rings of sums, the finer the
// younger, each slot of a ring counted from 1970.

import type { KeyCounts } from '../../shared/live-collected.js';
import type { LiveSum } from './live-sums.js';

export interface Ring {
  readonly stepS: number;
  readonly keptS: number;
}

const HOUR_S = 3_600;
/** Finest first; each step is a multiple of the one before. */
export const RINGS: readonly Ring[] = [
  { stepS: 10, keptS: 2 * HOUR_S },
  { stepS: 60, keptS: 13 * HOUR_S },
  { stepS: 300, keptS: 49 * HOUR_S },
  { stepS: 1_800, keptS: 8 * 24 * HOUR_S },
  { stepS: 7_200, keptS: 31 * 24 * HOUR_S },
];
/** Slots that are told of at once. */
const MAX_SLOTS = 800;

/** Seconds since 1970. */
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
  /** Adds to the slot of each ring that `at` lies in; what is older than a ring keeps goes. */
  add(at: number, sum: LiveSum, keys: readonly KeyCounts[]): Promise<void>;
  /** In order of time; slots without anything are left out. */
  sums(ring: Ring, span: LiveSpan): Promise<SumSlot[]>;
  keys(ring: Ring, span: LiveSpan): Promise<KeySlot[]>;
}

/** The finest ring that still has the beginning of the span and not too many slots of it. */
export function ringFor({ from, to }: LiveSpan, now: number): Ring {
  return (
    RINGS.find(({ stepS, keptS }) => from >= now - keptS && (to - from) / stepS <= MAX_SLOTS) ?? (RINGS.at(-1) as Ring)
  );
}
