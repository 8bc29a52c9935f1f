// Declares every metric. docs/reference/metrics.md is generated from these declarations. All label values come from
// closed sets, so the number of series is bounded. Times are in seconds, as is customary in Prometheus.

import { Counter, Gauge, Registry } from 'prom-client';
import { CounterCounts, HistogramCounts } from './histogram-counts.js';
import type { MetricDeclaration } from './histogram-counts.js';
import type { RequestRecord } from './outcome.js';
import { formerDeclarations, underFormerNames } from './renamed-metrics.js';
import type { MetricJson } from './renamed-metrics.js';
import type { SpanCounts } from './traces/span-queue.js';
import type { CountersGauges, EngineGauges, PageTierTotals } from './types.js';

// Buckets for latencies: fine-grained below 10 ms, for the HTTP server's share of TTFT, and up to minutes, for prefill
// on a CPU.
const LATENCY = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Buckets for delays that should be negligible. */
const DELAY = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];
const KINDS: Readonly<Record<string, string>> = { WEBSOCKET: 'websocket', BACKGROUND: 'background' };
const TOKENS = [1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072];

interface Counted {
  readonly declaration: MetricDeclaration;
  json(): object;
}

/** A prom-client metric, including the fields missing from its type declaration. */
interface Registered {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

export class Instruments {
  // Not prom-client's global registry, so that several servers can run in one process.
  readonly registry = new Registry();
  /** Process-wide metrics (engines, process), which have the same value on every thread. Exported once per scrape. */
  readonly common = new Registry();
  private readonly countedHere: Counted[] = []; // not in a registry

  readonly queue = this.histogram(
    'monolith_queue_seconds',
    'Time from submission to the first engine step, excluding vision encoder time.',
    LATENCY,
  );
  readonly visionEncoder = this.histogram(
    'monolith_tower_seconds',
    'Vision encoder time per request, for requests with uncached images.',
    LATENCY,
  );
  readonly prefill = this.histogram('monolith_prefill_seconds', 'Prefill time of a request.', LATENCY);
  readonly decode = this.histogram(
    'monolith_decode_seconds',
    'Time from the first to the last token of a choice.',
    LATENCY,
  );
  readonly ttft = this.histogram(
    'monolith_time_to_first_token_seconds',
    "Time from a request's arrival to its first token.",
    LATENCY,
  );
  readonly itl = this.histogram(
    'monolith_inter_token_seconds',
    'Inter-token latency: time between consecutive tokens of a choice.',
    LATENCY,
  );
  readonly eventDelay = this.counted(
    new HistogramCounts(
      'monolith_event_delay_seconds',
      'Time from the end of an engine step until the last of its events has been written to the sockets.',
      DELAY,
      [],
    ),
  ).of({});
  readonly tpot = this.histogram(
    'monolith_time_per_output_token_seconds',
    'Average time per token after the first; one observation per choice.',
    LATENCY,
  );
  readonly e2e = this.histogram(
    'monolith_end_to_end_seconds',
    'Time from the arrival of a request to its last token.',
    LATENCY,
  );
  readonly promptTokens = this.histogram(
    'monolith_prompt_tokens',
    'Prompt tokens per request, including cached tokens.',
    TOKENS,
  );
  readonly cachedTokens = this.histogram(
    'monolith_cached_tokens',
    'Prompt tokens per request that were found in the prefix cache.',
    [0, ...TOKENS],
  );
  readonly completionTokens = this.histogram('monolith_completion_tokens', 'Generated tokens per choice.', TOKENS);

  private readonly outcomes = this.counts(
    'monolith_outcomes_total',
    'HTTP requests, WebSocket requests and background responses by outcome (completed, refused, failed, cancelled), regardless of the HTTP status.',
    ['kind', 'endpoint', 'outcome', 'code'],
  );
  private readonly requests = this.counts(
    'monolith_http_requests_total',
    'HTTP, WebSocket and batch requests by status (0 = the client disconnected first) and error code, including errors sent inside a stream.',
    ['endpoint', 'status', 'code'],
  );
  private readonly rejects = this.counts(
    'monolith_rejected_total',
    'Requests refused because a limit was reached (429) or capacity was exhausted (503), including refusals inside a stream.',
    ['endpoint', 'code'],
  );
  readonly finished = this.counts('monolith_choices_finished_total', 'Choices by finish reason.', [
    'model',
    'endpoint',
    'reason',
  ]);
  readonly failures = this.counts(
    'monolith_generation_failures_total',
    'Generations that failed after admission, by error code.',
    ['model', 'endpoint', 'code'],
  );
  readonly cancels = this.counts(
    'monolith_cancelled_total',
    'Generations cancelled because the client disconnected, by stage.',
    ['model', 'endpoint', 'stage'],
  );
  readonly loopTime = this.counts(
    'monolith_request_event_loop_seconds_total',
    'Event-loop time spent reading and validating large requests.',
    ['endpoint', 'status', 'code'],
  );
  readonly loopRefusals = this.counts(
    'monolith_event_loop_limit_refused_total',
    'Requests refused before their body was read, because the organization had used up limits.event_loop_ms.',
    ['endpoint'],
  );

