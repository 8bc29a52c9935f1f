// Every metric, declared once. Labels are model, server, endpoint, kind, outcome, status, code, stage and reason only, all from
// closed sets, so the number of series is bounded. Times are in seconds, as Prometheus wants them.

import { Counter, Gauge, Registry } from 'prom-client';
import { CounterCounts, HistogramCounts } from './histogram-counts.js';
import type { RequestRecord } from './outcome.js';
import type { SpanCounts } from './traces/span-queue.js';
import type { CountersGauges, EngineGauges } from './types.js';

// Fine below 10 ms because HTTP's own share of TTFT is there, long at the end for prefill on a CPU.
const LATENCY = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Of what should not be seen at all. */
const DELAY = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];
const KINDS: Readonly<Record<string, string>> = { WEBSOCKET: 'websocket', BACKGROUND: 'background' };
const TOKENS = [1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072];

export class Instruments {
  // A registry of its own, so that several servers can live in one process.
  readonly registry = new Registry();
  /** Metrics that are the same on every thread: of the engines, of the process. Only the thread that is asked tells them. */
  readonly common = new Registry();
  private readonly countedHere: { json(): object }[] = []; // not in a registry

  readonly queue = this.histogram(
    'monolith_queue_seconds',
    'Time from submission to the first step, without what the vision tower computed for it.',
    LATENCY,
  );
  readonly tower = this.histogram(
    'monolith_tower_seconds',
    "Time the vision tower computed a request's images, of requests with images that had not been seen.",
    LATENCY,
  );
  readonly prefill = this.histogram('monolith_prefill_seconds', 'Time the prompt took to compute.', LATENCY);
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
      "Time from a step's end in the engine until the last of its events was written to the sockets.",
      DELAY,
      [],
    ),
  ).of({});
  readonly tpot = this.histogram(
    'monolith_time_per_output_token_seconds',
    'Time a choice took for each token behind its first, on average: counted once a choice.',
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
    'How requests, turns of WebSockets and background responses ended: completed, refused, failed or cancelled, whatever status they began with.',
    ['kind', 'endpoint', 'outcome', 'code'],
  );
  private readonly requests = this.counts(
    'monolith_http_requests_total',
    'HTTP requests and turns of WebSockets by the status they were answered with (0: the client left before) and the code of the error they were told, then or later.',
    ['endpoint', 'status', 'code'],
  );
  private readonly rejects = this.counts(
    'monolith_rejected_total',
    'Requests refused for want of room or by a limit (429, 503), also within a stream.',
    ['endpoint', 'code'],
  );
  readonly finished = this.counts('monolith_choices_finished_total', 'Choices by the reason they ended.', [
    'model',
    'endpoint',
    'reason',
  ]);
  readonly failures = this.counts('monolith_generation_failures_total', 'Generations that failed after admission.', [
    'model',
    'endpoint',
    'code',
  ]);
  readonly cancels = this.counts(
    'monolith_cancelled_total',
    'Generations whose client went away, by how far they were.',
    ['model', 'endpoint', 'stage'],
  );
  readonly loopTime = this.counts(
    'monolith_request_loop_seconds_total',
    'Time that reading and checking large requests took of the threads that answer, by what became of them.',
    ['endpoint', 'status', 'code'],
  );
  readonly loopRefusals = this.counts(
    'monolith_loop_limit_refused_total',
    'Requests refused unread because their organization had used up limits.loop_ms.',
    ['endpoint'],
  );

  private readonly traceSpans = this.counter(
    'monolith_trace_spans_total',
    'Spans of recorded requests: taken by the collector (sent), refused or not answered by it (failed), left out because too many wait (dropped).',
    ['outcome'],
  );

  readonly upstreamRequests = this.counts(
    'monolith_upstream_requests_total',
    'Attempts at servers that models run on elsewhere, by how they ended.',
    ['model', 'server', 'outcome'],
  );
  readonly upstreamOutstanding = this.counted(
    new CounterCounts(
      'monolith_upstream_outstanding',
      'Requests under way at servers that models run on elsewhere.',
      ['model', 'server'],
      'gauge',
    ),
  );

  private readonly counterCalls = this.counts(
    'monolith_counters_calls_total',
    'Calls to the counters that processes share: answered, late (not within counters.timeout_ms) or failed.',
    ['kind', 'outcome'],
  );
  private readonly counterSeconds = this.counted(
    new HistogramCounts('monolith_counters_call_seconds', 'Time of these calls.', DELAY, ['kind']),
  );
  private countersAway: Gauge | null = null;
  private countersProcesses: Gauge | null = null;

  private readonly loopLag = new Gauge({
    name: 'monolith_event_loop_lag_seconds',
    help: "Event-loop delay since the last scrape, 99th percentile; of several threads, the slowest one's.",
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
    'Memory of KV pages that were ever used; a processor takes it as pages are first used, a GPU when the model is loaded.',
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
    'Sequences that gave their pages up and recomputed.',
    ['model'],
    this.common,
  );
  private readonly steps = this.counter('monolith_steps_total', 'Steps of the engine.', ['model'], this.common);
  private readonly stepTokens = this.counter(
    'monolith_step_tokens_total',
    'Tokens computed, by phase.',
    ['model', 'phase'],
    this.common,
  );
  private readonly guesses = this.counter(
    'monolith_guessed_tokens_total',
    'Tokens computed beside the next ones on a guess, by what became of them.',
    ['model', 'outcome'],
    this.common,
  );
  private readonly engineCancels = this.counter(
    'monolith_engine_cancelled_total',
    'Requests the engine cancelled, by stage.',
    ['model', 'stage'],
    this.common,
  );

  /** Of this thread alone, as JSON. */
  async own(): Promise<object[]> {
    return [...(await this.registry.getMetricsAsJSON()), ...this.countedHere.map((one) => one.json())];
  }

  /** Copies counts that are kept elsewhere; before each scrape. */
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

  /** Null: there are none, and no metric of them. */
  counters(gauges: CountersGauges | null): void {
    if (gauges === null) return;
    this.countersAway ??= new Gauge({
      name: 'monolith_counters_away',
      help: '1 while the counters that processes share cannot be reached; of several threads, if one cannot.',
      registers: [this.registry],
      aggregator: 'max',
    });
    this.countersProcesses ??= new Gauge({
      name: 'monolith_counters_processes',
      help: 'Processes that share the counters, as last seen.',
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

  /** For what requests count. */
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

// The engine counts on its own; a counter here only shows its total.
function advance<L extends string>(counter: Counter<L>, labels: Record<L, string>, total: number): void {
  counter.remove(labels);
  counter.inc(labels, total);
}
