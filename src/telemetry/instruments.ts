// Declares every metric once. The labels are model, server, endpoint, kind, outcome, status, code, stage and reason,
// each with a closed set of values, so the number of series is bounded. Times are in seconds, as Prometheus recommends.

import { Counter, Gauge, Registry } from 'prom-client';
import { CounterCounts, HistogramCounts } from './histogram-counts.js';
import type { RequestRecord } from './outcome.js';
import type { SpanCounts } from './traces/span-queue.js';
import type { CountersGauges, EngineGauges } from './types.js';

// Fine below 10 ms for the HTTP server's share of TTFT; up to minutes for prefill on a CPU.
const LATENCY = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Bounds for delays that should be negligible. */
const DELAY = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];
const KINDS: Readonly<Record<string, string>> = { WEBSOCKET: 'websocket', BACKGROUND: 'background' };
const TOKENS = [1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072];

export class Instruments {
  // A separate registry, so that several servers can run in one process.
  readonly registry = new Registry();
  /**
   * Metrics that are the same on every thread, of the engines and the process. Only the thread that serves the scrape
   * reports them.
   */
  readonly common = new Registry();
  private readonly countedHere: { json(): object }[] = []; // not in a registry

  readonly queue = this.histogram(
    'monolith_queue_seconds',
    'Time from submission to the first step, excluding the vision encoder.',
    LATENCY,
  );
  readonly tower = this.histogram(
    'monolith_tower_seconds',
    "Time the vision encoder took for a request's images, for requests with images that were not cached.",
    LATENCY,
  );
  readonly prefill = this.histogram('monolith_prefill_seconds', 'Prefill time of the prompt.', LATENCY);
  readonly decode = this.histogram('monolith_decode_seconds', "Time from a choice's first token to its last.", LATENCY);
  readonly ttft = this.histogram(
    'monolith_time_to_first_token_seconds',
    'Time from receiving a request to its first token.',
    LATENCY,
  );
  readonly itl = this.histogram('monolith_inter_token_seconds', 'Time between tokens of one choice.', LATENCY);
  readonly eventDelay = this.counted(
    new HistogramCounts(
      'monolith_event_delay_seconds',
      'Time from the end of an engine step until its last event was written to a socket.',
      DELAY,
      [],
    ),
  ).of({});
  readonly tpot = this.histogram(
    'monolith_time_per_output_token_seconds',
    'Average time per token of a choice after its first token; one value per choice.',
    LATENCY,
  );
  readonly e2e = this.histogram(
    'monolith_end_to_end_seconds',
    'Time from receiving a request to its last token.',
    LATENCY,
  );
  readonly promptTokens = this.histogram(
    'monolith_prompt_tokens',
    'Prompt tokens of a request, cached ones included.',
    TOKENS,
  );
  readonly cachedTokens = this.histogram(
    'monolith_cached_tokens',
    'Prompt tokens of a request found in the prefix cache.',
    [0, ...TOKENS],
  );
  readonly completionTokens = this.histogram('monolith_completion_tokens', 'Generated tokens of one choice.', TOKENS);

  private readonly outcomes = this.counts(
    'monolith_outcomes_total',
    'Requests, WebSocket turns and background responses by outcome: completed, refused, failed or cancelled, regardless of the HTTP status.',
    ['kind', 'endpoint', 'outcome', 'code'],
  );
  private readonly requests = this.counts(
    'monolith_http_requests_total',
    'HTTP requests and WebSocket turns by HTTP status (0: the client disconnected first) and error code, including errors sent within a stream.',
    ['endpoint', 'status', 'code'],
  );
  private readonly rejects = this.counts(
    'monolith_rejected_total',
    'Requests refused by a limit or for lack of capacity (429, 503), including refusals within a stream.',
    ['endpoint', 'code'],
  );
  readonly finished = this.counts('monolith_choices_finished_total', 'Choices by finish reason.', [
    'model',
    'endpoint',
    'reason',
  ]);
  readonly failures = this.counts('monolith_generation_failures_total', 'Generations that failed after admission.', [
    'model',
    'endpoint',
    'code',
  ]);
  readonly cancels = this.counts('monolith_cancelled_total', 'Generations whose client disconnected, by stage.', [
    'model',
    'endpoint',
    'stage',
  ]);
  readonly loopTime = this.counts(
    'monolith_request_loop_seconds_total',
    'Event-loop time spent reading and validating large requests, by their status and error code.',
    ['endpoint', 'status', 'code'],
  );
  readonly loopRefusals = this.counts(
    'monolith_loop_limit_refused_total',
    'Requests refused before they were read because their organization had used up limits.loop_ms.',
    ['endpoint'],
  );

