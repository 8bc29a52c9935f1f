// monolith bench serve: load-tests a server and reports the results. A signal ends the test early and reports the
// results so far.

import { constants } from 'node:os';
import { join } from 'node:path';
import { commandConfig } from './command-config.js';
import { showArrival } from '../bench/load/arrivals.js';
import { runLoad } from '../bench/load/driver.js';
import { modelsOf, prepare } from '../bench/load/prepare.js';
import { finite, repeatedFigures } from '../bench/load/report/report.js';
import type { FinishedRun, LoadReport } from '../bench/load/report/report.js';
import {
  errorRows,
  LATENCY_HEAD,
  latencyRows,
  rateTables,
  requestsLine,
  runName,
  verdictRows,
} from '../bench/load/report/table.js';
import { writeReport } from '../bench/load/report/write.js';
import { summarize } from '../bench/load/summary.js';
import type { LoadRun, Target, TextMeasure } from '../bench/load/types.js';
import { VERSION } from '../shared/version.js';
import { findPeer } from './bench-peer.js';
import { BenchProgress } from './bench-progress.js';
import { FLAGS, wantedOf } from './bench-serve-flags.js';
import type { Wanted } from './bench-serve-flags.js';
import { noWords } from '../config/arguments.js';
import { askedForHelp, table } from './output.js';

const HELP = `
Usage: monolith bench serve [flags]

Sends load to a server and reports time to first token, inter-token latency, time per output token, end-to-end latency,
tokens and requests per second, errors by kind, and the fraction of requests that met given objectives. Without --url it
measures the server that uses the data directory.

Server:    --url URL           base URL of the API, such as http://127.0.0.1:8000/v1 (llama-server, vLLM, hosted APIs)
           --model NAME        default: the first model that the server lists
           --dialect D         chat (default), completions or responses
           --api-key KEY       or MONOLITH_KEY; --header "Name: value" adds a header, repeatable
           --body JSON         fields added to every request: '{"temperature":0}'
           --ignore-eos        generate the full output length; --timeout 10m per request
Load:      --concurrency N     closed loop with N concurrent sessions (default 1)
           --rate R            open loop with R sessions per second; --arrival poisson (default), constant or gamma with
                               --burstiness B (below 1: burstier than Poisson)
           --bursts N/TIME     open loop with N sessions at a time, every TIME
           --as-traced         open loop with the timing of the trace; --speed 2 is twice as fast
           --max-concurrency N limit on running requests of an open loop; waiting counts as latency
           --requests N        (default 100), --duration TIME, or to the end of the trace; --warmup N or TIME is not
                               measured
           --runs N            repetitions, with confidence intervals; --seed N, --grace 30s, --threads N
           --rounds N          repeat the prompts of each run N times (default 1) and report each round: from the second
                               round on, a prefix cache helps
Requests:  --prompt-tokens L   (default 256) and --output-tokens L (default 128): 512, 256..1024 or 512~128 (mean~deviation)
           --prefix-tokens N   tokens shared by all sessions; --prefixes K: one of K prefixes
           --turns L           turns per session, --think TIME between them; --stored: use stored responses
           --schema FILE       require output that matches this JSON schema
           --sharegpt FILE     conversations; --mooncake FILE (JSONL), --burstgpt FILE (CSV): traces
Results:   --slo LIST          ttft_p99=500ms,itl_p99=50ms,tpot_p50=20ms,e2e_p95=10s,errors=1%
           --out FOLDER        report.html, result.json and run-N/ with every request and the file formats of vLLM's and
                               AIPerf's tools (default bench-DATE); --json prints result.json
`;

