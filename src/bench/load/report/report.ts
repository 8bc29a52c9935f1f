// The result of a load test: the object that is written to result.json and from which the page and tables are built.

import { repeatedOf } from '../distribution.js';
import { nameOf } from '../objectives.js';
import { LATENCIES } from '../types.js';
import type { LoadResult, LoadRun, Objective, Repeated, RequestRecord, Summary } from '../types.js';

/** `round` counts from 1. Runs in the same round use the same seed, so they send the same requests. */
export interface RunReport {
  readonly startedAt: number;
  readonly seed: number;
  readonly round: number;
  readonly summary: Summary;
}

export interface LoadReport {
  readonly tool: 'monolith bench serve';
  readonly version: string;
  /** The command as typed, without keys and header values. */
  readonly command: string;
  readonly target: {
    readonly url: string;
    readonly dialect: string;
    readonly model: string;
    readonly ignoreEos: boolean;
    readonly body: Readonly<Record<string, unknown>>;
  };
  readonly workload: string;
  readonly arrival: string;
  readonly conversation: LoadRun['conversation'];
  /** Whether prompt lengths are exact, because they were measured with the server's tokenizer. */
  readonly exactLengths: boolean;
  readonly threads: number;
  readonly objectives: readonly Objective[];
  readonly runs: readonly RunReport[];
  /** The statistics of each metric over the first round of every run. */
  readonly repeated: Readonly<Record<string, Repeated>>;
  /** The same statistics for each later round. */
  readonly laterRounds: readonly { readonly round: number; readonly repeated: Readonly<Record<string, Repeated>> }[];
}

/** The metrics that are compared between runs, by name: milliseconds, rates per second, fractions. */
export function figuresOf(summary: Summary): Readonly<Record<string, number>> {
  const figures: Record<string, number> = {
    requests_per_second: summary.requestsPerSecond,
    output_tokens_per_second: summary.outputTokensPerSecond,
    total_tokens_per_second: summary.totalTokensPerSecond,
  };
  if (summary.goodput !== null) {
    figures['goodput_requests_per_second'] = summary.goodput.requestsPerSecond;
    figures['goodput_share'] = summary.goodput.share;
  }
  for (const metric of LATENCIES) {
    const values = summary[metric];
    if (values === null) continue;
    for (const place of ['p50', 'p90', 'p95', 'p99'] as const) figures[`${metric}_${place}_ms`] = values[place];
  }
  for (const { objective, value } of summary.verdicts)
    if (value !== null && Number.isFinite(value)) figures[`slo_${nameOf(objective)}`] = value;
  return figures;
}

/** For each round, the metrics that are available for every run of the round. */
export function repeatedFigures(runs: readonly RunReport[]): Pick<LoadReport, 'repeated' | 'laterRounds'> {
  const ofRound = (wanted: number): Record<string, Repeated> =>
    repeatedOfRuns(runs.filter(({ round }) => round === wanted));
  const rounds = [...new Set(runs.map(({ round }) => round))];
  return {
    repeated: ofRound(1),
    laterRounds: rounds.filter((round) => round > 1).map((round) => ({ round, repeated: ofRound(round) })),
  };
}

function repeatedOfRuns(runs: readonly RunReport[]): Record<string, Repeated> {
  const all = runs.map(({ summary }) => figuresOf(summary));
  const names = Object.keys(all[0] ?? {}).filter((name) => all.every((figures) => figures[name] !== undefined));
  return Object.fromEntries(names.map((name) => [name, repeatedOf(all.map((figures) => figures[name] as number))]));
}

/** One line of requests.jsonl. Times are milliseconds from the start of the run. */
export function recordLine(record: RequestRecord): string {
  const { gaps, ...fields } = record;
  return JSON.stringify({ ...fields, gaps: Array.from(gaps, (gap) => Math.round(gap * 1000) / 1000) });
}

/** A run with its records and summary, for reports. */
export interface FinishedRun {
  readonly run: LoadRun;
  readonly round: number;
  readonly result: LoadResult;
  readonly summary: Summary;
}

/** JSON cannot represent infinity, so a percentile that is infinite because of failures is written as null. */
export const finite = (_key: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isFinite(value) ? null : value;