  private readonly traceSpans = this.counter(
    'monolith_trace_spans_total',
    'Spans of traced requests: accepted by the collector (sent), refused or timed out (failed), discarded because the queue was full (dropped).',
    ['outcome'],
  );

  readonly upstreamRequests = this.counts(
    'monolith_upstream_requests_total',
    'Requests to upstream servers, by outcome.',
    ['model', 'server', 'outcome'],
  );
  readonly upstreamOutstanding = this.counted(
    new CounterCounts(
      'monolith_upstream_outstanding',
      'Requests in flight at upstream servers.',
      ['model', 'server'],
      'gauge',
    ),
  );

  private readonly counterCalls = this.counts(
    'monolith_counters_calls_total',
    'Calls to Redis: answered, late (not within counters.timeout_ms) or failed.',
    ['kind', 'outcome'],
  );
  private readonly counterSeconds = this.counted(
    new HistogramCounts('monolith_counters_call_seconds', 'Duration of calls to Redis.', DELAY, ['kind']),
  );
  private countersAway: Gauge | null = null;
  private countersProcesses: Gauge | null = null;

  private readonly loopLag = new Gauge({
    name: 'monolith_event_loop_lag_seconds',
    help: "Event-loop delay since the last scrape, 99th percentile; the slowest thread's.",
    registers: [this.registry],
    aggregator: 'max',
  });

  private readonly waiting = this.gauge('monolith_requests_waiting', 'Requests in the queue.', ['model']);
  private readonly running = this.gauge('monolith_sequences_running', 'Sequences that hold pages.', ['model']);
  private readonly pages = this.gauge(
    'monolith_kv_pages',
    'KV pages: total, free, cached (unreferenced but reusable).',
    ['model', 'state'],
  );
  private readonly kvUsed = this.gauge(
    'monolith_kv_used_bytes',
    'Memory of KV pages that were used at least once; allocated on first use on a CPU, at load time on a GPU.',
    ['model'],
  );
  private readonly stepAge = this.gauge(
    'monolith_last_step_age_seconds',
    'Time since the last step ended; 0 when idle.',
    ['model'],
  );
  private readonly rss = this.gauge('process_resident_memory_bytes', 'Resident memory of the process.', []);
  private readonly uptime = this.gauge('process_uptime_seconds', 'Time since the process started.', []);
  private readonly preemptions = this.counter(
    'monolith_preemptions_total',
    'Sequences that were preempted and recomputed.',
    ['model'],
    this.common,
  );
  private readonly steps = this.counter('monolith_steps_total', 'Engine steps.', ['model'], this.common);
  private readonly stepTokens = this.counter(
    'monolith_step_tokens_total',
    'Tokens computed, by phase.',
    ['model', 'phase'],
    this.common,
  );
  private readonly guesses = this.counter(
    'monolith_guessed_tokens_total',
    'Draft tokens, by whether they were accepted (right) or rejected (wrong).',
    ['model', 'outcome'],
    this.common,
  );
  private readonly engineCancels = this.counter(
    'monolith_engine_cancelled_total',
    'Requests the engine cancelled, by stage.',
    ['model', 'stage'],
    this.common,
  );

  /** This thread's metrics, as JSON. */
  async own(): Promise<object[]> {
    return [...(await this.registry.getMetricsAsJSON()), ...this.countedHere.map((one) => one.json())];
  }

