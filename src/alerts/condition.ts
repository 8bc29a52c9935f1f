// A measured value and its threshold.

import type { AlertKind } from '../shared/wire/alerts.js';

/**
 * over: an incident is opened. within: the incident is closed if this level persists. between: neither, so that a value
 * near its threshold does not cause many alerts. unknown: there is too little data to open an incident; an active
 * incident is closed as with `within`.
 */
export type Level = 'over' | 'between' | 'within' | 'unknown';

/** Texts about a condition for an alert. */
export interface Description {
  readonly title: string;
  /** Compares the value with its threshold, in one or more sentences. */
  readonly what: string;
  readonly process: string | null;
  readonly lookAt: string;
}

export interface Condition {
  /** Identifies the condition. The key is the same in all processes and after a restart. */
  readonly key: string;
  readonly kind: AlertKind;
  readonly level: Level;
  /** Name of the measurement, such as "Error rate". */
  readonly name: string;
  readonly value: number | null;
  readonly threshold: number | null;
  /** Null if nothing was measured. */
  readonly shownValue: string | null;
  readonly shownThreshold: string;
  /** Why nothing was measured, or null. */
  readonly note: string | null;
  /** The current value in a sentence, for the closing message. */
  readonly now: string;
  /** The organization that is notified about this condition separately (src/usage/budget-watch.ts), or null. */
  readonly ownNotice: string | null;
  describe(): Description | Promise<Description>;
}

/** How far a value must be back within its threshold before the incident is closed, as a fraction of the threshold. */
const MARGIN = 0.2;

/** The level of a value that must not exceed its threshold. */
export const levelBelow = (value: number, threshold: number): Level =>
  value > threshold ? 'over' : value > threshold * (1 - MARGIN) ? 'between' : 'within';

/** The level of a value that must not fall below its threshold. */
export const levelAbove = (value: number, threshold: number): Level =>
  value < threshold ? 'over' : value < threshold * (1 + MARGIN) ? 'between' : 'within';

/** Text of the closing message if the incident's condition no longer exists. */
export const GONE: Readonly<Record<AlertKind, string>> = {
  error_rate: 'The error rate is no longer measured.',
  latency: 'No latencies of this model were measured recently.',
  disk: 'This disk is no longer monitored.',
  budget: 'The budget was raised or removed, or its month is over.',
  down: 'The process is no longer monitored.',
};
