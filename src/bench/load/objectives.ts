// Service level objectives: their notation, and when they are met. No side effects.
//
//   ttft_p99=500ms,itl_p99=50ms,e2e_p95=10s,errors=1%
//
// A latency objective applies both to a run and to each request. A run meets it if the percentile over all requests is
// within the limit; a failed request counts as infinitely slow. A request meets it if its own latency is within the
// limit or, for inter-token latency, if the percentile over its own inter-token latencies is. Goodput counts the
// requests that meet all objectives.

import { percentileOf } from './distribution.js';
import { LoadError } from './load-error.js';
import { LATENCIES } from './types.js';
import type { Latency, Objective, RequestRecord, Verdict } from './types.js';

const GRAMMAR = 'such as ttft_p99=500ms, itl_p99=50ms, tpot_p50=20ms, e2e_p95=10s or errors=1%';
const UNITS: Readonly<Record<string, number>> = { us: 1e-3, ms: 1, s: 1e3, m: 60e3 };
const MOST = 16;

/**
 * Parses `metric[_pNN]=limit,...`; the default percentile is 99. Throws a LoadError that names the invalid objective.
 */
export function parseObjectives(text: string): Objective[] {
  const objectives = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(parseObjective);
  if (objectives.length === 0) throw new LoadError(`no objectives; expected some ${GRAMMAR}`);
  if (objectives.length > MOST)
    throw new LoadError(`too many objectives: ${objectives.length}, at most ${MOST} are allowed`);
  const names = objectives.map(nameOf);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new LoadError(`"${twice}" is listed twice`);
  return objectives;
}

function parseObjective(part: string): Objective {
  const wrong = (why: string): LoadError => new LoadError(`"${part}": ${why}; ${GRAMMAR}`);
  const [, name = '', value = ''] = /^([^=:]+)[=:](.*)$/.exec(part) ?? [];
  if (name === '') throw wrong('not an objective');
  if (name.trim() === 'errors') {
    const [, number, percent] = /^\s*([0-9]*\.?[0-9]+)\s*(%?)\s*$/.exec(value) ?? [];
    const limit = Number(number) / (percent === '%' ? 100 : 1);
    if (number === undefined || !(limit >= 0 && limit <= 1)) throw wrong('errors must be 0 to 100%');
    return { metric: 'errors', percentile: null, limit };
  }
  const [, metric, digits = '99'] = /^([a-z0-9]+?)(?:_p([0-9]{1,2}(?:\.[0-9]{1,3})?|100))?$/.exec(name.trim()) ?? [];
  const latency = LATENCIES.find((one) => one === (metric === 'e2el' ? 'e2e' : metric));
  if (latency === undefined)
    throw wrong(`"${name.trim()}" is not one of ${LATENCIES.join(', ')} (with _p50 to _p100) or errors`);
  const [, number, unit = ''] = /^\s*([0-9]*\.?[0-9]+)\s*(us|ms|s|m)\s*$/.exec(value) ?? [];
  if (number === undefined || !(Number(number) > 0))
    throw wrong('a latency must be a number above 0 with us, ms, s or m');
  return { metric: latency, percentile: Number(digits), limit: Number(number) * (UNITS[unit] ?? 1) };
}

/** The objective without its limit, such as `ttft_p99`. */
export const nameOf = ({ metric, percentile }: Objective): string =>
  percentile === null ? metric : `${metric}_p${percentile}`;

/** In the notation of parseObjectives. */
export function showObjective(objective: Objective): string {
  const limit =
    objective.metric === 'errors'
      ? `${Number((objective.limit * 100).toPrecision(12))}%`
      : `${Number(objective.limit.toPrecision(12))}ms`;
  return `${nameOf(objective)}=${limit}`;
}

export const failed = ({ error }: RequestRecord): boolean => error !== null && error.kind !== 'cancelled';
export const answered = ({ error }: RequestRecord): boolean => error === null;

/** Latency from the intended start. Null if the response has no tokens or, for TPOT, fewer than two. */
export function latencyOf(record: RequestRecord, metric: Exclude<Latency, 'itl'>): number | null {
  const { intended, firstToken, end, outputTokens } = record;
  if (metric === 'e2e') return end - intended;
  if (firstToken === null) return null;
  if (metric === 'ttft') return firstToken - intended;
  return outputTokens === null || outputTokens < 2 ? null : (end - firstToken) / (outputTokens - 1);
}

/**
 * Whether a completed request meets the objective. An objective for a latency that the request does not have counts as
 * met.
 */
function keeps(record: RequestRecord, { metric, percentile, limit }: Objective): boolean {
  if (metric === 'errors') return true;
  if (metric === 'itl')
    return record.gaps.length === 0 || percentileOf(Float32Array.from(record.gaps).sort(), percentile) <= limit;
  return (latencyOf(record, metric) ?? 0) <= limit;
}

/** Whether a request completed and met every objective. */
export const isGood = (record: RequestRecord, objectives: readonly Objective[]): boolean =>
  answered(record) && objectives.every((objective) => keeps(record, objective));

/** Checks a run's requests against the objectives. Cancelled requests are ignored. */
export function judge(records: readonly RequestRecord[], objectives: readonly Objective[]): Verdict[] {
  const asked = records.filter((record) => answered(record) || failed(record));
  const failures = asked.filter(failed).length;
  return objectives.map((objective) => {
    const value = measured(asked, failures, objective);
    return { objective, value, met: value !== null && value <= objective.limit };
  });
}

function measured(asked: readonly RequestRecord[], failures: number, { metric, percentile }: Objective): number | null {
  if (asked.length === 0) return null;
  if (metric === 'errors') return failures / asked.length;
  const fine = asked.filter(answered);
  if (metric !== 'itl') {
    const values = fine.map((record) => latencyOf(record, metric)).filter((value) => value !== null);
    const all = [...values, ...Array.from({ length: failures }, () => Infinity)].sort((a, b) => a - b);
    return all.length === 0 ? null : percentileOf(all, percentile);
  }
  // Failed requests have no inter-token latencies. Each failed request is counted as if it had as many inter-token
  // latencies as an average completed request, all of them over the limit, which raises the percentile accordingly.
  const share = (fine.length / asked.length) * 100;
  if (percentile > share) return Infinity;
  const gaps = pooledGaps(fine);
  return gaps.length === 0 ? null : percentileOf(gaps, Math.min(100, (percentile / share) * 100));
}

/** The inter-token latencies of all requests, sorted. */
export function pooledGaps(records: readonly RequestRecord[]): Float32Array {
  const all = new Float32Array(records.reduce((sum, { gaps }) => sum + gaps.length, 0));
  let at = 0;
  for (const { gaps } of records) {
    all.set(gaps, at);
    at += gaps.length;
  }
  return all.sort();
}
