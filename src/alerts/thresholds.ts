// Alert thresholds, derived from the settings.

import { parseObjectives } from '../bench/load/objectives.js';
import type { Latency, Objective } from '../bench/load/types.js';
import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';
import { ALERT_KINDS } from '../shared/wire/alerts.js';
import type { AlertKind } from '../shared/wire/alerts.js';

export type LatencyObjective = Extract<Objective, { metric: Latency }>;

export interface Thresholds {
  /** Null if not measured. */
  readonly errorRate: number | null;
  readonly objectives: readonly LatencyObjective[];
  /** 0 = not measured. */
  readonly diskFreeBytes: number;
  readonly budgets: boolean;
  /** 0 = not measured. */
  readonly downMs: number;
  readonly windowS: number;
  readonly minRequests: number;
  readonly clearMs: number;
}

/** A shorter silence can be a delayed lease renewal (src/storage/postgres/process-lease.ts). */
const MIN_DOWN_S = 15;

/** `shared`: whether the processes share a database and can therefore watch each other. Throws StartError. */
export function thresholdsOf(settings: Config['alerts'], shared: boolean): Thresholds {
  return {
    errorRate: settings.error_rate,
    objectives: settings.objectives === null ? [] : objectivesOf(settings.objectives),
    diskFreeBytes: settings.disk_free_bytes,
    budgets: settings.budgets,
    downMs: !shared || settings.down_s === 0 ? 0 : Math.max(MIN_DOWN_S, settings.down_s) * 1000,
    windowS: settings.window_s,
    minRequests: settings.min_requests,
    clearMs: settings.clear_s * 1000,
  };
}

function objectivesOf(text: string): LatencyObjective[] {
  let all: Objective[];
  try {
    all = parseObjectives(text);
  } catch (error) {
    throw new StartError(`alerts.objectives: ${(error as Error).message}`);
  }
  return all.map((one) => {
    if (one.metric === 'errors')
      throw new StartError('alerts.objectives must contain only latencies; for errors, use alerts.error_rate.');
    return one;
  });
}

/** The alert kinds that the settings disable. */
export function kindsOff({ errorRate, objectives, diskFreeBytes, budgets, downMs }: Thresholds): AlertKind[] {
  const isOn: Readonly<Record<AlertKind, boolean>> = {
    error_rate: errorRate !== null,
    latency: objectives.length > 0,
    disk: diskFreeBytes > 0,
    budget: budgets,
    down: downMs > 0,
  };
  return ALERT_KINDS.filter((kind) => !isOn[kind]);
}
