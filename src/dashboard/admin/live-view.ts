// The live view of one thread: the samples of the last few minutes, encoded once, and the viewers. The primary thread's
// view has the sampler. The other threads receive the samples over the bus and send back their counts.
//
//     sampler ──► sample, encoded ──► history, viewers of this thread
//        ▲                      └───► bus ──► history, viewers of each other thread
//        └── counts of every thread
//
// Only a few viewers are written to per event-loop turn, so that a thousand of them cannot block this thread.

import { apiError } from '../../shared/errors.js';
import type { EventStream, Exchange } from '../../http/exchange.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { Telemetry } from '../../telemetry/types.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { LiveRecorder } from './live-recorder.js';
import { LiveSampler } from './live-sampler.js';
import type { LiveCollected } from '../../shared/live-collected.js';

/** Number of samples sent to a page when it opens: five minutes' worth. */
const HISTORY = 300;
/** Maximum number of viewers per thread. */
const MAX_VIEWERS = 5_000;
/** Number of viewers written to per event-loop turn. */
const PER_TURN = 50;
/** How often a viewer's permission is checked again. Each check takes two lookups. */
const CHECK_MS = 5_000;
/**
 * A viewer with this much unsent data gets no more samples until it catches up. After too many skipped samples, it is
 * disconnected.
 */
const BEHIND_BYTES = 524_288;
const MAX_MISSED = 30;

export interface LiveViewDeps {
  pool: ModelPool;
  telemetry: Telemetry;
  bus: ThreadBus;
  primary: boolean;
  /** Primary thread only: records the samples. */
  history?: Pick<LiveRecorder, 'add'>;
  /** Primary thread only: receives the counts of all threads with each sample. */
  counted?: (threads: readonly LiveCollected[]) => void;
}

interface Viewer {
  stream: EventStream;
  mayWatch(): Promise<boolean>;
  checkAt: number;
  asking: boolean;
  missed: number;
}

export class LiveView {
  readonly #history: string[] = []; // newest last
  #historyText: string | null = null; // cached encoding of the whole history
  readonly #viewers = new Set<Viewer>();
  #sampler: LiveSampler | null = null;
  readonly #stopListening: (() => void)[] = [];
  #draining = false;
  /** Number of requests in progress on this thread, including viewers. */
  #inFlight: () => number = () => 0;

  constructor(private readonly deps: LiveViewDeps) {}

  /** Must be called when the server is ready, because startup may take longer than the sampling interval. */
  begin(inFlight: () => number): void {
    this.#inFlight = inFlight;
    const { bus, pool, primary, telemetry, history, counted } = this.deps;
    if (primary) {
      this.#sampler = new LiveSampler(
        pool,
        bus,
        () => this.#collect(),
        (taken, threads) => {
          const sample = JSON.stringify(taken);
          counted?.(threads);
          history?.add(
            taken,
            threads.flatMap(({ keys }) => keys),
          );
          if (bus.threads > 1) bus.publish('live.sample', { sample });
          this.#take(sample);
        },
        (err) => telemetry.log.error({ err }, 'sampling the engines failed'),
      );
    } else {
      this.#stopListening.push(
        bus.on('live.collect', () => this.#collect()),
        bus.on('live.sample', ({ sample }) => this.#take(sample)),
      );
    }
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Responds with a stream: one `history` event, then `sample` events. Throws ApiError 503. */
  watch(exchange: Exchange, mayWatch: () => Promise<boolean>): void {
    if (this.#draining) throw apiError('shutting_down', 'The server is shutting down.');
    if (this.#viewers.size >= MAX_VIEWERS)
      throw apiError('capacity_exhausted', `The maximum of ${MAX_VIEWERS} viewers is reached.`);
    const stream = exchange.sse();
    if (exchange.method === 'HEAD') return; // a HEAD request ends here, and must not be registered as a viewer
    const viewer: Viewer = { stream, mayWatch, checkAt: performance.now() + CHECK_MS, asking: false, missed: 0 };
    this.#viewers.add(viewer);
    exchange.onAborted(() => this.#viewers.delete(viewer));
    this.#historyText ??= `[${this.#history.join(',')}]`;
    viewer.stream.send(this.#historyText, 'history');
  }

  /** Closes the streams, which would otherwise delay the shutdown. */
  drain(): void {
    this.#draining = true;
    for (const { stream } of this.#viewers) stream.end();
    this.#viewers.clear();
  }

  close(): void {
    this.#sampler?.close();
    for (const stop of this.#stopListening) stop();
    this.drain();
  }

  #collect(): LiveCollected {
    return {
      ...this.deps.telemetry.live.take(),
      inFlight: Math.max(0, this.#inFlight() - this.#viewers.size),
      viewers: this.#viewers.size,
    };
  }

  #take(sample: string): void {
    this.#history.push(sample);
    if (this.#history.length > HISTORY) this.#history.shift();
    this.#historyText = null;
    if (this.#viewers.size > 0) this.#send(sample, [...this.#viewers], 0);
  }

  #send(sample: string, viewers: readonly Viewer[], from: number): void {
    const now = performance.now();
    const to = Math.min(viewers.length, from + PER_TURN);
    for (let at = from; at < to; at++) {
      const viewer = viewers[at] as Viewer;
      if (!this.#viewers.has(viewer)) continue;
      if (viewer.missed >= MAX_MISSED) this.#letGo(viewer);
      else if (viewer.asking) viewer.missed++;
      else if (now >= viewer.checkAt) void this.#ask(viewer, sample);
      else this.#offer(viewer, sample);
    }
    if (to < viewers.length) setImmediate(() => this.#send(sample, viewers, to));
  }

  /**
   * Checks the viewer's permission before sending the sample. If the check itself fails, it is repeated with the next
   * sample.
   */
  async #ask(viewer: Viewer, sample: string): Promise<void> {
    viewer.asking = true;
    try {
      const may = await viewer.mayWatch();
      if (!this.#viewers.has(viewer)) return;
      viewer.checkAt = performance.now() + CHECK_MS;
      if (may) this.#offer(viewer, sample);
      else this.#letGo(viewer);
    } catch (err) {
      viewer.missed++;
      this.deps.telemetry.log.error({ err }, "checking a viewer's permission failed");
    } finally {
      viewer.asking = false;
    }
  }

  #offer(viewer: Viewer, sample: string): void {
    if (viewer.stream.bufferedBytes > BEHIND_BYTES) {
      viewer.missed++;
      return;
    }
    viewer.missed = 0;
    viewer.stream.send(sample, 'sample');
  }

  #letGo(viewer: Viewer): void {
    this.#viewers.delete(viewer);
    viewer.stream.end();
  }
}