/** Exit code if the test ran but at least one run missed an objective. */
const MISSED = 3;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export async function benchServe(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, lists, words } = commandConfig(argv, FLAGS);
  noWords(words);
  const wanted = await wantedOf(lists, new Date());
  const stop = new AbortController();
  let isRunning = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    // Exits immediately if there are no results yet, or on a second signal.
    if (!isRunning || stop.signal.aborted) process.exit(128 + constants.signals[signal]);
    process.exitCode = 128 + constants.signals[signal];
    stop.abort();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const peer = await findPeer('bench serve', wanted, config);
  try {
    const model = wanted.model ?? ((await modelsOf(peer.url, peer.headers))[0] as string);
    const asked: Target = {
      url: peer.url,
      dialect: wanted.dialect,
      model,
      headers: peer.headers,
      body: wanted.body,
      ignoreEos: wanted.ignoreEos,
      capField: 'max_tokens',
      timeoutMs: wanted.timeoutMs,
    };
    const { target, measure } = await prepare(asked, wanted.workload);
    isRunning = true;
    const runs: FinishedRun[] = [];
    for (let number = 0; number < wanted.runs; number++) {
      for (let round = 1; round <= wanted.rounds && !stop.signal.aborted; round++)
        runs.push(await once(wanted, { target, measure, number, round, signal: stop.signal }));
    }
    const report = reportOf(wanted, target, measure, runs, argv);
    await writeReport(wanted.out, report, runs);
    process.stdout.write(wanted.isJson ? `${JSON.stringify(report, finite)}\n` : reportText(report, runs, wanted.out));
    if (stop.signal.aborted) return Number(process.exitCode);
    if (!runs.some(({ summary }) => summary.requests.answered > 0)) return 1;
    return runs.some(({ summary }) => summary.verdicts.some(({ met }) => !met)) ? MISSED : 0;
  } finally {
    await peer.close();
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

/**
 * Each run has its own prompts, so that no run benefits from prefixes that another run has left in the cache. All
 * rounds of a run use the same prompts.
 */
async function once(
  wanted: Wanted,
  {
    target,
    measure,
    number,
    round,
    signal,
  }: { target: Target; measure: TextMeasure; number: number; round: number; signal: AbortSignal },
): Promise<FinishedRun> {
  const { workload, arrival, length, warmup, graceMs, maxConcurrency, conversation, threads } = wanted;
  const seed = wanted.seed + number;
  const run: LoadRun = {
    target,
    workload: { ...workload, seed },
    measure,
    arrival,
    length,
    warmup,
    graceMs,
    maxConcurrency,
    conversation,
    seed,
    threads,
  };
  const parts = [
    ...(wanted.runs > 1 ? [`run ${number + 1} of ${wanted.runs}`] : []),
    ...(wanted.rounds > 1 ? [`round ${round} of ${wanted.rounds}`] : []),
  ];
  const progress = new BenchProgress(process.stderr, parts.length > 0 ? `${parts.join(', ')}: ` : '');
  try {
    const result = await runLoad(run, { signal, onProgress: (at) => progress.at(at) });
    return { run, round, result, summary: summarize(result, run, wanted.objectives) };
  } finally {
    progress.end();
  }
}

/** Returns the command line as typed, without secrets. */
function commandLine(argv: readonly string[]): string {
  const shown: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const [flag = '', ...value] = (argv[at] as string).split('=');
    const isSecret = flag === '--api-key' || flag === '--header';
    if (!isSecret) shown.push(argv[at] as string);
    else {
      if (value.length === 0) at++;
      shown.push(flag, '…');
    }
  }
  return `monolith bench serve ${shown.map((word) => (/^[A-Za-z0-9_./:=,%~…-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ')}`.trim();
}

function reportOf(
  wanted: Wanted,
  target: Target,
  measure: TextMeasure,
  finished: readonly FinishedRun[],
  argv: readonly string[],
): LoadReport {
  const runs = finished.map(({ run, round, result, summary }) => ({
    startedAt: result.startedAt,
    seed: run.seed,
    round,
    summary,
  }));
  const { url, dialect, model, ignoreEos, body } = target;
  return {
    tool: 'monolith bench serve',
    version: VERSION,
    command: commandLine(argv),
    target: { url, dialect, model, ignoreEos, body },
    workload: wanted.about,
    arrival: showArrival(wanted.arrival),
    conversation: wanted.conversation,
    exactLengths: measure.exact,
    threads: wanted.threads,
    objectives: wanted.objectives,
    runs,
    ...repeatedFigures(runs),
  };
}

function reportText(report: LoadReport, runs: readonly FinishedRun[], folder: string): string {
  const parts = [
    `${report.target.model} (${report.target.dialect} at ${report.target.url}); ${report.arrival}; ${report.workload}\n`,
  ];
  for (const [at, { summary }] of runs.entries()) {
    parts.push(
      `${runs.length > 1 ? `${runName(report, at)}: ` : ''}${requestsLine(summary)}\n`,
      ...summary.doubts.map((doubt) => `  ! ${doubt}\n`),
    );
    for (const rows of [[[...LATENCY_HEAD], ...latencyRows(summary)], verdictRows(summary), errorRows(summary)])
      if (rows.length > 0) parts.push(`\n${table(rows)}`);
    parts.push('\n');
  }
  for (const { title, rows } of rateTables(report))
    if (rows.length > 0) parts.push(...(title === null ? [] : [`${title}\n`]), `${table(rows)}\n`);
  return `${parts.join('')}${join(folder, 'report.html')}\n`;
}
