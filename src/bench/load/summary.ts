// Summarizes a run's records. No side effects.

import { ascending, distributionOf } from './distribution.js';
import { answered, failed, isGood, judge, latencyOf, pooledGaps } from './objectives.js';
import type { Distribution, ErrorKind, LoadResult, LoadRun, Objective, RequestRecord, Summary } from './types.js';

/** Covers only the measured phase. */
export function summarize(
  { records: all, client, stopped }: LoadResult,
  run: LoadRun,
  objectives: readonly Objective[] = [],
): Summary {
  const records = all.filter(({ phase }) => phase === 'measured');
  const fine = records.filter(answered);
  const failures = records.filter(failed);
  const first = records.reduce((least, { intended }) => Math.min(least, intended), Infinity);
  const last = records.reduce((most, { end }) => Math.max(most, end), 0);
  const durationMs = records.length === 0 ? 0 : last - first;
  const perSecond = (count: number): number => (durationMs > 0 ? (count * 1000) / durationMs : 0);
  const sum = (field: 'promptTokens' | 'cachedTokens' | 'outputTokens'): number =>
    fine.reduce((total, record) => total + (record[field] ?? 0), 0);
  const totals = {
    promptTokens: sum('promptTokens'),
    cachedTokens: sum('cachedTokens'),
    outputTokens: sum('outputTokens'),
  };
  const of = (values: readonly (number | null)[]): Distribution | null =>
    distributionOf(ascending(values.filter((value) => value !== null)));
  const good = objectives.length === 0 ? 0 : fine.filter((record) => isGood(record, objectives)).length;
  const asked = fine.length + failures.length;
  const summary = {
    durationMs,
    requests: {
      asked: records.length,
      answered: fine.length,
      failed: failures.length,
      cancelled: records.length - asked,
    },
    ttft: of(fine.map((record) => latencyOf(record, 'ttft'))),
    itl: distributionOf(pooledGaps(fine)),
    tpot: of(fine.map((record) => latencyOf(record, 'tpot'))),
    e2e: of(fine.map((record) => latencyOf(record, 'e2e'))),
    queued: of(records.map(({ sent, intended }) => sent - intended)),
    promptTokens: of(fine.map(({ promptTokens }) => promptTokens)),
    outputTokens: of(fine.map(({ outputTokens }) => outputTokens)),
    totals,
    offeredPerSecond: offered(records, run),
    requestsPerSecond: perSecond(fine.length),
    outputTokensPerSecond: perSecond(totals.outputTokens),
    totalTokensPerSecond: perSecond(totals.promptTokens + totals.outputTokens),
    goodput:
      objectives.length === 0 ? null : { requestsPerSecond: perSecond(good), share: asked === 0 ? 0 : good / asked },
    verdicts: judge(records, objectives),
    errors: errorsOf(records),
    concurrency: concurrencyOf(records, durationMs),
    client,
  };
  return { ...summary, doubts: doubtsOf(summary, fine, run, stopped) };
}

/** The due rate of first turns. */
function offered(records: readonly RequestRecord[], { arrival }: LoadRun): number | null {
  if (arrival.kind === 'closed') return null;
  const starts = records.filter(({ turn }) => turn === 0).map(({ intended }) => intended);
  const span =
    starts.reduce((most, at) => Math.max(most, at), 0) - starts.reduce((least, at) => Math.min(least, at), Infinity);
  return starts.length > 1 && span > 0 ? ((starts.length - 1) * 1000) / span : null;
}

function errorsOf(records: readonly RequestRecord[]): Summary['errors'] {
  const errors: Partial<Record<ErrorKind, { count: number; example: string }>> = {};
  for (const { error } of records) {
    if (error === null) continue;
    const known = errors[error.kind];
    if (known === undefined) errors[error.kind] = { count: 1, example: error.message };
    else known.count++;
  }
  return errors;
}

/** The time-weighted mean and the maximum of the number of requests in flight, that is, sent but not finished. */
function concurrencyOf(records: readonly RequestRecord[], durationMs: number): { mean: number; peak: number } {
  const begins = ascending(records.map(({ sent }) => sent));
  const ends = ascending(records.map(({ end }) => end));
  let peak = 0;
  for (let begun = 0, over = 0; begun < begins.length; begun++) {
    while ((ends[over] as number) <= (begins[begun] as number)) over++;
    peak = Math.max(peak, begun + 1 - over);
  }
  const busy = records.reduce((total, { sent, end }) => total + end - sent, 0);
  return { mean: durationMs > 0 ? busy / durationMs : 0, peak };
}

/** Above this utilization of its busiest thread, the client itself may be the bottleneck. */
const BUSY = 0.8;
/**
 * If responses are shorter than this fraction of the requested length, the report warns that the server appears faster
 * than it is.
 */
const SHORT = 0.9;

type Figures = Omit<Summary, 'doubts'>;

function doubtsOf(
  figures: Figures,
  fine: readonly RequestRecord[],
  { arrival, threads }: LoadRun,
  stopped: boolean,
): string[] {
  const { requests, client, e2e, offeredPerSecond, requestsPerSecond } = figures;
  const doubts: string[] = [];
  if (stopped) doubts.push('the run was stopped early');
  if (requests.answered === 0) doubts.push('no request completed');
  else if (requests.failed > 0)
    doubts.push(
      `${requests.failed} of ${requests.asked - requests.cancelled} requests failed: latencies and rates cover only completed requests`,
    );
  if (requests.cancelled > 0)
    doubts.push(`${requests.cancelled} requests were still running at the end and were cancelled`);
  if (client.utilization > BUSY)
    doubts.push(
      `the client was busy ${Math.round(client.utilization * 100)} % of the time and may be the bottleneck (use ${threads === 1 ? '--threads' : 'more --threads'})`,
    );
  if (e2e !== null && client.lagP99 > Math.max(5, e2e.p50 / 100))
    doubts.push(
      `the client sent requests up to ${client.lagP99.toFixed(1)} ms late (99th percentile): part of the latency is the client's own`,
    );
  if (
    arrival.kind !== 'closed' &&
    offeredPerSecond !== null &&
    fine.length > 20 &&
    requestsPerSecond < 0.9 * offeredPerSecond &&
    figures.requests.failed === 0 &&
    figures.concurrency.peak > 2 * figures.concurrency.mean
  )
    doubts.push(
      "responses completed more slowly than requests arrived: the server was saturated, and latencies grow with the run's length",
    );
  const wanted = fine.reduce((total, record) => total + record.wanted.outputTokens, 0);
  const got = figures.totals.outputTokens;
  if (fine.length > 0 && got === 0) doubts.push('the server does not report output tokens: token rates are missing');
  else if (wanted > 0 && got < SHORT * wanted)
    doubts.push(
      `responses had ${Math.round((got / wanted) * 100)} % of the requested tokens (use --ignore-eos if the server supports it)`,
    );
  return doubts;
}