  /** Copies counts that are kept elsewhere. Call before each scrape. */
  collect(engines: readonly EngineGauges[]): void {
    for (const engine of engines) {
      const { model } = engine;
      this.waiting.set({ model }, engine.waiting);
      this.running.set({ model }, engine.running);
      this.pages.set({ model, state: 'total' }, engine.pagesTotal);
      this.pages.set({ model, state: 'free' }, engine.pagesFree);
      this.pages.set({ model, state: 'cached' }, engine.pagesCached);
      this.kvUsed.set({ model }, engine.kvUsedBytes);
      this.stepAge.set({ model }, engine.lastStepAgeMs / 1000);
      advance(this.preemptions, { model }, engine.preemptions);
      advance(this.steps, { model }, engine.steps);
      advance(this.stepTokens, { model, phase: 'prefill' }, engine.prefillTokens);
      advance(this.stepTokens, { model, phase: 'decode' }, engine.decodeTokens);
      advance(this.guesses, { model, outcome: 'right' }, engine.guessedRight);
      advance(this.guesses, { model, outcome: 'wrong' }, engine.guessedTokens - engine.guessedRight);
      advance(this.engineCancels, { model, stage: 'queue' }, engine.cancelledQueued);
      advance(this.engineCancels, { model, stage: 'prefill' }, engine.cancelledPrefill);
      advance(this.engineCancels, { model, stage: 'decode' }, engine.cancelledDecode);
    }
    this.rss.set(process.memoryUsage.rss());
    this.uptime.set(process.uptime());
  }

  ended({ method, path: endpoint, status, failure, outcome }: RequestRecord): void {
    const code = failure?.code ?? '';
    this.outcomes.inc({ kind: KINDS[method] ?? 'http', endpoint, outcome, code });
    if (method !== 'BACKGROUND') this.requests.inc({ endpoint, status: String(status), code });
    if (outcome === 'refused' && (failure?.status === 429 || failure?.status === 503))
      this.rejects.inc({ endpoint, code });
  }

  countersCalled(kind: string, outcome: string, seconds: number): void {
    this.counterCalls.inc({ kind, outcome });
    this.counterSeconds.observe({ kind }, seconds);
  }

  /** Null: Redis is not used, and these metrics are not created. */
  counters(gauges: CountersGauges | null): void {
    if (gauges === null) return;
    this.countersAway ??= new Gauge({
      name: 'monolith_counters_away',
      help: '1 while Redis is unreachable from at least one thread.',
      registers: [this.registry],
      aggregator: 'max',
    });
    this.countersProcesses ??= new Gauge({
      name: 'monolith_counters_processes',
      help: 'Number of processes that share the limits, as last seen.',
      registers: [this.registry],
      aggregator: 'max',
    });
    this.countersAway.set(gauges.state === 'away' ? 1 : 0);
    this.countersProcesses.set(gauges.processes);
  }

  spans(counts: SpanCounts): void {
    for (const [outcome, count] of Object.entries(counts) as [string, number][])
      advance(this.traceSpans, { outcome }, count);
  }

  lag(ms: number): void {
    this.loopLag.set(ms / 1000);
  }

  private histogram(name: string, help: string, buckets: readonly number[]): HistogramCounts<'model' | 'endpoint'> {
    return this.counted(new HistogramCounts(name, help, buckets, ['model', 'endpoint']));
  }

  /** A counter that requests update. */
  private counts<const L extends string>(name: string, help: string, labelNames: readonly L[]): CounterCounts<L> {
    return this.counted(new CounterCounts(name, help, labelNames));
  }

  private counted<T extends { json(): object }>(one: T): T {
    this.countedHere.push(one);
    return one;
  }

  private counter<const L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    registry = this.registry,
  ): Counter<L> {
    return new Counter<L>({ name, help, labelNames: [...labelNames], registers: [registry] });
  }

  private gauge<const L extends string>(name: string, help: string, labelNames: readonly L[]): Gauge<L> {
    return new Gauge<L>({ name, help, labelNames: [...labelNames], registers: [this.common] });
  }
}

// The engine keeps the count; the counter here only reports its total.
function advance<L extends string>(counter: Counter<L>, labels: Record<L, string>, total: number): void {
  counter.remove(labels);
  counter.inc(labels, total);
}
