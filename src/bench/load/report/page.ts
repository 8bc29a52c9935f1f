// A report as a single HTML page with tables and charts. It loads no other files and contains no scripts, so it can be
// opened from disk.

import { answered } from '../objectives.js';
import type { Summary } from '../types.js';
import { bars, curves, dots, escape } from './charts.js';
import type { FinishedRun, LoadReport } from './report.js';
import { gapCurves, latencyCurves, slowest, timelineOf, ttftDots } from './series.js';
import {
  duration,
  errorRows,
  LATENCY_HEAD,
  latencyRows,
  number,
  rateTables,
  requestsLine,
  runName,
  verdictRows,
} from './table.js';

const STYLE = `
:root{color-scheme:light dark;--back:#fff;--card:#f7f7f8;--text:#1c1e21;--soft:#63676e;--line:#dfe1e5;--bad:#b3261e;--good:#1f7a4a;--c0:#2463c8;--c1:#d2622a;--c2:#2f8f5b;--c3:#8a4fbf;--c4:#b08900;--c5:#5c6b7a}
@media(prefers-color-scheme:dark){:root{--back:#15171a;--card:#1d2024;--text:#e6e7e9;--soft:#9aa0a8;--line:#33373d;--bad:#ff8a80;--good:#6fd19b;--c0:#7aa7f5;--c1:#f0966a;--c2:#6cc795;--c3:#bb93e6;--c4:#dcb94a;--c5:#9fb0bf}}
body{margin:0 auto;max-width:1320px;padding:24px;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}
h1{font-size:24px;line-height:32px;margin:0 0 4px}h2{font-size:18px;margin:40px 0 12px}h3{font-size:14px;margin:0 0 8px}p{margin:4px 0}.soft{color:var(--soft)}code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(50% - 1px,170px),1fr));gap:1px;margin:24px 0;border:1px solid var(--line);border-radius:8px;background:var(--line);overflow:hidden}.tiles>div{padding:14px 16px;background:var(--back)}.tiles dt{color:var(--soft);font-size:13px}.tiles dd{margin:0;font-size:26px;line-height:34px;font-weight:600;font-variant-numeric:tabular-nums}.tiles span{display:block;min-height:20px;color:var(--soft);font-size:13px;line-height:20px;font-weight:400}
.tables{display:flex;flex-wrap:wrap;gap:24px 56px;margin:24px 0}.tables>section{min-width:0;max-width:100%}.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:6px 20px 6px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}td{white-space:nowrap}td:last-child{white-space:normal}th{color:var(--soft);font-weight:500}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:16px;margin:24px 0 12px}.charts>svg{background:var(--card);border-radius:8px;width:100%;height:auto;padding:8px;box-sizing:border-box;fill:var(--text);font:12px system-ui,sans-serif}
.title{font-size:14px;font-weight:600}.tick{fill:var(--soft);font-size:11px}.grid{stroke:var(--line)}.missed,.doubt{color:var(--bad)}.kept{color:var(--good)}
${[0, 1, 2, 3, 4, 5].map((n) => `.line${n}{fill:none;stroke:var(--c${n});stroke-width:1.6}.fill${n}{fill:var(--c${n})}`).join('')}
`;

const table = (rows: readonly (readonly string[])[], head?: readonly string[]): string =>
  rows.length === 0
    ? ''
    : [
        '<div class="wide"><table>',
        head === undefined ? '' : `<tr>${head.map((cell) => `<th>${escape(cell)}</th>`).join('')}</tr>`,
        ...rows.map(
          (row) =>
            `<tr>${row.map((cell, at) => (at === 0 ? `<th scope="row">${escape(cell)}</th>` : `<td${cell === 'missed' || cell === 'kept' ? ` class="${cell}"` : ''}>${escape(cell)}</td>`)).join('')}</tr>`,
        ),
        '</table></div>',
      ].join('');

const doubts = ({ doubts: all }: Summary): string =>
  all.map((doubt) => `<p class="doubt">${escape(`${doubt[0]?.toUpperCase() ?? ''}${doubt.slice(1)}.`)}</p>`).join('');

