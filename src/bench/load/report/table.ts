// The report as text: table rows for the terminal and the page. No side effects.

import { showObjective } from '../objectives.js';
import type { Distribution, Repeated, Summary } from '../types.js';
import type { LoadReport } from './report.js';

/** Three significant digits, without trailing zeros. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return '∞';
  const size = Math.abs(value);
  return size >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));
}

/** Milliseconds or, for one second and above, seconds. */
export const duration = (ms: number): string =>
  Number.isFinite(ms) && Math.abs(ms) >= 1000 ? `${number(ms / 1000)} s` : `${number(ms)} ms`;

export const LATENCY_HEAD = ['', 'p50', 'p90', 'p95', 'p99', 'max', 'mean', 'count'] as const;

/** One run's latencies. */
export function latencyRows({ ttft, itl, tpot, e2e, queued }: Summary): string[][] {
  const row = (name: string, values: Distribution | null): string[][] =>
    values === null
      ? []
      : [
          [
            name,
            ...[values.p50, values.p90, values.p95, values.p99, values.max, values.mean].map(duration),
            number(values.count),
          ],
        ];
  return [
    ...row('time to first token', ttft),
    ...row('inter-token', itl),
    ...row('per output token', tpot),
    ...row('end to end', e2e),
    ...(queued !== null && queued.max > 5 ? row('delay before sending', queued) : []),
  ];
}

/** A metric with its confidence interval, if there is one. */
export function withInterval({ mean, low, high }: Repeated, show: (value: number) => string = number): string {
  return low === null || high === null ? show(mean) : `${show(mean)} (${show(Math.max(0, low))} to ${show(high)})`;
}

/** Returns the name by which a report refers to a run. */
export function runName({ runs }: Pick<LoadReport, 'runs'>, at: number): string {
  const first = runs.filter(({ round }) => round === 1).length,
    round = `round ${runs[at]?.round}`;
  const run = `run ${runs.slice(0, at + 1).filter((one) => one.round === 1).length}`;
  return runs.length === first ? run : first === 1 ? round : `${run}, ${round}`;
}

/** Rates over all runs, one table per round. The tables have titles if there is more than one run. */
export function rateTables({
  repeated,
  laterRounds,
  runs,
}: Pick<LoadReport, 'repeated' | 'laterRounds' | 'runs'>): { title: string | null; rows: string[][] }[] {
  const count = runs.filter(({ round }) => round === 1).length;
  return [{ round: 1, repeated }, ...laterRounds].map((one) => {
    const parts = [
      ...(laterRounds.length > 0 ? [`round ${one.round}`] : []),
      ...(count > 1 ? [`mean of ${count} runs (95 % confidence)`] : []),
    ];
    return {
      title: parts.length > 0 ? parts.join(': ') : null,
      rows: rateRows(one.repeated, count > 1 || laterRounds.length > 0),
    };
  });
}

function rateRows(repeated: LoadReport['repeated'], withLatencies: boolean): string[][] {
  const rows: [string, string][] = [
    ['requests/s', 'requests_per_second'],
    ['output tokens/s', 'output_tokens_per_second'],
    ['all tokens/s', 'total_tokens_per_second'],
    ['good requests/s', 'goodput_requests_per_second'],
  ];
  const table = rows.flatMap(([name, key]) =>
    repeated[key] === undefined ? [] : [[name, withInterval(repeated[key])]],
  );
  if (withLatencies) {
    for (const metric of ['ttft', 'itl', 'tpot', 'e2e']) {
      for (const place of ['p50', 'p99']) {
        const figure = repeated[`${metric}_${place}_ms`];
        if (figure !== undefined) table.push([`${metric} ${place}`, withInterval(figure, duration)]);
      }
    }
  }
  return table;
}

/** The objectives of one run, and whether it met them. */
export const verdictRows = ({ verdicts }: Summary): string[][] =>
  verdicts.map(({ objective, value, met }) => [
    showObjective(objective),
    value === null ? 'nothing measured' : objective.metric === 'errors' ? `${number(value * 100)} %` : duration(value),
    met ? 'kept' : 'missed',
  ]);

export const errorRows = ({ errors }: Summary): string[][] =>
  Object.entries(errors).map(([kind, error]) => [kind, number(error?.count ?? 0), error?.example ?? '']);

/** A one-line summary of requests and tokens. */
export function requestsLine({ requests, durationMs, totals, concurrency }: Summary): string {
  const parts = [`${number(requests.answered)} of ${number(requests.asked)} completed in ${duration(durationMs)}`];
  if (requests.failed > 0) parts.push(`${number(requests.failed)} failed`);
  if (requests.cancelled > 0) parts.push(`${number(requests.cancelled)} cancelled`);
  const cached =
    totals.promptTokens > 0 && totals.cachedTokens > 0
      ? ` (${number((totals.cachedTokens / totals.promptTokens) * 100)} % from the cache)`
      : '';
  parts.push(
    `${number(totals.promptTokens)} prompt tokens${cached}, ${number(totals.outputTokens)} output tokens`,
    `${number(concurrency.mean)} concurrent on average, at most ${number(concurrency.peak)}`,
  );
  return parts.join('; ');
}