  private readonly traceSpans = this.counter(
    'monolith_trace_spans_total',
    'Trace spans by outcome: sent (accepted by the collector), failed (rejected or no response), dropped (queue full).',
    ['outcome'],
  );

  private readonly logLinesDropped = this.counter(
    'monolith_log_lines_dropped_total',
    'Log lines that were not written because standard error was not read fast enough or was closed.',
    [],
  );

  readonly upstreamRequests = this.counts(
    'monolith_upstream_requests_total',
    'Requests to upstream servers, including retries, by outcome.',
    ['model', 'server', 'outcome'],
  );
  readonly upstreamOutstanding = this.counted(
    new CounterCounts(
      'monolith_upstream_outstanding',
      'Unfinished requests to upstream servers.',
      ['model', 'server'],
      'gauge',
    ),
  );

  private readonly webSearches = this.counts(
    'monolith_web_searches_total',
    'Web searches that the server ran, by outcome: completed, or the reason for the failure.',
    ['outcome'],
  );
  private readonly webSearchSeconds = this.counted(
    new HistogramCounts('monolith_web_search_seconds', 'Duration of web searches.', LATENCY, ['outcome']),
  );

  private readonly mcpCalls = this.counts(
    'monolith_mcp_calls_total',
    'Tool calls on MCP servers by outcome: completed, tool_error, http_error or protocol_error.',
    ['outcome'],
  );
  private readonly mcpCallSeconds = this.counted(
    new HistogramCounts('monolith_mcp_call_seconds', 'Duration of tool calls on MCP servers.', LATENCY, ['outcome']),
  );

  private readonly batchRequests = new Gauge({
    name: 'monolith_batch_requests',
    help: 'Batch requests that are running or waiting, across all processes that share the database.',
    labelNames: ['state'] as const,
    registers: [this.registry],
    aggregator: 'max',
  });
  private readonly alertIncidents = new Gauge({
    name: 'monolith_alert_incidents',
    help: 'Active alert incidents by kind. All processes of a service report the same number.',
    labelNames: ['kind'],
    registers: [this.registry],
    aggregator: 'max',
  });
  private readonly alertDeliveries = this.counts(
    'monolith_alert_deliveries_total',
    'Attempts to deliver an alert by kind of destination and outcome: delivered, retried (will be tried again), failed (given up).',
    ['destination', 'outcome'],
  );

  private readonly webhookDeliveries = this.counts(
    'monolith_webhook_deliveries_total',
    'Attempts to send an event to a webhook endpoint by outcome: delivered, retried (will be tried again), failed (given up).',
    ['outcome'],
  );

  private readonly redisCalls = this.counts(
    'monolith_redis_calls_total',
    'Redis calls for shared limits by outcome: answered, late (redis.timeout_ms exceeded) or failed.',
    ['kind', 'outcome'],
  );
  private readonly redisSeconds = this.counted(
    new HistogramCounts('monolith_redis_call_seconds', 'Duration of Redis calls for shared limits.', DELAY, ['kind']),
  );
  private redisUnavailable: Gauge | null = null;
  private lastBackup: Gauge | null = null;
  private redisProcesses: Gauge | null = null;

  private readonly loopLag = new Gauge({
    name: 'monolith_event_loop_lag_seconds',
    help: '99th percentile of the event-loop delay since the last scrape; with several HTTP workers, the value of the slowest one.',
    registers: [this.registry],
    aggregator: 'max',
  });

