// Exports renamed metrics under their former names as well, for one release. No side effects.

import type { MetricDeclaration } from './histogram-counts.js';

/** Name → former name. */
const FORMER: Readonly<Record<string, string>> = {
  monolith_event_loop_limit_refused_total: 'monolith_loop_limit_refused_total',
  monolith_redis_call_seconds: 'monolith_counters_call_seconds',
  monolith_redis_calls_total: 'monolith_counters_calls_total',
  monolith_redis_processes: 'monolith_counters_processes',
  monolith_redis_unavailable: 'monolith_counters_away',
  monolith_request_event_loop_seconds_total: 'monolith_request_loop_seconds_total',
};

/** A metric in prom-client's JSON form. Each value of a histogram names its own series (bucket, sum or count). */
export interface MetricJson {
  readonly name: string;
  readonly help: string;
  readonly values: readonly { readonly metricName?: string }[];
}

const helpOf = (name: string): string => `Deprecated: the former name of ${name}. Removed in the next release.`;

/** Returns copies of the renamed metrics in `metrics`, under their former names. */
export function underFormerNames(metrics: readonly MetricJson[]): MetricJson[] {
  return metrics.flatMap((metric) => {
    const former = FORMER[metric.name];
    if (former === undefined) return [];
    const values = metric.values.map((value) =>
      value.metricName === undefined
        ? value
        : { ...value, metricName: former + value.metricName.slice(metric.name.length) },
    );
    return [{ ...metric, name: former, help: helpOf(metric.name), values }];
  });
}

/** Declarations of the former names, for docs/reference/metrics.md. */
export function formerDeclarations(declared: readonly MetricDeclaration[]): MetricDeclaration[] {
  return declared.flatMap((one) => {
    const former = FORMER[one.name];
    return former === undefined ? [] : [{ ...one, name: former, help: helpOf(one.name) }];
  });
}
