// Metrics, traces and the request log of one server. Event-loop thread only.

import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { IntervalHistogram } from 'node:perf_hooks';
import { AggregatorRegistry } from 'prom-client';
import { Instruments } from './instruments.js';
import { createLog } from './logger.js';
import type { LeveledLog, LogOptions } from './logger.js';
import { LiveCounts } from './live-counts.js';
import { Meter } from './meter.js';
import { LocalBus } from '../shared/bus.js';
import type { ThreadBus } from '../shared/bus.js';
import { bounded, ENTRY_TEXT } from '../shared/request-entry.js';
import type { Failure, RequestRecord } from './outcome.js';
import { vllmMetrics } from './vllm-names.js';
import type { TraceSettings } from './traces/packages.js';
import { openTracing } from './traces/tracing.js';
import type { Tracing } from './traces/tracing.js';
import type { RequestTrace, TracedRequest } from './request-trace.js';
import type {
  CountersGauges,
  EngineGauges,
  PageTierTotals,
  GenerationLabels,
  GenerationMeter,
  Telemetry,
  UpstreamMeter,
} from './types.js';

// The delay histogram samples a timer with this period, in ms; any excess over the period is event-loop lag.
const LOOP_RESOLUTION_MS = 10;

/** Which metric names /metrics exports: Monolith's, vLLM's, or both (the default). */
export interface MetricOptions {
  readonly metricNames?: 'both' | 'monolith' | 'vllm';
}
/** If absent, no traces are recorded. */
export interface TraceOptions {
  readonly traces?: TraceSettings;
}

export function createTelemetry(options: LogOptions & MetricOptions & TraceOptions): Telemetry {
  return new ServerTelemetry(createLog(options), options);
}

class ServerTelemetry implements Telemetry {
  readonly live = new LiveCounts();
  private readonly instruments = new Instruments();
  private readonly loopDelay: IntervalHistogram = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  private readEngines: () => EngineGauges[] = () => [];
  private readCounters: () => CountersGauges | null = () => null;
  private readonly tracing: Tracing | null;
  private bus: ThreadBus = new LocalBus();

  constructor(
    readonly log: LeveledLog,
    private readonly options: MetricOptions & TraceOptions & Pick<LogOptions, 'thread'>,
  ) {
    this.loopDelay.enable();
    this.tracing = openTracing(options.traces, log, options.thread);
  }

  trace(request: TracedRequest): RequestTrace | null {
    return this.tracing === null ? null : this.tracing.begin(request);
  }

  generation(labels: GenerationLabels): GenerationMeter {
    return new Meter(labels, this.instruments, this.live);
  }

  delivered(delayMs: number): void {
    this.instruments.eventDelay.observe(delayMs / 1000);
  }

  request(record: RequestRecord): void {
    const { path: endpoint, status, failure, outcome } = record;
    this.live.request(record);
    this.instruments.ended(record);
    record.trace?.end(record);
    // Successful probes and scrapes arrive every few seconds, so they are logged only at debug level.
    const routine = status === 200 && failure === null && (endpoint === '/metrics' || !endpoint.startsWith('/v1'));
    const level = routine ? 'debug' : outcome === 'failed' || (failure?.status ?? status) >= 500 ? 'warn' : 'info';
    if (this.log.writes(level)) this.log[level](lineOf(record), 'request');
    if (record.loopMs !== undefined)
      this.instruments.loopTime.inc(
        { endpoint, status: String(status), code: failure?.code ?? '' },
        record.loopMs / 1000,
      );
    if (record.fields['refused_by'] === 'loop_ms') this.instruments.loopRefusals.inc({ endpoint });
  }

  upstream({ model, server }: { model: string; server: string }): UpstreamMeter {
    const { upstreamRequests } = this.instruments;
    const outstanding = this.instruments.upstreamOutstanding.of({ model, server });
    return {
      asked: () => {
        outstanding.total++;
      },
      over: (outcome) => {
        outstanding.total--;
        upstreamRequests.inc({ model, server, outcome });
      },
    };
  }

  countersCalled(call: string, outcome: 'answered' | 'late' | 'failed', seconds: number): void {
    this.instruments.countersCalled(call, outcome, seconds);
  }

