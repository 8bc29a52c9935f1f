// What other rooms tell telemetry. Protocols call a GenerationMeter as events pass through them; the
// HTTP layer reports each finished request. Nothing here may carry prompt text, output text or keys.

import type { LiveCounts } from './live-counts.js';
import type { RequestRecord } from './outcome.js';
import type { RequestTrace, TracedRequest } from './request-trace.js';
import type { ThreadBus } from '../shared/bus.js';

export type CancelStage = 'queue' | 'prefill' | 'decode';

/** Puts the times of one generation request into the histograms, as its tally (protocol/run-tally.ts) tells them. Milliseconds. One of completed, failed, cancelled ends it. */
export interface GenerationMeter {
  /** The request left the queue. */
  started(event: { promptTokens: number; cachedTokens: number; queueMs: number; towerMs?: number }): void;
  /** Computing the prompt took so long. */
  prefilled(ms: number): void;
  /** Its first token came so long after it had arrived. */
  firstToken(ms: number): void;
  /** `count` tokens of one choice came so long after this choice's last ones. */
  laterTokens(count: number, ms: number): void;
  choiceFinished(event: { completionTokens: number; reason: string; timings: { decodeMs: number } }): void;
  /** All choices have ended, so long after it had arrived. */
  completed(ms: number): void;
  /** `code`: an error code of the wire. */
  failed(code: string): void;
  /** The client went away. */
  cancelled(stage: CancelStage): void;
}

export interface GenerationLabels {
  model: string; // a served name, never raw client text: label values stay bounded
  endpoint: string; // route path, e.g. /v1/chat/completions
}

/** Told of what a server elsewhere is asked. */
export interface UpstreamMeter {
  asked(): void;
  /** `other`: neither its merit nor its fault. */
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
  guessedTokens: number;
  guessedRight: number;
  cancelledQueued: number;
  cancelledPrefill: number;
  cancelledDecode: number;
}

/** Counters that processes share, as they are when metrics are scraped. */
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

export interface Telemetry {
  readonly log: Log;
  /** Of this thread, for the live view. */
  readonly live: LiveCounts;
  generation(labels: GenerationLabels): GenerationMeter;
  /** A server elsewhere, by its host: both from the settings. */
  upstream(labels: { model: string; server: string }): UpstreamMeter;
  /** The events of one step were written, so long after the engine had told of them. */
  delivered(delayMs: number): void;
  /** What records a request that generates; null: it is not recorded, or none is. Ended by request(). */
  trace(request: TracedRequest): RequestTrace | null;
  /** Called by the HTTP layer once per request. */
  request(record: RequestRecord): void;
  /** A call to the counters that processes share: which, how it ended, how long it took. */
  countersCalled(call: string, outcome: 'answered' | 'late' | 'failed', seconds: number): void;
  /** Where their state is read from at each scrape; null: there are none. */
  observeCounters(read: () => CountersGauges | null): void;
  /** Where engine gauges are read from at each scrape. */
  observeEngines(read: () => EngineGauges[]): void;
  /** Prometheus text: the sums over all threads. */
  scrape(): Promise<string>;
  /** Other threads' metrics are asked for, and this one's told, over `bus`. */
  shareWith(bus: ThreadBus): void;
  /** Event-loop delay of the last second or so, in milliseconds: 99th percentile. */
  loopLagMs(): number;
  /** Resolves, soon, when what was recorded has been sent or given up. */
  close(): Promise<void>;
}