  private readonly waiting = this.gauge('monolith_requests_waiting', 'Queued requests.', ['model']);
  private readonly running = this.gauge(
    'monolith_sequences_running',
    'Running sequences (sequences that hold KV pages).',
    ['model'],
  );
  private readonly pages = this.gauge(
    'monolith_kv_pages',
    'KV cache pages by state: total, free, cached (not in use, reusable for a matching prefix).',
    ['model', 'state'],
  );
  private readonly kvUsed = this.gauge(
    'monolith_kv_used_bytes',
    'Memory of the KV pages that have been used at least once. The CPU backend allocates pages on first use, the GPU backend at load.',
    ['model'],
  );
  private readonly stepAge = this.gauge(
    'monolith_last_step_age_seconds',
    'Time since the end of the last engine step; 0 when idle.',
    ['model'],
  );
  private readonly rss = this.gauge('process_resident_memory_bytes', 'Resident memory of the process, in bytes.', []);
  private readonly uptime = this.gauge('process_uptime_seconds', 'Time since the process started.', []);
  private readonly preemptions = this.counter(
    'monolith_preemptions_total',
    "Preemptions: a sequence's pages were freed, and their contents recomputed later.",
    ['model'],
    this.common,
  );
  private readonly steps = this.counter('monolith_steps_total', 'Engine steps.', ['model'], this.common);
  private readonly stepTokens = this.counter(
    'monolith_step_tokens_total',
    'Tokens computed, by phase (prefill, decode).',
    ['model', 'phase'],
    this.common,
  );
  private readonly guesses = this.counter(
    'monolith_guessed_tokens_total',
    'Draft tokens in speculative decoding, by outcome: right (accepted) or wrong (rejected).',
    ['model', 'outcome'],
    this.common,
  );
  private readonly engineCancels = this.counter(
    'monolith_engine_cancelled_total',
    'Requests cancelled in the engine, by stage.',
    ['model', 'stage'],
    this.common,
  );

  private readonly tierPages = this.counter(
    'monolith_kv_disk_pages_total',
    'KV cache pages on disk by event: written, read, evicted, erased, skipped (not written: backlog full, evicted from memory first, or no space), or dropped because they were corrupt, unreadable or interrupted.',
    ['event'],
  );
  private readonly tierBytes = this.counter(
    'monolith_kv_disk_bytes_total',
    'Bytes of KV cache pages written to disk and read from it.',
    ['direction'],
  );
  private readonly tierLookups = this.counter(
    'monolith_kv_disk_lookups_total',
    'Prompts looked up in the KV cache on disk, by outcome: hit or miss. Prompts that are in memory or too short do not count.',
    ['outcome'],
  );
  private readonly tierTokens = this.counter(
    'monolith_kv_disk_tokens_total',
    'Prompt tokens whose KV cache pages were read from disk instead of computed.',
    [],
  );
  private readonly tierSaved = this.counter(
    'monolith_kv_disk_saved_seconds_total',
    'Estimated prefill time that pages from disk saved.',
    [],
  );
  private readonly tierPrompts = this.counter(
    'monolith_prompt_cache_tokens_total',
    'Prompt tokens of started requests by source of their KV pages: memory, disk, or computed. Only with kv.disk.',
    ['model', 'source'],
  );
  private readonly tierUsed = new Gauge({
    name: 'monolith_kv_disk_used_bytes',
    help: 'Size of the files with KV cache pages.',
    registers: [this.registry],
  });

  /** This thread's metrics as JSON, with renamed metrics also under their former names. */
  async own(): Promise<object[]> {
    const metrics = [...(await this.registry.getMetricsAsJSON()), ...this.countedHere.map((one) => one.json())];
    return [...metrics, ...underFormerNames(metrics as MetricJson[])];
  }

  /** Copies values that the engines and the process maintain. Called before each scrape. */
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
      advance(this.guesses, { model, outcome: 'right' }, engine.acceptedTokens);
      advance(this.guesses, { model, outcome: 'wrong' }, engine.draftTokens - engine.acceptedTokens);
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
    this.redisCalls.inc({ kind, outcome });
    this.redisSeconds.observe({ kind }, seconds);
  }

  searched(outcome: string, seconds: number): void {
    this.webSearches.inc({ outcome });
    this.webSearchSeconds.observe({ outcome }, seconds);
  }

  mcpCalled(outcome: string, seconds: number): void {
    this.mcpCalls.inc({ outcome });
    this.mcpCallSeconds.observe({ outcome }, seconds);
  }

  /** Null if Redis is not configured, in which case its metrics are not exported. */
  counters(gauges: CountersGauges | null): void {
    if (gauges === null) return;
    this.redisUnavailable ??= new Gauge({
      name: 'monolith_redis_unavailable',
      help: '1 while Redis is unreachable from at least one HTTP worker. Only with redis.url.',
      registers: [this.registry],
      aggregator: 'max',
    });
    this.redisProcesses ??= new Gauge({
      name: 'monolith_redis_processes',
      help: 'Number of processes that shared the limits at the last contact with Redis. Only with redis.url.',
      registers: [this.registry],
      aggregator: 'max',
    });
    this.redisUnavailable.set(gauges.state === 'away' ? 1 : 0);
    this.redisProcesses.set(gauges.processes);
  }

