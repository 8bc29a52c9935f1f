// One thread's counts since the last sample, for the operators' live view. They are small enough to be sent to another
// thread every second. Event-loop thread only.

import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { KeyCounts, ModelLatencies } from '../shared/live-collected.js';
import type { RequestRecord } from './outcome.js';
import { LATENCY_BUCKETS, latencyBucket } from './latency-counts.js';

// Period of the timer that measures event-loop delay, in ms. Longer than in telemetry.ts, because this timer runs in
// addition to that one.
const LOOP_RESOLUTION_MS = 20;

/** Routes of the OpenAI, Anthropic and Ollama formats. */
const API_PATH = /^\/(v1|api)\//;

export interface LiveTaken {
  requests: number;
  apiRequests: number;
  serverErrors: number;
  rejected429: number;
  rejected503: number;
  errors: number;
  cancelled: number;
  /** Maximum event-loop delay. */
  loopLagMs: number;
  latencies: ModelLatencies[];
  keys: KeyCounts[];
}

/** Maximum number of keys counted separately between two samples; further keys are counted together. */
const MAX_KEYS = 1_000;
/** Stands for all further keys, which are counted together. */
const OTHERS = { organizationId: '', keyId: '' };

/** One model's counts. Callers keep the object, so there is no lookup per token. */
export class LatencyCounter {
  readonly #ttft = new Uint32Array(LATENCY_BUCKETS);
  readonly #itl = new Uint32Array(LATENCY_BUCKETS);
  readonly #tpot = new Uint32Array(LATENCY_BUCKETS);
  readonly #e2e = new Uint32Array(LATENCY_BUCKETS);
  #ttfts = 0;
  #itls = 0;
  #tpots = 0;
  #e2es = 0;

  ttft(ms: number): void {
    this.#ttft[latencyBucket(ms)]!++;
    this.#ttfts++;
  }

  itl(ms: number, count: number): void {
    this.#itl[latencyBucket(ms)]! += count;
    this.#itls += count;
  }

  /** Counts `count` tokens that took `ms` each, averaged over a stretch of a response. */
  tpot(ms: number, count: number): void {
    this.#tpot[latencyBucket(ms)]! += count;
    this.#tpots += count;
  }

  e2e(ms: number): void {
    this.#e2e[latencyBucket(ms)]!++;
    this.#e2es++;
  }

  take(model: string): ModelLatencies {
    const taken = {
      model,
      ttft: this.#ttfts > 0 ? this.#ttft.slice() : null,
      itl: this.#itls > 0 ? this.#itl.slice() : null,
      tpot: this.#tpots > 0 ? this.#tpot.slice() : null,
      e2e: this.#e2es > 0 ? this.#e2e.slice() : null,
    };
    if (this.#ttfts > 0) this.#ttft.fill(0);
    if (this.#itls > 0) this.#itl.fill(0);
    if (this.#tpots > 0) this.#tpot.fill(0);
    if (this.#e2es > 0) this.#e2e.fill(0);
    this.#ttfts = this.#itls = this.#tpots = this.#e2es = 0;
    return taken;
  }
}

export class LiveCounts {
  readonly #latencies = new Map<string, LatencyCounter>(); // by served name, so the number of entries is bounded
  #keys = new Map<string, KeyCounts>();
  readonly #loopDelay = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  #requests = 0;
  #apiRequests = 0;
  #serverErrors = 0;
  #rejected429 = 0;
  #rejected503 = 0;
  #errors = 0;
  #cancelled = 0;

  constructor() {
    this.#loopDelay.enable();
  }

  latencies(model: string): LatencyCounter {
    let counter = this.#latencies.get(model);
    if (counter === undefined) this.#latencies.set(model, (counter = new LatencyCounter()));
    return counter;
  }

  /** Counts only API requests, because dashboard requests, probes and scrapes do not reflect the load. */
  request({ path, method, status, failure, outcome, organizationId, keyId, fields }: RequestRecord): void {
    // Read-only requests, invalid requests and cancelled requests do not reflect server failures.
    const finalStatus = failure?.status ?? status;
    if (API_PATH.test(path) && method !== 'GET' && (finalStatus >= 500 || (finalStatus >= 200 && finalStatus < 400))) {
      this.#apiRequests++;
      if (finalStatus >= 500) this.#serverErrors++;
    }
    if (!path.startsWith('/v1')) return;
    if (organizationId !== null && keyId !== null) {
      const counts = this.#countsOf(organizationId, keyId);
      if (method !== 'BACKGROUND') counts.requests++;
      if (outcome === 'refused') counts.refused++;
      else {
        counts.inputTokens += Number(fields['prompt_tokens'] ?? 0);
        counts.outputTokens += Number(fields['completion_tokens'] ?? 0);
      }
    }
    if (method !== 'BACKGROUND') this.#requests++; // the request that started it was counted
    if (outcome === 'failed') this.#errors++;
    else if (outcome === 'cancelled') this.#cancelled++;
    else if (failure?.status === 429) this.#rejected429++;
    else if (failure?.status === 503) this.#rejected503++;
  }

  /** Returns the counts since the last call and resets them. */
  take(): LiveTaken {
    const max = this.#loopDelay.max / 1e6;
    this.#loopDelay.reset();
    const latencies = [...this.#latencies]
      .map(([model, counter]) => counter.take(model))
      .filter(({ ttft, itl, tpot, e2e }) => ttft !== null || itl !== null || tpot !== null || e2e !== null);
    const taken = {
      requests: this.#requests,
      apiRequests: this.#apiRequests,
      serverErrors: this.#serverErrors,
      rejected429: this.#rejected429,
      rejected503: this.#rejected503,
      errors: this.#errors,
      cancelled: this.#cancelled,
      loopLagMs: Number.isFinite(max) ? Math.max(0, max - LOOP_RESOLUTION_MS) : 0,
      latencies,
      keys: [...this.#keys.values()],
    };
    this.#keys = new Map();
    this.#apiRequests = this.#serverErrors = 0;
    this.#requests = this.#rejected429 = this.#rejected503 = this.#errors = this.#cancelled = 0;
    return taken;
  }

  #countsOf(organizationId: string, keyId: string): KeyCounts {
    const name = `${organizationId}\n${keyId}`;
    const known = this.#keys.get(name);
    if (known !== undefined) return known;
    if (this.#keys.size >= MAX_KEYS && name !== '\n') return this.#countsOf(OTHERS.organizationId, OTHERS.keyId);
    const counts: KeyCounts = { organizationId, keyId, requests: 0, refused: 0, inputTokens: 0, outputTokens: 0 };
    this.#keys.set(name, counts);
    return counts;
  }

  close(): void {
    this.#loopDelay.disable();
  }
}
