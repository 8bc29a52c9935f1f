// Conditions for the error rate and the latency objectives, measured across all processes of the service.

import { nameOf } from '../bench/load/objectives.js';
import type { Latency } from '../bench/load/types.js';
import { LATENCY_BUCKETS, quantile, total } from '../telemetry/latency-counts.js';
import type { SeenProcess } from './alert-store.js';
import { levelBelow } from './condition.js';
import type { Condition } from './condition.js';
import { addSparse } from './readings.js';
import { duration, percent, period } from './shown.js';
import type { LatencyObjective, Thresholds } from './thresholds.js';

const NAMES: Readonly<Record<Latency, string>> = {
  ttft: 'time to first token',
  itl: 'inter-token latency',
  tpot: 'time per output token',
  e2e: 'end-to-end latency',
};

/** `processes`: the running processes. */
export function errorRate(
  processes: readonly SeenProcess[],
  { errorRate: threshold, windowS, minRequests }: Thresholds,
): Condition[] {
  if (threshold === null) return [];
  const requests = sum(processes.map(({ readings }) => readings.requests));
  const errors = sum(processes.map(({ readings }) => readings.serverErrors));
  const isEnough = requests >= minRequests;
  const value = requests === 0 ? null : errors / requests;
  const sentence = isEnough
    ? `${errors} of ${requests} API requests in the last ${period(windowS)} ended with a server error (5xx): ${percent(value ?? 0)}; the threshold is ${percent(threshold)}.`
    : `Only ${requests} API ${requests === 1 ? 'request' : 'requests'} ended in the last ${period(windowS)}, ${errors} of them with a server error (5xx). That is too few to measure the error rate.`;
  const worst = [...processes].sort((a, b) => b.readings.serverErrors - a.readings.serverErrors)[0];
  return [
    {
      key: 'error_rate',
      kind: 'error_rate',
      level: isEnough ? levelBelow(value ?? 0, threshold) : 'unknown',
      name: 'Error rate',
      value,
      threshold,
      shownValue: value === null ? null : `${percent(value)} of ${requests}`,
      shownThreshold: `${percent(threshold)} over ${period(windowS)}`,
      note: isEnough ? null : `fewer than ${minRequests} requests`,
      now: sentence,
      ownNotice: null,
      describe: () => ({
        title: `${percent(value ?? 0)} of requests fail (threshold ${percent(threshold)})`,
        what: sentence,
        process:
          worst === undefined
            ? null
            : processes.length === 1
              ? worst.name
              : `${processes.length} processes; most errors on ${worst.name} (${worst.readings.serverErrors} of its ${worst.readings.requests} requests)`,
        lookAt:
          'The "All requests" page of the dashboard shows the model and the error code of each failed request. The process log contains the reasons.',
      }),
    },
  ];
}

/** One condition for each objective and model with measurements. `processes`: the running processes. */
export function latencies(processes: readonly SeenProcess[], thresholds: Thresholds): Condition[] {
  return thresholds.objectives.flatMap((objective) => {
    const models = processes.flatMap(({ readings }) =>
      readings.latencies.filter(({ metric }) => metric === objective.metric).map(({ model }) => model),
    );
    return [...new Set(models)].sort().map((model) => latency(processes, objective, model, thresholds));
  });
}

function latency(
  processes: readonly SeenProcess[],
  objective: LatencyObjective,
  model: string,
  { windowS, minRequests }: Thresholds,
): Condition {
  const { metric, percentile, limit } = objective;
  const sums = new Uint32Array(LATENCY_BUCKETS);
  const byProcess = processes.map(({ name, readings }) => {
    const own = new Uint32Array(LATENCY_BUCKETS);
    for (const one of readings.latencies)
      if (one.metric === metric && one.model === model) {
        addSparse(own, one.counts);
        addSparse(sums, one.counts);
      }
    const count = total(own);
    return { name, value: count === 0 ? 0 : quantile(own, percentile / 100, count) };
  });
  const count = total(sums);
  const isEnough = count >= minRequests;
  const value = count === 0 ? null : quantile(sums, percentile / 100, count);
  const shown = duration(value ?? 0);
  const name = `${nameOf(objective)} of ${model}`;
  const sentence = `The ${NAMES[metric]} of ${model} (percentile ${percentile}) over the last ${period(windowS)} was ${shown}; the objective is ${duration(limit)} (${count} values).`;
  const worst = [...byProcess].sort((a, b) => b.value - a.value)[0];
  return {
    key: `latency ${nameOf(objective)} ${model}`,
    kind: 'latency',
    level: isEnough ? levelBelow(value ?? 0, limit) : 'unknown',
    name,
    value,
    threshold: limit,
    shownValue: value === null ? null : shown,
    shownThreshold: `${duration(limit)} over ${period(windowS)}`,
    note: isEnough ? null : `fewer than ${minRequests} values`,
    now: sentence,
    ownNotice: null,
    describe: () => ({
      title: `${name} is ${shown} (objective ${duration(limit)})`,
      what: sentence,
      process:
        worst === undefined
          ? null
          : processes.length === 1
            ? worst.name
            : `${processes.length} processes; slowest on ${worst.name} (${duration(worst.value)})`,
      lookAt:
        'The "Live" page of the dashboard: waiting requests mean that the load exceeds what the engine can serve; preemptions mean that the KV cache is too small.',
    }),
  };
}

const sum = (all: readonly number[]): number => all.reduce((one, other) => one + other, 0);
