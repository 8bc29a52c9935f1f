// The server's only sampler, on the primary thread. Once per second, it reads the engines' counters, requests the other
// threads' counters, and builds one sample. It reads counters that exist anyway, so engines do no extra work.

import type { EngineSample, LiveSample } from '../../shared/wire/live.js';
import type { NativeStats } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import type { ModelPool, PooledEngine } from '../../engine/model-pool.js';
import { quantiles, SlidingCounts } from '../../telemetry/latency-counts.js';
import type { ModelLatencies, LiveCollected } from '../../shared/live-collected.js';
import type { ThreadBus } from '../../shared/bus.js';

export const SAMPLE_MS = 1_000;
/** Window for percentiles, in seconds. */
const WINDOW_S = 60;
/**
 * Deadline for the other threads' counters. A late thread is omitted from the sample, and its counts are added to
 * the next one.
 */
const ASK_MS = 500;

interface Windows {
  ttft: SlidingCounts;
  itl: SlidingCounts;
  tpot: SlidingCounts;
}

export class LiveSampler {
  // counters at the time of the previous sample; keyed by engine object, because the counters of a reloaded engine
  // start at zero
  readonly #before = new WeakMap<Engine, NativeStats>();
  readonly #windows = new Map<string, Windows>(); // by file
  readonly #timer: NodeJS.Timeout;
  #sampledAt = performance.now();
  #busy = false;

  /** `collect` returns this thread's counts; `publish` is called with each sample and the counts of all threads. */
  constructor(
    private readonly pool: ModelPool,
    private readonly bus: ThreadBus,
    private readonly collect: () => LiveCollected,
    private readonly publish: (sample: LiveSample, threads: readonly LiveCollected[]) => void,
    private readonly onError: (error: unknown) => void,
  ) {
    this.#timer = setInterval(() => {
      void this.#tick();
    }, SAMPLE_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #tick(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      const others = this.bus.threads > 1 ? await this.bus.ask('live.collect', {}, ASK_MS) : [];
      const threads = [this.collect(), ...others];
      this.publish(this.#sample(threads), threads);
    } catch (error) {
      this.onError(error);
    } finally {
      this.#busy = false;
    }
  }

  #sample(threads: readonly LiveCollected[]): LiveSample {
    const sum = (of: (one: LiveCollected) => number): number => threads.reduce((total, one) => total + of(one), 0);
    const latencies = threads.flatMap((one) => one.latencies);
    const files = this.pool.engines();
    const now = performance.now();
    const seconds = Math.max(1e-3, (now - this.#sampledAt) / 1000);
    this.#sampledAt = now;
    for (const file of this.#windows.keys()) if (!files.some((one) => one.file === file)) this.#windows.delete(file);
    return {
      at: new Date().toISOString(),
      engines: files.flatMap((engine) => this.#engine(engine, latencies, seconds)),
      requests: sum((one) => one.requests),
      rejected_429: sum((one) => one.rejected429),
      rejected_503: sum((one) => one.rejected503),
      errors: sum((one) => one.errors),
      cancelled: sum((one) => one.cancelled),
      in_flight: sum((one) => one.inFlight),
      rss_bytes: process.memoryUsage.rss(),
      loop_lag_ms: round(Math.max(...threads.map((one) => one.loopLagMs))),
      http_threads: this.bus.threads,
      viewers: sum((one) => one.viewers),
    };
  }

  #engine(
    { file, names, status }: PooledEngine,
    latencies: readonly ModelLatencies[],
    seconds: number,
  ): EngineSample[] {
    let windows = this.#windows.get(file);
    if (windows === undefined)
      this.#windows.set(
        file,
        (windows = {
          ttft: new SlidingCounts(WINDOW_S),
          itl: new SlidingCounts(WINDOW_S),
          tpot: new SlidingCounts(WINDOW_S),
        }),
      );
    const own = latencies.filter(({ model }) => names.includes(model));
    windows.ttft.add(added(own.map(({ ttft }) => ttft)));
    windows.itl.add(added(own.map(({ itl }) => itl)));
    windows.tpot.add(added(own.map(({ tpot }) => tpot)));
    if (status.state !== 'ready') return [];

    const stats = status.engine.stats();
    const before = this.#before.get(status.engine);
    this.#before.set(status.engine, stats);
    // An engine that first appears in this sample started counting at zero.
    const since = (of: (stats: NativeStats) => number): number => of(stats) - (before === undefined ? 0 : of(before));
    const steps = since((s) => s.steps);
    const rows = since((s) => s.stepRows);
    const prompts = since((s) => s.promptTokens);
    return [
      {
        model: names[0] ?? '',
        names: [...names],
        running: stats.running,
        waiting: stats.waiting,
        batch_rows: steps === 0 ? 0 : round(rows / steps),
        pages_total: stats.pagesTotal,
        pages_free: stats.pagesFree,
        pages_cached: stats.pagesCached,
        prefix_hit_rate: prompts === 0 ? null : round(since((s) => s.promptTokensCached) / prompts),
        step_ms: steps === 0 ? null : round((since((s) => s.stepSeconds) * 1000) / steps),
        steps_per_s: round(steps / seconds),
        prefill_tokens_per_s: round(since((s) => s.prefillTokens) / seconds),
        decode_tokens_per_s: round(since((s) => s.decodeTokens) / seconds),
        ttft_ms: quantiles(windows.ttft.sum),
        itl_ms: quantiles(windows.itl.sum),
        tpot_ms: quantiles(windows.tpot.sum),
        preemptions: stats.preemptions,
      },
    ];
  }
}

/** The sum of the non-null entries; null if there are none. */
function added(all: readonly (Uint32Array | null)[]): Uint32Array | null {
  let sum: Uint32Array | null = null;
  for (const one of all) {
    if (one === null) continue;
    if (sum === null) sum = one;
    else for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (one[i] as number);
  }
  return sum;
}

const round = (value: number): number => Math.round(value * 1000) / 1000;