function runSection({ result, summary }: FinishedRun, title: string): string {
  const records = result.records.filter(({ phase }) => phase === 'measured');
  const fine = records.filter(answered);
  const timeline = timelineOf(result.records);
  const latencies = latencyCurves(fine),
    gaps = gapCurves(fine),
    longest = slowest(fine);
  const charts = [
    latencies.length === 0
      ? ''
      : curves(
          {
            title: 'Request latency',
            x: 'milliseconds from the intended start',
            y: '% of requests',
            logX: true,
            most: 100,
          },
          latencies,
        ),
    gaps.length === 0
      ? ''
      : curves({ title: 'Inter-token latency', x: 'milliseconds', y: '% of gaps', logX: true, most: 100 }, gaps),
    curves(
      { title: 'Requests in flight', x: 'seconds, including warm-up', y: 'requests' },
      timeline.waiting.points.some(([, y]) => y >= 1) ? [timeline.running, timeline.waiting] : [timeline.running],
    ),
    curves({ title: 'Output tokens per second', x: 'seconds, including warm-up', y: 'tokens/s' }, [timeline.tokens]),
    records.length === 0
      ? ''
      : dots({ title: 'Time to first token', x: 'seconds', y: 'milliseconds' }, ttftDots(records)),
    longest.length === 0
      ? ''
      : bars('The slowest requests', 'milliseconds', ['waiting', 'to first token', 'decoding'], longest),
  ];
  return [
    `<h2>${escape(title)}</h2><p>${escape(requestsLine(summary))}</p>`,
    doubts(summary),
    `<div class="tables">${titled('Latencies', table(latencyRows(summary), LATENCY_HEAD))}${titled('Objectives', table(verdictRows(summary), ['objective', 'measured', '']))}${titled('Errors', table(errorRows(summary), ['error', 'count', 'example']))}</div>`,
    `<div class="charts">${charts.join('')}</div>`,
    `<p class="soft">The client was busy for ${number(summary.client.utilization * 100)} % of the time and sent requests at most ${duration(summary.client.lagP99)} after they were due (99th percentile).</p>`,
  ].join('\n');
}

const titled = (title: string, content: string): string =>
  content === '' ? '' : `<section><h3>${escape(title)}</h3>${content}</section>`;

/** The headline figures: means over the runs of the first round. */
function headline({ repeated, runs }: LoadReport): string {
  const figure = (name: string, show: (value: number) => string = number): string | null => {
    const { mean } = repeated[name] ?? { mean: NaN };
    return Number.isFinite(mean) ? show(mean) : null;
  };
  const percentiles = (metric: string): readonly [string | null, string] => [
    figure(`${metric}_p50_ms`, duration),
    `p99 ${figure(`${metric}_p99_ms`, duration) ?? 'not measured'}`,
  ];
  const first = runs.filter(({ round }) => round === 1).length;
  const verdicts = runs.flatMap(({ summary }) => summary.verdicts);
  const kept = verdicts.filter(({ met }) => met).length;
  const tiles: readonly (readonly [string, string | null, string])[] = [
    ['Requests per second', figure('requests_per_second'), first > 1 ? `mean of ${first} runs` : ''],
    [
      'Output tokens per second',
      figure('output_tokens_per_second'),
      `${figure('total_tokens_per_second') ?? '0'} with prompts`,
    ],
    ['Time to first token, p50', ...percentiles('ttft')],
    ['Time per output token, p50', ...percentiles('tpot')],
    [
      'Goodput',
      figure('goodput_share', (share) => `${number(share * 100)} %`),
      `${figure('goodput_requests_per_second') ?? '0'} requests/s`,
    ],
    ['Objectives kept', verdicts.length === 0 ? null : `${kept} of ${verdicts.length}`, ''],
  ];
  return `<dl class="tiles">${tiles
    .filter(([, value]) => value !== null)
    .map(
      ([label, value, note]) =>
        `<div><dt>${escape(label)}</dt><dd>${escape(value ?? '')}<span>${escape(note)}</span></dd></div>`,
    )
    .join('')}</dl>`;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `runs`: the report's runs, with their records. */
export function reportPage(report: LoadReport, runs: readonly FinishedRun[]): string {
  const { target, workload, arrival, objectives } = report;
  // If there is only one run, the headline figures already include all rates.
  const rates = runs.length > 1 ? rateTables(report).filter(({ rows }) => rows.length > 0) : [];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escape(`Load test of ${target.model}`)}</title><style>${STYLE}</style></head><body>
<h1>${escape(`Load test of ${target.model}`)}</h1>
<p>${escape(`${target.dialect} at ${target.url}; ${arrival}; ${workload}`)}</p>
<p class="soft">${escape(new Date(report.runs[0]?.startedAt ?? 0).toISOString().slice(0, 19).replace('T', ' '))} UTC, Monolith ${escape(report.version)}${objectives.length === 0 ? '' : '; goodput counts requests that meet every objective'}. Latencies are measured from a request's intended start.</p>
<p><code>${escape(report.command)}</code></p>
${headline(report)}
${rates.map(({ title, rows }) => `<h2>${escape(capital(title ?? 'rates'))}</h2>${table(rows)}`).join('\n')}
${runs.map((run, at) => runSection(run, runs.length > 1 ? capital(runName(report, at)) : 'Requests')).join('\n')}
</body></html>
`;
}
