// What a run's records say. Pure.

import { ascending, distributionOf } from './distribution.js';
import { answered, failed, isGood, judge, latencyOf, pooledGaps } from './objectives.js';
import type { Distribution, ErrorKind, LoadResult, LoadRun, Objective, RequestRecord, Summary } from './types.js';

/** Of the measured phase alone. */
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

/** First turns over the time in which they were to begin. */
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

/** Requests under way, from sent to end: the mean over time, and the most at once. */
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

/** A client that was busy for more than this share of the time may have been what was measured. */
const BUSY = 0.8;
/** Answers that end this much earlier than was asked make a server look faster than it is. */
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
  if (stopped) doubts.push('the run was stopped before its end');
  if (requests.answered === 0) doubts.push('no request was answered');
  else if (requests.failed > 0)
    doubts.push(
      `${requests.failed} of ${requests.asked - requests.cancelled} requests failed: latencies and rates are of those that were answered`,
    );
  if (requests.cancelled > 0)
    doubts.push(`${requests.cancelled} requests had not ended when the time was up and were cancelled`);
  if (client.utilization > BUSY)
    doubts.push(
      `the client was busy ${Math.round(client.utilization * 100)} % of the time: it may be what was measured (${threads === 1 ? '--threads' : 'more --threads'})`,
    );
  if (e2e !== null && client.lagP99 > Math.max(5, e2e.p50 / 100))
    doubts.push(
      `the client sent requests up to ${client.lagP99.toFixed(1)} ms late (99th percentile): part of the latencies is its own`,
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
      'answers came more slowly than requests: the server was saturated, and latencies grow with the length of the run',
    );
  const wanted = fine.reduce((total, record) => total + record.wanted.outputTokens, 0);
  const got = figures.totals.outputTokens;
  if (fine.length > 0 && got === 0) doubts.push('the server counts no output tokens: rates of tokens are missing');
  else if (wanted > 0 && got < SHORT * wanted)
    doubts.push(
      `answers had ${Math.round((got / wanted) * 100)} % of the tokens that were asked for (--ignore-eos, where the server knows it)`,
    );
  return doubts;
}
