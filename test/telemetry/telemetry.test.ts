import t from 'tap';
import { declaredMetrics } from '../../src/telemetry/instruments.js';
import { createLog } from '../../src/telemetry/logger.js';
import { readable } from '../../src/telemetry/text-line.js';
import { paintFor, wantsColor } from '../../src/shared/terminal-color.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import type { Telemetry } from '../../src/telemetry/types.js';

async function scrape(telemetry: Telemetry): Promise<Map<string, number>> {
  const lines = (await telemetry.scrape()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

const labels = { model: 'm', endpoint: '/v1/chat/completions' };
const series = 'model="m",endpoint="/v1/chat/completions"';

t.test('metrics of a generation are recorded from start to end', async (t) => {
  const telemetry = createTelemetry({ format: 'json', level: 'silent' });
  t.teardown(() => telemetry.close());
  const meter = telemetry.generation(labels);
  meter.started({ promptTokens: 40, cachedTokens: 32, queueMs: 20 });
  meter.firstToken(100);
  meter.laterTokens(3, 30);
  meter.prefilled(50);
  meter.choiceFinished({ completionTokens: 4, reason: 'end_of_turn', timings: { decodeMs: 40 } });
  meter.choiceFinished({ completionTokens: 1, reason: 'max_tokens', timings: { decodeMs: 0 } });
  meter.completed(200);
  const values = await scrape(telemetry);
  for (const [name, count] of [
    ['queue_seconds', 1],
    ['prefill_seconds', 1],
    ['time_to_first_token_seconds', 1],
    ['inter_token_seconds', 3],
    ['end_to_end_seconds', 1],
    ['completion_tokens', 2],
  ] as const) {
    t.equal(values.get(`monolith_${name}_count{${series}}`), count, name);
  }
  t.equal(values.get(`monolith_time_to_first_token_seconds_sum{${series}}`), 0.1);
  t.equal(values.get(`monolith_end_to_end_seconds_sum{${series}}`), 0.2);
  t.equal(values.get(`monolith_prefill_seconds_sum{${series}}`), 0.05);
  t.equal(values.get(`monolith_cached_tokens_sum{${series}}`), 32);
  t.equal(values.get(`monolith_choices_finished_total{${series},reason="max_tokens"}`), 1);
});

t.test('inter-token times and event delays are exported as histograms', async (t) => {
  const telemetry = createTelemetry({ format: 'json', level: 'silent' });
  t.teardown(() => telemetry.close());
  const bounds = (values: Map<string, number>, name: string): [bound: string, count: number][] =>
    [...values]
      .filter(([key]) => key.startsWith(`monolith_${name}_bucket{`))
      .map(([key, count]) => [/le="([^"]*)"/.exec(key)?.[1] ?? '', count]);
  t.same(bounds(await scrape(telemetry), 'inter_token_seconds'), [], 'no buckets are exported before the first value');

  telemetry.generation(labels).laterTokens(5, 30);
  telemetry.delivered(0.2);
  telemetry.delivered(5);
  telemetry.delivered(20_000);
  const values = await scrape(telemetry);
  const gaps = bounds(values, 'inter_token_seconds');
  t.equal(gaps.at(-1)?.join(), '+Inf,5');
  t.same(
    gaps.map(([, count]) => count),
    gaps.map(([, count]) => count).sort((a, b) => a - b),
    'bucket counts are cumulative',
  );
  t.equal(new Map(gaps).get('0.0025'), 0, 'five tokens in 30 ms count as 6 ms each');
  const sum = values.get(`monolith_inter_token_seconds_sum{${series}}`) ?? 0;
  t.ok(Math.abs(sum - 0.03) < 1e-9);
  const delays = new Map(bounds(values, 'event_delay_seconds'));
  t.same(
    ['0.0001', '0.00025', '0.003', '0.005', '1', '+Inf'].map((bound) => delays.get(bound)),
    [0, 1, 1, 2, 2, 3],
  );
  t.equal(values.get('monolith_event_delay_seconds_count'), 3);
  t.ok(Math.abs((values.get('monolith_event_delay_seconds_sum') ?? 0) - 20.0052) < 1e-9);
});

t.test('cancellations are labeled with the stage of the request', async (t) => {
  const telemetry = createTelemetry({ format: 'json', level: 'silent' });
  t.teardown(() => telemetry.close());
  const stages = ['queue', 'prefill', 'decode'] as const;
  for (const stage of stages) telemetry.generation(labels).cancelled(stage);
  const values = await scrape(telemetry);
  for (const stage of stages) t.equal(values.get(`monolith_cancelled_total{${series},stage="${stage}"}`), 1, stage);
});

t.test('exported engine totals follow the engine statistics', async (t) => {
  const telemetry = createTelemetry({ format: 'json', level: 'silent' });
  t.teardown(() => telemetry.close());
  let preemptions = 3;
  telemetry.observeEngines(() => [
    {
      model: 'm',
      waiting: 2,
      running: 1,
      pagesTotal: 10,
      pagesFree: 4,
      pagesCached: 5,
      kvUsedBytes: 4096,
      lastStepAgeMs: 7,
      promptTokens: 6,
      promptTokensCached: 1,
      preemptions,
      steps: 1,
      prefillTokens: 2,
      decodeTokens: 3,
      draftTokens: 9,
      acceptedTokens: 4,
      cancelledQueued: 0,
      cancelledPrefill: 0,
      cancelledDecode: 0,
    },
  ]);
  t.equal((await scrape(telemetry)).get('monolith_preemptions_total{model="m"}'), 3);
  preemptions = 5;
  const values = await scrape(telemetry);
  t.equal(values.get('monolith_preemptions_total{model="m"}'), 5);
  t.equal(values.get('monolith_guessed_tokens_total{model="m",outcome="right"}'), 4);
  t.equal(values.get('monolith_guessed_tokens_total{model="m",outcome="wrong"}'), 5);
  t.equal(values.get('monolith_kv_pages{model="m",state="free"}'), 4);
  t.equal(values.get('monolith_kv_used_bytes{model="m"}'), 4096);
  t.equal(values.get('monolith_requests_waiting{model="m"}'), 2);
  t.ok((values.get('process_resident_memory_bytes') ?? 0) > 1e6);
});

t.test('colors need a terminal, unless FORCE_COLOR is set', (t) => {
  for (const [env, isTerminal, wanted] of [
    [{}, true, true],
    [{}, false, false],
    [{ TERM: 'dumb' }, true, false],
    [{ NO_COLOR: '1' }, true, false],
    [{ NO_COLOR: '' }, true, true],
    [{ FORCE_COLOR: '1' }, false, true],
    [{ FORCE_COLOR: '3', NO_COLOR: '1', TERM: 'dumb' }, false, true],
    [{ FORCE_COLOR: '0' }, true, false],
    [{ FORCE_COLOR: 'false' }, true, false],
    [{ FORCE_COLOR: '' }, false, false],
  ] as const)
    t.equal(
      wantsColor(2, env, () => isTerminal),
      wanted,
      JSON.stringify([env, isTerminal]),
    );
  t.end();
});

t.test('text log lines are readable and contain no control characters', (t) => {
  t.equal(
    readable(
      JSON.parse(
        '{"level":"info","time":"2026-01-02T03:04:05.678Z","msg":"started","status":200,"ms":1.23456,"code":null,"name":"a b"}',
      ) as object,
    ),
    '2026-01-02T03:04:05.678Z info  started  status=200 ms=1.23 name="a b"\n',
  );
  // The fields of a request: status, route, model and duration come first and IDs last; fields with their usual value
  // are omitted.
  const request = {
    level: 'info',
    time: '2026-01-02T03:04:05.678Z',
    request_id: 'req_1',
    client_request_id: null,
    method: 'POST',
    path: '/v1/messages',
    status: 200,
    outcome: 'completed',
    code: null,
    organization: 'org_1',
    key: 'key_1',
    ms: 1198.15,
    model: 'm',
    admitted: true,
    prompt_tokens: 9,
    stream: false,
    cached_tokens: 0,
    queue_ms: 5,
    loop_ms: 2.1,
    msg: 'request',
  };
  t.equal(
    readable(request),
    '2026-01-02T03:04:05.678Z info  200 POST /v1/messages m 1198 ms  prompt_tokens=9 queue_ms=5 loop_ms=2.1 organization=org_1 key=key_1 request_id=req_1\n',
  );
  t.equal(
    readable({ ...request, level: 'warn', outcome: 'failed', code: 'x', ms: 3 }, paintFor(true)),
    '\u001b[2m2026-01-02T03:04:05.678Z\u001b[22m \u001b[33mwarn \u001b[39m \u001b[31m200\u001b[39m POST /v1/messages m 3.0 ms  outcome=failed code=x prompt_tokens=9 queue_ms=5 \u001b[2mloop_ms=2.1 organization=org_1 key=key_1 request_id=req_1\u001b[22m\n',
  );
  const colored: string[] = [];
  createLog({ format: 'text', level: 'info', write: (line) => colored.push(line), colors: true }).info(
    { model: '\u001b[31mred' },
    'loaded',
  );
  t.match(colored[0], /\u001b\[32minfo \u001b\[39m loaded {2}model=" ?\[31mred"|loaded {2}model="\\u001b\[31mred"/);
  const lines: string[] = [];
  const log = createLog({ format: 'text', level: 'warn', write: (line) => lines.push(line) });
  log.info({}, 'quiet');
  log.error({ err: new Error('broken') }, 'failed');
  t.equal(lines.length, 1);
  t.match(lines[0], /error failed\nError: broken\n/);
  log.error(
    { err: new Error('read \u001b]0;owned\u0007\u009b2J'), of: '\u001b[31m' },
    'failed \u001b[2J\nlike another line',
  );
  t.match(
    lines[1],
    /error failed {2}\[2J like another line {2}of=.*\nError: read {2}\]0;owned {2}2J\n/,
    'error messages may contain text sent by a client',
  );
  t.notMatch(lines[1], /(?!\n)\p{Cc}/u, 'the log line contains no terminal control characters');
  t.end();
});

t.test('renamed metrics are also exported under their former names', async (t) => {
  const telemetry = createTelemetry({ format: 'json', level: 'silent' });
  t.teardown(() => telemetry.close());
  telemetry.countersCalled('reserve', 'late', 0.3);
  telemetry.observeCounters(() => ({ state: 'away', processes: 3 }));
  const text = await telemetry.scrape();
  const values = await scrape(telemetry);
  for (const [name, former, value] of [
    ['redis_calls_total{kind="reserve",outcome="late"}', 'counters_calls_total{kind="reserve",outcome="late"}', 1],
    ['redis_call_seconds_sum{kind="reserve"}', 'counters_call_seconds_sum{kind="reserve"}', 0.3],
    ['redis_call_seconds_count{kind="reserve"}', 'counters_call_seconds_count{kind="reserve"}', 1],
    ['redis_call_seconds_bucket{le="0.5",kind="reserve"}', 'counters_call_seconds_bucket{le="0.5",kind="reserve"}', 1],
    ['redis_unavailable', 'counters_away', 1],
    ['redis_processes', 'counters_processes', 3],
  ] as const) {
    t.equal(values.get(`monolith_${name}`), value, name);
    t.equal(values.get(`monolith_${former}`), value, former);
  }
  t.match(
    text,
    /^# HELP monolith_counters_away Deprecated: the former name of monolith_redis_unavailable\. Removed in the next release\.\n# TYPE monolith_counters_away gauge$/m,
  );
  const names = new Set(declaredMetrics().map(({ name }) => name));
  for (const former of ['loop_limit_refused_total', 'request_loop_seconds_total'])
    t.ok(names.has(`monolith_${former}`) && names.has(`monolith_${former.replace('loop', 'event_loop')}`), former);
});

t.test('the metric names that vLLM dashboards read are exported', async (t) => {
  const engine = {
    model: 'm "1"',
    waiting: 2,
    running: 3,
    pagesTotal: 100,
    pagesFree: 40,
    pagesCached: 35,
    kvUsedBytes: 4096,
    lastStepAgeMs: 0,
    promptTokens: 900,
    promptTokensCached: 600,
    preemptions: 1,
    steps: 5,
    prefillTokens: 300,
    decodeTokens: 77,
    draftTokens: 0,
    acceptedTokens: 0,
    cancelledQueued: 0,
    cancelledPrefill: 0,
    cancelledDecode: 0,
  };
  for (const metricNames of ['both', 'monolith', 'vllm'] as const) {
    const telemetry = createTelemetry({ format: 'json', level: 'silent', metricNames });
    t.teardown(() => telemetry.close());
    const adapters = [
      { name: 'a', running: 1, waiting: 0 },
      { name: 'b', running: 2, waiting: 1 },
      { name: 'c', running: 0, waiting: 0 },
    ];
    telemetry.observeEngines(() => [{ ...engine, adapters }]);
    for (const endpoint of ['/v1/chat/completions', '/v1/completions']) {
      const meter = telemetry.generation({ model: 'm "1"', endpoint });
      meter.started({ promptTokens: 40, cachedTokens: 32, queueMs: 20 });
      meter.firstToken(100);
      meter.laterTokens(3, 30);
      meter.prefilled(50);
      meter.choiceFinished({ completionTokens: 4, reason: 'end_of_turn', timings: { decodeMs: 40 } });
      meter.choiceFinished({ completionTokens: 4, reason: 'max_tokens', timings: { decodeMs: 40 } });
      meter.completed(200);
    }
    const values = await scrape(telemetry);
    t.equal(
      [...values.keys()].some((name) => name.startsWith('monolith_')),
      metricNames !== 'vllm',
    );
    const theirs = [...values.keys()].filter((name) => name.startsWith('vllm:'));
    t.equal(theirs.length > 0, metricNames !== 'monolith');
    if (metricNames === 'monolith') continue;
    const of = (name: string, more = ''): number | undefined =>
      values.get(`vllm:${name}{model_name="m \\"1\\"",engine="0"${more}}`);
    // The counts for different endpoints are added up.
    for (const [name, count] of [
      ['time_to_first_token_seconds', 2],
      ['inter_token_latency_seconds', 6],
      ['time_per_output_token_seconds', 6],
      ['e2e_request_latency_seconds', 2],
      ['request_queue_time_seconds', 2],
      ['request_prefill_time_seconds', 2],
      ['request_decode_time_seconds', 4],
      ['request_time_per_output_token_seconds', 4],
      ['request_prompt_tokens', 2],
      ['request_generation_tokens', 4],
      ['request_max_num_generation_tokens', 4],
    ] as const) {
      t.equal(of(`${name}_count`), count, name);
      t.equal(of(`${name}_bucket`, ',le="+Inf"'), count, name);
    }
    t.ok(Math.abs((of('time_to_first_token_seconds_sum') ?? 0) - 0.2) < 1e-9);
    t.equal(of('time_to_first_token_seconds_bucket', ',le="0.05"'), 0);
    t.equal(of('time_to_first_token_seconds_bucket', ',le="0.1"'), 2);
    t.match(
      {
        stop: of('request_success_total', ',finished_reason="stop"'),
        length: of('request_success_total', ',finished_reason="length"'),
      },
      { stop: 2, length: 2 },
    );
    t.match(
      [of('num_requests_running'), of('num_requests_waiting'), of('kv_cache_usage_perc'), of('num_preemptions_total')],
      [3, 2, 0.25, 1],
    );
    t.match(
      [
        of('prefix_cache_queries_total'),
        of('prefix_cache_hits_total'),
        of('prompt_tokens_total'),
        of('generation_tokens_total'),
      ],
      [900, 600, 900, 77],
    );
    const adapterTime = values.get(
      'vllm:lora_requests_info{max_lora="64",waiting_lora_adapters="b",running_lora_adapters="a,b"}',
    );
    t.ok(Math.abs((adapterTime ?? 0) - Date.now() / 1000) < 60, 'the names of adapters are in the labels');
    t.equal(of('cache_config_info', ',block_size="16",num_gpu_blocks="100",enable_prefix_caching="True"'), 1);
  }
});
