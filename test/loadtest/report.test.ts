// Tests a report's files: the fields that other tools read, the request records, and the HTML page, which is opened
// from disk in a real browser.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { aiperfResult } from '../../src/bench/load/report/aiperf.js';
import { figuresOf, repeatedFigures } from '../../src/bench/load/report/report.js';
import type { FinishedRun, LoadReport } from '../../src/bench/load/report/report.js';
import { rateTables, runName } from '../../src/bench/load/report/table.js';
import { vllmResult } from '../../src/bench/load/report/vllm.js';
import { writeReport } from '../../src/bench/load/report/write.js';
import { parseObjectives } from '../../src/bench/load/objectives.js';
import { summarize } from '../../src/bench/load/summary.js';
import { UNMEASURED } from '../../src/bench/load/text-maker.js';
import type { LoadResult, LoadRun, RequestRecord } from '../../src/bench/load/types.js';
import { noBrowser, openBrowser, overflow, PHONE } from '../support/browser.js';

t.setTimeout(120_000);

const folder = mkdtempSync(join(tmpdir(), 'monolith-report-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

const run: LoadRun = {
  target: {
    url: 'http://127.0.0.1:1/v1',
    dialect: 'chat',
    model: '<b>m</b>',
    headers: {},
    body: {},
    ignoreEos: true,
    capField: 'max_tokens',
    timeoutMs: 1000,
  },
  workload: {
    kind: 'synthetic',
    seed: 1,
    schema: null,
    prompt: { kind: 'fixed', tokens: 10 },
    output: { kind: 'fixed', tokens: 3 },
    prefixes: null,
    turns: { kind: 'fixed', tokens: 1 },
    thinkMs: 0,
  },
  measure: UNMEASURED,
  arrival: { kind: 'constant', rate: 10 },
  length: { requests: 20, durationMs: null },
  warmup: { requests: 1, durationMs: null },
  graceMs: 0,
  maxConcurrency: 2,
  conversation: 'history',
  seed: 1,
  threads: 1,
};
// One request every 100 ms, sent 10 ms late. The first token arrives after 20 ms, followed by inter-token latencies of
// 5 and 15 ms. The last request fails.
const record = (n: number): RequestRecord => ({
  session: n,
  turn: 0,
  phase: n === 0 ? 'warmup' : 'measured',
  intended: n * 100,
  sent: n * 100 + 10,
  headers: n * 100 + 15,
  firstToken: n === 20 ? null : n * 100 + 30,
  end: n * 100 + 50,
  gaps: Float32Array.from(n === 20 ? [] : [5, 15]),
  status: 200,
  error: n === 20 ? { kind: 'stream_error', message: '<script>' } : null,
  finish: 'length',
  wanted: { promptTokens: 10, outputTokens: 3 },
  promptTokens: 10,
  cachedTokens: 5,
  outputTokens: n === 20 ? null : 3,
});
const result: LoadResult = {
  records: Array.from({ length: 21 }, (_, n) => record(n)),
  startedAt: 1_700_000_000_000,
  endedMs: 2050,
  client: { utilization: 0.1, cpuSeconds: 0.2, lagP99: 1 },
  stopped: false,
};
const objectives = parseObjectives('ttft_p90=35ms,errors=10%');
const finished: FinishedRun = { run, round: 1, result, summary: summarize(result, run, objectives) };

t.test('writes the fields of vllm bench serve', (t) => {
  const told = vllmResult(finished);
  t.match(told, {
    model_id: '<b>m</b>',
    num_prompts: 20,
    completed: 19,
    failed: 1,
    max_concurrency: 2,
    burstiness: 1,
    duration: 1.95,
    total_input_tokens: 190,
    total_output_tokens: 57,
    mean_ttft_ms: 20,
    median_ttft_ms: 20,
    p99_ttft_ms: 20,
    mean_tpot_ms: 10,
    mean_itl_ms: 10,
    p99_itl_ms: 15,
    mean_e2el_ms: 40,
    date: '20231114-221320',
    max_concurrent_requests: 1,
  });
  t.ok(
    Math.abs(Number(told['request_throughput']) - 19 / 1.95) < 1e-9 &&
      Math.abs(Number(told['request_rate']) - 10) < 1e-9,
  );
  t.match((told['itls'] as number[][])[0], [0.005, 0.015]);
  t.same(
    [told['ttfts'], told['errors'], told['queue_times']].map((list) => (list as unknown[]).at(-1)),
    [0, 'stream_error: <script>', 0.01],
  );
  for (const list of [
    'input_lens',
    'output_lens',
    'ttfts',
    'itls',
    'latencies',
    'start_times',
    'queue_times',
    'generated_texts',
    'errors',
  ])
    t.equal((told[list] as unknown[]).length, 20, list);
  t.equal(told['request_goodput'], finished.summary.goodput?.requestsPerSecond);
  t.end();
});

t.test('writes the fields of AIPerf', (t) => {
  t.match(aiperfResult(finished, '1.0', 'x'), {
    schema_version: '1.4',
    time_to_first_token: { unit: 'ms', avg: 20, p99: 20, count: 19, sum: 380 },
    time_to_second_token: { avg: 5 },
    request_latency: { avg: 40 },
    inter_token_latency: { avg: 10 },
    output_token_throughput_per_user: { unit: 'tokens/sec/user', avg: 100 },
    input_sequence_length: { avg: 10 },
    output_sequence_length: { avg: 3, p1: 3 },
    request_count: { unit: 'requests', avg: 19 },
    error_request_count: { avg: 1 },
    benchmark_duration: { unit: 'sec', avg: 1.95 },
    good_request_count: { avg: 19 },
    was_cancelled: false,
    error_summary: [{ error_details: { type: 'stream_error' }, count: 1 }],
    start_time: '2023-11-14T22:13:20.000Z',
  });
  t.end();
});

t.test('a summary measures from the intended start', (t) => {
  const { ttft, e2e, queued, requests, goodput, verdicts, durationMs, offeredPerSecond, concurrency, totals } =
    finished.summary;
  t.match({ ttft, e2e, queued }, { ttft: { p50: 30, count: 19 }, e2e: { p50: 50 }, queued: { p50: 10, count: 20 } });
  t.same(requests, { asked: 20, answered: 19, failed: 1, cancelled: 0 });
  t.match(
    { goodput, totals, durationMs, concurrency },
    { goodput: { share: 0.95 }, totals: { cachedTokens: 95 }, durationMs: 1950, concurrency: { peak: 1 } },
  );
  t.ok(Math.abs((offeredPerSecond ?? 0) - 10) < 1e-9);
  t.match(
    verdicts.map(({ met }) => met),
    [true, true],
  );
  t.equal(figuresOf(finished.summary)['ttft_p99_ms'], 30);
  t.end();
});

t.test('rounds are summarized separately', async (t) => {
  const slower = { ...finished.summary, requestsPerSecond: 1 };
  const runs = [1, 2].flatMap((seed) =>
    [1, 2].map((round) => ({
      startedAt: result.startedAt,
      seed,
      round,
      summary: round === 1 ? finished.summary : slower,
    })),
  );
  const { repeated, laterRounds } = repeatedFigures(runs);
  t.equal(repeated['requests_per_second']?.mean, finished.summary.requestsPerSecond);
  t.match(laterRounds, [{ round: 2, repeated: { requests_per_second: { mean: 1, runs: [1, 1] } } }]);
  t.same(
    runs.map((_, at) => runName({ runs }, at)),
    ['run 1, round 1', 'run 1, round 2', 'run 2, round 1', 'run 2, round 2'],
  );
  t.same(
    [0, 1].map((at) => runName({ runs: runs.slice(0, 2) }, at)),
    ['round 1', 'round 2'],
  );
  t.equal(runName({ runs: runs.filter(({ round }) => round === 1) }, 1), 'run 2');
  t.match(
    rateTables({ repeated, laterRounds, runs }).map(({ title, rows }) => [
      title,
      rows[0]?.[0],
      rows.some(([name]) => name === 'ttft p50'),
    ]),
    [
      ['round 1: mean of 2 runs (95 % confidence)', 'requests/s', true],
      ['round 2: mean of 2 runs (95 % confidence)', 'requests/s', true],
    ],
  );
});

t.test('writes the files, and the page works in a browser', { skip: noBrowser }, async (t) => {
  const runs = [1, 2].map((seed) => ({ startedAt: result.startedAt, seed, round: 1, summary: finished.summary }));
  const report: LoadReport = {
    tool: 'monolith bench serve',
    version: '1',
    command: 'monolith bench serve',
    target: { url: 'http://x/v1', dialect: 'chat', model: '<b>m</b>', ignoreEos: true, body: {} },
    workload: 'w',
    arrival: 'a',
    conversation: 'history',
    exactLengths: true,
    threads: 1,
    objectives,
    runs,
    ...repeatedFigures(runs),
  };
  await writeReport(folder, report, [finished, finished]);
  const lines = (name: string): unknown[] =>
    readFileSync(join(folder, 'run-2', name), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
  t.match(lines('requests.jsonl')[1], { session: 1, phase: 'measured', gaps: [5, 15], outputTokens: 3 });
  t.match(lines('profile_export.jsonl')[1], {
    metadata: {
      session_num: 1,
      turn_index: 0,
      benchmark_phase: 'profiling',
      request_start_ns: 1_700_000_000_110 * 1e6,
      was_cancelled: false,
    },
    metrics: { time_to_first_token: { value: 20, unit: 'ms' }, inter_chunk_latency: { value: [5, 15], unit: 'ms' } },
    error: null,
  });
  t.match(lines('profile_export.jsonl')[20], { metrics: {}, error: { type: 'stream_error' } });
  t.equal(lines('requests.jsonl').length, 21);
  t.match(JSON.parse(readFileSync(join(folder, 'result.json'), 'utf8')), {
    runs: [{ summary: { requests: { answered: 19 } } }, {}],
    repeated: { ttft_p50_ms: { mean: 30, low: 30, high: 30 } },
  });

  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const page = await browser.newPage({ viewport: PHONE });
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => problems.push(message.text()));
  page.on('request', (request) => {
    if (!request.url().endsWith('/report.html')) problems.push(request.url());
  });
  await page.goto(pathToFileURL(join(folder, 'report.html')).href);
  t.equal(
    await page.getByRole('heading', { level: 1 }).textContent(),
    'Load test of <b>m</b>',
    'a model name with markup is shown as text',
  );
  t.match(
    await page.locator('.tiles').innerText(),
    /Requests per second\s+9\.74[\s\S]*Time to first token, p50\s+30 ms\s+p99 30 ms[\s\S]*Objectives kept\s+4 of 4/,
    'the page starts with the main figures',
  );
  t.equal(await page.getByRole('img').count(), 12, 'six charts for each run');
  t.equal(await page.getByRole('row', { name: /ttft_p90=35ms 30 ms kept/ }).count(), 2);
  t.equal(await page.getByRole('row', { name: /stream_error 1 <script>/ }).count(), 2);
  t.ok(
    await page.evaluate(
      '[...document.querySelectorAll("polyline")].every((line) => line.getBBox().width + line.getBBox().height > 50 && !line.getAttribute("points").includes("NaN"))',
    ),
    'the lines of the charts connect valid points',
  );
  t.equal(await overflow(page), 0);
  t.same(problems, [], 'the page fetches nothing and reports no errors');
});
