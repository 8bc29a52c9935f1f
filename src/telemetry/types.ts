// The interface through which other modules report to telemetry. Protocols report the events of a generation to a
// GenerationMeter, and the HTTP layer reports each finished request. Telemetry must not contain prompt text, output
// text or keys.

import type { LiveCounts } from './live-counts.js';
import type { RequestRecord } from './outcome.js';
import type { RequestTrace, TracedRequest } from './request-trace.js';
import type { ThreadBus } from '../shared/bus.js';

export type CancelStage = 'queue' | 'prefill' | 'decode';

/**
 * Records the times of one generation request, in milliseconds, in the histograms. The request's tally
 * (protocol/generation-accounting.ts) reports them, and ends with a single call of completed, failed or cancelled.
 */
export interface GenerationMeter {
  /** Called when the request has left the queue. */
  started(event: { promptTokens: number; cachedTokens: number; queueMs: number; towerMs?: number }): void;
  /** Records the prefill time of the prompt. */
  prefilled(ms: number): void;
  /** Records the time from arrival to the first token. */
  firstToken(ms: number): void;
  /** Records `count` tokens of one choice, `ms` after that choice's previous tokens. */
  laterTokens(count: number, ms: number): void;
  choiceFinished(event: { completionTokens: number; reason: string; timings: { decodeMs: number } }): void;
  /** Called when all choices have ended, `ms` after arrival. */
  completed(ms: number): void;
  /** `code`: an API error code. */
  failed(code: string): void;
  /** Called when the client has disconnected. */
  cancelled(stage: CancelStage): void;
}

export interface GenerationLabels {
  model: string; // a served name, never raw client text, so that the number of label values stays bounded
  endpoint: string; // route path, e.g. /v1/chat/completions
}

/** Records requests to an upstream server. */
export interface UpstreamMeter {
  asked(): void;
  /** `other`: neither a server success nor a server failure. */
  over(outcome: 'answered' | 'failed' | 'other'): void;
}

/** Values read when metrics are scraped. */
export interface EngineGauges {
  model: string;
  waiting: number;
  running: number;
  pagesTotal: number;
  pagesFree: number;
  pagesCached: number;
  kvUsedBytes: number;
  lastStepAgeMs: number;
  promptTokens: number;
  promptTokensCached: number;
  preemptions: number;
  steps: number;
  prefillTokens: number;
  decodeTokens: number;
  draftTokens: number;
  acceptedTokens: number;
  cancelledQueued: number;
  cancelledPrefill: number;
  cancelledDecode: number;
  /** The loaded LoRA adapters; absent if there are none. */
  adapters?: readonly AdapterGauges[];
}

/** Current requests of one LoRA adapter. */
export interface AdapterGauges {
  /** The name under which GET /v1/models lists it. */
  name: string;
  running: number;
  waiting: number;
}

/** State of Redis at the time of a scrape. */
export interface CountersGauges {
  state: 'shared' | 'away';
  processes: number;
}

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Counts of the KV pages on disk since the start, and the size of their files. */
export interface PageTierTotals {
  readonly pages: Readonly<Record<string, number>>; // by event
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly hits: number;
  readonly misses: number;
  readonly tokens: number;
  readonly savedSeconds: number;
  readonly usedBytes: number;
  /** Prompt token counts by model: total (`prompt`), cached in memory (`memory`) and read from disk (`disk`). */
  readonly models: ReadonlyMap<string, { readonly prompt: number; readonly memory: number; readonly disk: number }>;
}

export interface Telemetry {
  readonly log: Log;
  /** This thread's counts, for the live view. */
  readonly live: LiveCounts;
  generation(labels: GenerationLabels): GenerationMeter;
  /** `server`: the upstream server's host. Both labels come from the configuration. */
  upstream(labels: { model: string; server: string }): UpstreamMeter;
  /** Records that the events of one step were written `delayMs` after the engine produced them. */
  delivered(delayMs: number): void;
  /**
   * Starts the trace of a generating request. Null if it is not sampled or traces are disabled. request() ends the
   * trace.
   */
  trace(request: TracedRequest): RequestTrace | null;
  /** Called by the HTTP layer once per request. */
  request(record: RequestRecord): void;
  /** Records a call to Redis: its kind, outcome and duration. */
  countersCalled(call: string, outcome: 'answered' | 'late' | 'failed', seconds: number): void;
  /** Counts a web search that the server ran. */
  searched(outcome: 'completed' | 'query_too_long' | 'too_many_requests' | 'unavailable', seconds: number): void;
  /** Records that a tool call on an MCP server has ended. */
  mcpCalled(outcome: 'completed' | 'tool_error' | 'http_error' | 'protocol_error', seconds: number): void;
  /** Sets the number of active alert incidents, by kind. */
  alerting(active: Readonly<Record<string, number>>): void;
  /** Counts an attempt to deliver an alert. `failed`: the last attempt has failed. */
  alertDelivered(destination: 'mail' | 'webhook' | 'slack', outcome: 'delivered' | 'retried' | 'failed'): void;
  /** Counts an attempt to send an event to a webhook endpoint. `failed`: the server has given up. */
  webhookDelivered(outcome: 'delivered' | 'retried' | 'failed'): void;
  /** Sets the numbers of running and waiting batch requests. */
  batchLines(counts: { running: number; waiting: number }): void;
  /** Sets the totals of the KV pages on disk. */
  pageTier(totals: PageTierTotals): void;
  /** `at`: Unix time of the latest backup, in seconds. */
  backedUp(at: number): void;
  /** Sets the function that returns the state of Redis at each scrape; it returns null if Redis is not configured. */
  observeCounters(read: () => CountersGauges | null): void;
  /** Sets the function that returns the engine gauges at each scrape. */
  observeEngines(read: () => EngineGauges[]): void;
  /** The metrics in Prometheus text format, summed over all threads. */
  scrape(): Promise<string>;
  /** Collects other threads' metrics, and provides this thread's to them, over `bus`. */
  shareWith(bus: ThreadBus): void;
  /** The 99th percentile of the event-loop delay since the last scrape, in milliseconds. */
  loopLagMs(): number;
  /** Resolves after a short time, when recorded spans have been sent or discarded. */
  close(): Promise<void>;
}