  batchLines({ running, waiting }: { running: number; waiting: number }): void {
    this.batchRequests.set({ state: 'running' }, running);
    this.batchRequests.set({ state: 'waiting' }, waiting);
  }

  alerting(active: Readonly<Record<string, number>>): void {
    for (const [kind, count] of Object.entries(active)) this.alertIncidents.set({ kind }, count);
    // Exported from the start, because Prometheus does not detect an increase in a series that starts at 1.
    for (const destination of ['mail', 'webhook', 'slack'])
      for (const outcome of ['delivered', 'retried', 'failed']) this.alertDeliveries.of({ destination, outcome });
  }

  alertDelivered(destination: string, outcome: string): void {
    this.alertDeliveries.inc({ destination, outcome });
  }

  webhookDelivered(outcome: string): void {
    this.webhookDeliveries.inc({ outcome });
  }

  pageTier(totals: PageTierTotals): void {
    const { pages, readBytes, writtenBytes, hits, misses, tokens, savedSeconds, usedBytes, models } = totals;
    for (const [event, count] of Object.entries(pages)) advance(this.tierPages, { event }, count);
    advance(this.tierBytes, { direction: 'read' }, readBytes);
    advance(this.tierBytes, { direction: 'written' }, writtenBytes);
    advance(this.tierLookups, { outcome: 'hit' }, hits);
    advance(this.tierLookups, { outcome: 'miss' }, misses);
    advance(this.tierTokens, {}, tokens);
    advance(this.tierSaved, {}, savedSeconds);
    this.tierUsed.set(usedBytes);
    for (const [model, { prompt, memory, disk }] of models) {
      advance(this.tierPrompts, { model, source: 'memory' }, memory);
      advance(this.tierPrompts, { model, source: 'disk' }, disk);
      advance(this.tierPrompts, { model, source: 'computed' }, prompt - memory - disk);
    }
  }

  backedUp(at: number): void {
    this.lastBackup ??= new Gauge({
      name: 'monolith_last_backup_timestamp_seconds',
      help: 'Unix time of the latest backup. Only with backups.folder.',
      registers: [this.registry],
      aggregator: 'max',
    });
    this.lastBackup.set(at);
  }

  spans(counts: SpanCounts): void {
    for (const [outcome, count] of Object.entries(counts) as [string, number][])
      advance(this.traceSpans, { outcome }, count);
  }

  droppedLogLines(count: number): void {
    advance(this.logLinesDropped, {}, count);
  }

  /** Sorted by name. */
  declared(): MetricDeclaration[] {
    const registered = [this.registry, this.common].flatMap((registry) =>
      (registry.getMetricsAsArray() as unknown as (Registered & object)[]).map(
        (metric): MetricDeclaration => ({
          name: metric.name,
          help: metric.help,
          type: metric instanceof Counter ? 'counter' : 'gauge',
          labels: metric.labelNames,
        }),
      ),
    );
    const all = [...this.countedHere.map(({ declaration }) => declaration), ...registered];
    return [...all, ...formerDeclarations(all)].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  lag(ms: number): void {
    this.loopLag.set(ms / 1000);
  }

  private histogram(name: string, help: string, buckets: readonly number[]): HistogramCounts<'model' | 'endpoint'> {
    return this.counted(new HistogramCounts(name, help, buckets, ['model', 'endpoint']));
  }

  /** A counter that requests increment. */
  private counts<const L extends string>(name: string, help: string, labelNames: readonly L[]): CounterCounts<L> {
    return this.counted(new CounterCounts(name, help, labelNames));
  }

  private counted<T extends Counted>(one: T): T {
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

/** Every metric under its own name, sorted by name, for docs/reference/metrics.md. */
export function declaredMetrics(): MetricDeclaration[] {
  const instruments = new Instruments();
  instruments.counters({ state: 'shared', processes: 1 }); // declares the metrics that exist only with Redis
  instruments.backedUp(0); // and the one that exists only with backups
  return instruments.declared();
}

// The engine maintains the total, which the counter only exports.
function advance<L extends string>(counter: Counter<L>, labels: Record<L, string>, total: number): void {
  counter.remove(labels);
  counter.inc(labels, total);
}
