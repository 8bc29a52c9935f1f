// Chart series computed from records: latency distributions and time series, each with a limited number of points.
// No side effects.

import { ascending, percentileOf } from '../distribution.js';
import { failed, latencyOf, pooledGaps } from '../objectives.js';
import type { RequestRecord } from '../types.js';
import type { Bar, Curve } from './charts.js';

const CURVE_POINTS = 160,
  COLUMNS = 240,
  MAX_DOTS = 1500,
  SLOWEST = 20;

/** Cumulative distribution: durations in milliseconds and, for each, the percentage of values that are not longer. */
function distributionCurve(name: string, sorted: ArrayLike<number>): Curve[] {
  if (sorted.length === 0) return [];
  const points = Array.from({ length: CURVE_POINTS + 1 }, (_, at): [number, number] => {
    const percentile = (at / CURVE_POINTS) * 100;
    return [percentileOf(sorted, percentile), percentile];
  });
  return [{ name, points }];
}

const values = (records: readonly RequestRecord[], metric: 'ttft' | 'e2e'): Float64Array =>
  ascending(records.map((record) => latencyOf(record, metric)).filter((value) => value !== null));

export const latencyCurves = (fine: readonly RequestRecord[]): Curve[] => [
  ...distributionCurve('TTFT', values(fine, 'ttft')),
  ...distributionCurve('end to end', values(fine, 'e2e')),
];

export const gapCurves = (fine: readonly RequestRecord[]): Curve[] =>
  distributionCurve('inter-token', pooledGaps(fine));

export interface Timeline {
  readonly running: Curve;
  readonly waiting: Curve;
  readonly tokens: Curve;
}

/** Time series in equal steps, in seconds: requests in flight, requests waiting for a slot, tokens per second. */
export function timelineOf(records: readonly RequestRecord[]): Timeline {
  const end = records.reduce((most, record) => Math.max(most, record.end), 1);
  const step = Math.max(100, end / COLUMNS);
  const columns = Math.ceil(end / step);
  const busy = new Float64Array(columns),
    waiting = new Float64Array(columns),
    tokens = new Float64Array(columns);
  const cover = (into: Float64Array, from: number, to: number): void => {
    for (let at = Math.max(0, Math.floor(from / step)); at < columns && at * step < to; at++)
      into[at] = (into[at] as number) + (Math.min(to, (at + 1) * step) - Math.max(from, at * step)) / step;
  };
  for (const { intended, sent, end: ended, firstToken, gaps, outputTokens } of records) {
    cover(busy, sent, ended);
    if (sent > intended) cover(waiting, intended, sent);
    if (firstToken === null) continue;
    // One event may contain several tokens.
    const each = (outputTokens ?? gaps.length + 1) / (gaps.length + 1);
    let at = firstToken;
    for (let n = 0; n <= gaps.length; n++) {
      const column = Math.min(columns - 1, Math.max(0, Math.floor(at / step)));
      tokens[column] = (tokens[column] as number) + (each * 1000) / step;
      at += gaps[n] ?? 0;
    }
  }
  const curve = (name: string, data: Float64Array): Curve => ({
    name,
    points: [...data].map((value, at) => [(at * step) / 1000, value] as const),
  });
  return { running: curve('running', busy), waiting: curve('waiting', waiting), tokens: curve('tokens/s', tokens) };
}

export interface Dots {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number; readonly words: string }[];
}

const ms = (value: number): string => `${Number(value.toPrecision(3))} ms`;

/**
 * TTFT of completed requests by intended start, and the duration of failed requests. If there are many requests, only
 * every n-th request is included.
 */
export function ttftDots(records: readonly RequestRecord[]): Dots[] {
  const every = Math.max(1, Math.ceil(records.length / MAX_DOTS));
  const some = records.filter((_, at) => at % every === 0);
  const answered = some.flatMap((record) => {
    const ttft = record.error === null ? latencyOf(record, 'ttft') : null;
    return ttft === null
      ? []
      : [{ x: record.intended / 1000, y: ttft, words: `session ${record.session}, turn ${record.turn}: ${ms(ttft)}` }];
  });
  const broken = some.filter(failed).map((record) => ({
    x: record.intended / 1000,
    y: record.end - record.intended,
    words: `session ${record.session}: ${record.error?.kind ?? ''}`,
  }));
  return [
    { name: 'completed', points: answered },
    ...(broken.length === 0 ? [] : [{ name: 'failed', points: broken }]),
  ];
}

/**
 * The slowest responses in order of their start, split into the wait for a slot, the time to first token, and decoding.
 */
export function slowest(fine: readonly RequestRecord[]): Bar[] {
  return [...fine]
    .sort((a, b) => b.end - b.intended - (a.end - a.intended))
    .slice(0, SLOWEST)
    .sort((a, b) => a.intended - b.intended)
    .map((record) => {
      const { intended, sent, firstToken, end, session, turn, promptTokens, outputTokens } = record;
      const first = firstToken ?? end;
      return {
        name: `${session}${turn > 0 ? `.${turn}` : ''}`,
        from: intended,
        parts: [Math.max(0, sent - intended), first - sent, end - first],
        words: `session ${session}, turn ${turn}: ${ms(end - intended)}; ${promptTokens ?? '?'} prompt tokens, ${outputTokens ?? '?'} output tokens`,
      };
    });
}
