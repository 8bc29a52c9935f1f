// One thing that is measured and compared with its threshold.

import type { AlertKind } from '../shared/wire/alerts.js';

/**
 * over: an incident begins. within: it ends if this lasts. between: neither, so that a value near its threshold does
 * not send many alerts. unknown: too little was measured to begin an incident; an active one ends as with `within`.
 */
export type Level = 'over' | 'between' | 'within' | 'unknown';

/** What an alert says about a condition. */
export interface Description {
  readonly title: string;
  /** The value compared with its threshold: one or more sentences. */
  readonly what: string;
  readonly process: string | null;
  readonly lookAt: string;
}

export interface Condition {
  /** The same in all processes and after a restart. */
  readonly key: string;
  readonly kind: AlertKind;
  readonly level: Level;
  /** Name of the measurement, such as "Error rate". */
  readonly name: string;
  readonly value: number | null;
  readonly threshold: number | null;
  /** Null: nothing was measured. */
  readonly shownValue: string | null;
  readonly shownThreshold: string;
  /** Why nothing was measured, or null. */
  readonly note: string | null;
  /** The current value in a sentence, for the message that the incident has ended. */
  readonly now: string;
  /** The organization that gets its own notification about it (src/usage/budget-watch.ts), or null. */
  readonly ownNotice: string | null;
  describe(): Description | Promise<Description>;
}

/** How far back within its threshold a value must be before an incident ends. */
const MARGIN = 0.2;

/** The level of a value that must not exceed its threshold. */
export const levelBelow = (value: number, threshold: number): Level =>
  value > threshold ? 'over' : value > threshold * (1 - MARGIN) ? 'between' : 'within';

/** The level of a value that must not fall below its threshold. */
export const levelAbove = (value: number, threshold: number): Level =>
  value < threshold ? 'over' : value < threshold * (1 + MARGIN) ? 'between' : 'within';

/** What a message says about the end of an incident whose condition no longer exists. */
export const GONE: Readonly<Record<AlertKind, string>> = {
  error_rate: 'The error rate is no longer measured.',
  latency: 'No latencies of this model were measured recently.',
  disk: 'This disk is no longer monitored.',
  budget: 'The budget was raised or removed, or its month is over.',
  down: 'The process is no longer monitored.',
};
