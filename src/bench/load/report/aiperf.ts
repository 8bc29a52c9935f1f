// A run in the format of AIPerf's profile_export_aiperf.json and profile_export.jsonl (schema 1.4 and its metrics
// reference). Fields have the same meaning as in AIPerf: latencies are measured from when the request is sent, and
// `inter_token_latency` is the mean within a request.

import { ascending, distributionOf, percentileOf } from '../distribution.js';
import type { RequestRecord } from '../types.js';
import type { FinishedRun } from './report.js';

const SCHEMA_VERSION = '1.4';
const PERCENTILES = [1, 5, 10, 25, 50, 75, 90, 95, 99] as const;

interface Metric {
  readonly unit: string;
  readonly of: (record: RequestRecord) => number | null;
}

const latency = ({ end, sent }: RequestRecord): number => end - sent;
const interToken = ({ end, firstToken, outputTokens }: RequestRecord): number | null =>
  firstToken === null || outputTokens === null || outputTokens < 2 ? null : (end - firstToken) / (outputTokens - 1);

const RECORD_METRICS: Readonly<Record<string, Metric>> = {
  time_to_first_token: { unit: 'ms', of: ({ firstToken, sent }) => (firstToken === null ? null : firstToken - sent) },
  time_to_second_token: { unit: 'ms', of: ({ gaps }) => gaps[0] ?? null },
  request_latency: { unit: 'ms', of: latency },
  inter_token_latency: { unit: 'ms', of: interToken },
  output_token_throughput_per_user: { unit: 'tokens/sec/user', of: (record) => 1000 / (interToken(record) ?? NaN) },
  output_sequence_length: { unit: 'tokens', of: ({ outputTokens }) => outputTokens },
  output_token_count: { unit: 'tokens', of: ({ outputTokens }) => outputTokens },
  input_sequence_length: { unit: 'tokens', of: ({ promptTokens }) => promptTokens },
};

/** Returns null if the value is not finite, because AIPerf omits such metrics. */
const valueOf = ({ of }: Metric, record: RequestRecord): number | null => {
  const value = of(record);
  return value === null || !Number.isFinite(value) ? null : value;
};

export function aiperfResult(
  { run, result, summary }: FinishedRun,
  version: string,
  benchmark: string,
): Readonly<Record<string, unknown>> {
  const fine = result.records.filter(({ phase, error }) => phase === 'measured' && error === null);
  const one = (unit: string, avg: number): object => ({ unit, avg });
  const records = Object.fromEntries(
    Object.entries(RECORD_METRICS).flatMap(([name, metric]) => {
      const sorted = ascending(fine.map((record) => valueOf(metric, record)).filter((value) => value !== null));
      const all = distributionOf(sorted);
      if (all === null) return [];
      return [
        [
          name,
          {
            unit: metric.unit,
            avg: all.mean,
            ...Object.fromEntries(
              PERCENTILES.map((percentile) => [`p${percentile}`, percentileOf(sorted, percentile)]),
            ),
            min: all.min,
            max: all.max,
            std: all.deviation,
            count: all.count,
            sum: all.mean * all.count,
          },
        ],
      ];
    }),
  );
  return {
    schema_version: SCHEMA_VERSION,
    aiperf_version: `monolith-${version}`,
    benchmark_id: benchmark,
    ...records,
    request_throughput: one('requests/sec', summary.requestsPerSecond),
    output_token_throughput: one('tokens/sec', summary.outputTokensPerSecond),
    total_token_throughput: one('tokens/sec', summary.totalTokensPerSecond),
    request_count: one('requests', summary.requests.answered),
    error_request_count: one('requests', summary.requests.failed),
    benchmark_duration: one('sec', summary.durationMs / 1000),
    total_output_tokens: one('tokens', summary.totals.outputTokens),
    total_isl: one('tokens', summary.totals.promptTokens),
    total_osl: one('tokens', summary.totals.outputTokens),
    ...(summary.goodput === null
      ? {}
      : {
          goodput: one('requests/sec', summary.goodput.requestsPerSecond),
          good_request_count: one(
            'requests',
            Math.round(summary.goodput.share * (summary.requests.answered + summary.requests.failed)),
          ),
        }),
    input_config: {
      endpoint: { model_names: [run.target.model], type: run.target.dialect, url: run.target.url, streaming: true },
    },
    was_cancelled: result.stopped,
    error_summary: Object.entries(summary.errors).map(([type, error]) => ({
      error_details: { code: statusIn(type), type, message: error?.example ?? '' },
      count: error?.count ?? 0,
    })),
    start_time: new Date(result.startedAt).toISOString(),
    end_time: new Date(result.startedAt + result.endedMs).toISOString(),
  };
}

const statusIn = (kind: string): number | null =>
  kind.startsWith('http_') ? Number(kind.slice(5)) : kind === 'cancelled' ? 499 : null;

/** One line of profile_export.jsonl: metadata, and either the metrics by name or the error. */
export function aiperfLine(record: RequestRecord, number: number, startedAt: number): string {
  const nanoseconds = (ms: number): number => Math.round((startedAt + ms) * 1e6);
  const { error, session, turn, phase, sent, headers, end, gaps } = record;
  const isCancelled = error?.kind === 'cancelled';
  const metrics: Record<string, object> = {};
  for (const [name, metric] of Object.entries(RECORD_METRICS)) {
    const value = error === null ? valueOf(metric, record) : null;
    if (value !== null) metrics[name] = { value, unit: metric.unit };
  }
  if (error === null && gaps.length > 0) metrics['inter_chunk_latency'] = { value: [...gaps], unit: 'ms' };
  if (error !== null && record.wanted.promptTokens !== null)
    metrics['error_isl'] = { value: record.wanted.promptTokens, unit: 'tokens' };
  return JSON.stringify({
    metadata: {
      session_num: session,
      x_request_id: `${number}`,
      x_correlation_id: `session-${session}`,
      conversation_id: `session-${session}`,
      turn_index: turn,
      request_start_ns: nanoseconds(sent),
      request_ack_ns: headers === null ? null : nanoseconds(headers),
      request_end_ns: nanoseconds(end),
      worker_id: 'monolith',
      record_processor_id: 'monolith',
      benchmark_phase: phase === 'measured' ? 'profiling' : 'warmup',
      was_cancelled: isCancelled,
      cancellation_time_ns: isCancelled ? nanoseconds(end) : null,
    },
    metrics,
    error: error === null ? null : { code: statusIn(error.kind), type: error.kind, message: error.message },
  });
}
