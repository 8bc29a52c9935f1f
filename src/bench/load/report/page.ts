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
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:28px 0 8px}p{margin:4px 0}.soft{color:var(--soft)}code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
.tables{display:flex;flex-wrap:wrap;gap:12px 40px}.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:4px 14px 4px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}td{white-space:nowrap}td:last-child{white-space:normal}th{color:var(--soft);font-weight:500}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:16px;margin-top:12px}.charts>svg{background:var(--card);border-radius:8px;width:100%;height:auto;padding:8px;box-sizing:border-box;fill:var(--text);font:12px system-ui,sans-serif}
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
    table(latencyRows(summary), LATENCY_HEAD),
    `<div class="tables">${table(verdictRows(summary), summary.verdicts.length === 0 ? undefined : ['objective', 'measured', ''])}${table(errorRows(summary), ['error', 'count', 'example'])}</div>`,
    `<div class="charts">${charts.join('')}</div>`,
    `<p class="soft">The client was busy for ${number(summary.client.utilization * 100)} % of the time and sent requests at most ${duration(summary.client.lagP99)} after they were due (99th percentile).</p>`,
  ].join('\n');
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `runs`: the report's runs, with their records. */
export function reportPage(report: LoadReport, runs: readonly FinishedRun[]): string {
  const { target, workload, arrival, objectives } = report;
  const rates = rateTables(report).filter(({ rows }) => rows.length > 0);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escape(`${target.model}: load test`)}</title><style>${STYLE}</style></head><body>
<h1>${escape(target.model)}</h1>
<p>${escape(`${target.dialect} at ${target.url}; ${arrival}; ${workload}`)}</p>
<p class="soft">${escape(new Date(report.runs[0]?.startedAt ?? 0).toISOString())}, Monolith ${escape(report.version)}${objectives.length === 0 ? '' : '; goodput counts requests that meet every objective'}. Latencies are measured from a request's intended start.</p>
<p><code>${escape(report.command)}</code></p>
${rates.map(({ title, rows }) => `<h2>${escape(capital(title ?? 'rates'))}</h2>${table(rows)}`).join('\n')}
${runs.map((run, at) => runSection(run, runs.length > 1 ? capital(runName(report, at)) : 'Requests')).join('\n')}
</body></html>
`;
}