  batchLines(counts: { running: number; waiting: number }): void {
    this.instruments.batchLines(counts);
  }

  alerting(active: Readonly<Record<string, number>>): void {
    this.instruments.alerting(active);
  }

  alertDelivered(destination: string, outcome: string): void {
    this.instruments.alertDelivered(destination, outcome);
  }

  webhookDelivered(outcome: string): void {
    this.instruments.webhookDelivered(outcome);
  }

  pageTier(totals: PageTierTotals): void {
    this.instruments.pageTier(totals);
  }

  backedUp(at: number): void {
    this.instruments.backedUp(at);
  }

  searched(outcome: string, seconds: number): void {
    this.instruments.searched(outcome, seconds);
  }

  mcpCalled(outcome: string, seconds: number): void {
    this.instruments.mcpCalled(outcome, seconds);
  }

  observeCounters(read: () => CountersGauges | null): void {
    this.readCounters = read;
  }

  observeEngines(read: () => EngineGauges[]): void {
    this.readEngines = read;
  }

  async scrape(): Promise<string> {
    const others = this.bus.ask('metrics.collect', {});
    this.instruments.collect(this.readEngines());
    const threads = [await this.collect(), ...((await others) as object[])];
    const sums = AggregatorRegistry.aggregate(threads as [object]);
    const ours =
      this.options.metricNames === 'vllm' ? '' : (await sums.metrics()) + (await this.instruments.common.metrics());
    if (this.options.metricNames === 'monolith') return ours;
    return ours + vllmMetrics(await sums.getMetricsAsJSON(), this.readEngines());
  }

  shareWith(bus: ThreadBus): void {
    this.bus = bus;
    bus.on('metrics.collect', () => this.collect());
  }

  /** This thread's metrics, as JSON. */
  private async collect(): Promise<object> {
    this.instruments.lag(this.loopLagMs());
    this.loopDelay.reset();
    this.instruments.counters(this.readCounters());
    this.instruments.droppedLogLines(this.log.dropped());
    if (this.tracing !== null) this.instruments.spans(this.tracing.counts);
    return this.instruments.own();
  }

  loopLagMs(): number {
    const delay = this.loopDelay.percentile(99) / 1e6;
    return Number.isFinite(delay) ? Math.max(0, delay - LOOP_RESOLUTION_MS) : 0;
  }

  async close(): Promise<void> {
    this.loopDelay.disable();
    this.live.close();
    await this.tracing?.close();
  }
}

/** The fields of the request's log line. */
function lineOf({
  requestId,
  clientRequestId,
  method,
  path,
  url,
  client,
  status,
  outcome,
  failure,
  organizationId,
  keyId,
  durationMs,
  aborted,
  fields,
  trace,
  loopMs,
}: RequestRecord): object {
  return {
    request_id: requestId,
    client_request_id: clientRequestId,
    method,
    path,
    status,
    outcome,
    code: failure?.code ?? null,
    ...(failure === null ? {} : failureFields(failure, url, client)),
    organization: organizationId,
    key: keyId,
    ms: durationMs,
    ...(aborted ? { aborted: true } : {}),
    ...logged(fields),
    ...(trace === null || trace === undefined ? {} : { trace_id: trace.id }),
    ...(loopMs === undefined ? {} : { loop_ms: Math.round(loopMs * 10) / 10 }),
  };
}

/** The log fields that an operator needs to explain a failure. Client texts are truncated. */
const failureFields = (
  { message, param }: Failure,
  url: RequestRecord['url'],
  client: RequestRecord['client'],
): object => ({
  param: param == null ? null : bounded(param, ENTRY_TEXT.param),
  message: message === undefined ? null : bounded(message, ENTRY_TEXT.message),
  ...(url === undefined ? {} : { url }),
  ...(client === undefined || client.address === '' ? {} : { address: client.address }),
});

/** Omits the requested model's name if it is the model's own name. */
function logged(fields: RequestRecord['fields']): object {
  const { asked_model: asked, ...others } = fields;
  return asked === undefined || asked === fields['model'] ? others : fields;
}
