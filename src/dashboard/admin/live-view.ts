// The live view of one thread: the samples of the last minutes as they were encoded once, and who watches. The
// primary thread's view has the sampler; the others get its samples over the bus and tell what they have counted.
//
//   sampler ──► sample, encoded ──► history, viewers of this thread
//      ▲                      └───► bus ──► history, viewers of each other thread
//      └── counts of every thread
//
// Viewers are written to a few at a time, so that a thousand of them hold up nothing else on this thread.

import { apiError } from '../../shared/errors.js';
import type { EventStream, Exchange } from '../../http/exchange.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { Telemetry } from '../../telemetry/types.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { LiveRecorder } from './live-recorder.js';
import { LiveSampler } from './live-sampler.js';
import type { LiveCollected } from '../../shared/live-collected.js';

/** Samples a page gets when it opens: five minutes. */
const HISTORY = 300;
/** Of one thread. */
const MAX_VIEWERS = 5_000;
/** Written to in one turn of the event loop. */
const PER_TURN = 50;
/** How often it is asked whether somebody may still watch: two look-ups. */
const CHECK_MS = 5_000;
/** A reader that far behind gets no more samples until it has read on; after so many missed ones it is let go. */
const BEHIND_BYTES = 524_288;
const MOST_MISSED = 30;

export interface LiveViewDeps {
  pool: ModelPool;
  telemetry: Telemetry;
  bus: ThreadBus;
  primary: boolean;
  /** Of the primary thread: what is kept of the samples. */
  history?: Pick<LiveRecorder, 'add'>;
}

interface Viewer {
  stream: EventStream;
  mayWatch(): Promise<boolean>;
  checkAt: number;
  asking: boolean;
  missed: number;
}

export class LiveView {
  readonly #history: string[] = []; // the latest at the end
  #historyText: string | null = null; // of all of it, while it is the same
  readonly #viewers = new Set<Viewer>();
  #sampler: LiveSampler | null = null;
  readonly #stopListening: (() => void)[] = [];
  #draining = false;
  /** Requests of this thread that are not answered yet, viewers included. */
  #inFlight: () => number = () => 0;

  constructor(private readonly deps: LiveViewDeps) {}

  /** Once there is something to look at: a start may take longer than the time between two samples. */
  begin(inFlight: () => number): void {
    this.#inFlight = inFlight;
    const { bus, pool, primary, telemetry, history } = this.deps;
    if (primary) {
      this.#sampler = new LiveSampler(
        pool,
        bus,
        () => this.#collect(),
        (taken, keys) => {
          const sample = JSON.stringify(taken);
          history?.add(taken, keys);
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

  /** Answers with the stream: `history` once, then `sample` after `sample`. Throws ApiError 503. */
  watch(exchange: Exchange, mayWatch: () => Promise<boolean>): void {
    if (this.#draining) throw apiError('shutting_down', 'The server is shutting down.');
    if (this.#viewers.size >= MAX_VIEWERS) throw apiError('capacity_exhausted', `${MAX_VIEWERS} pages watch already.`);
    const stream = exchange.sse();
    if (exchange.method === 'HEAD') return; // answered with that: nobody watches, and nobody would tell when they leave
    const viewer: Viewer = { stream, mayWatch, checkAt: performance.now() + CHECK_MS, asking: false, missed: 0 };
    this.#viewers.add(viewer);
    exchange.onAborted(() => this.#viewers.delete(viewer));
    this.#historyText ??= `[${this.#history.join(',')}]`;
    viewer.stream.send(this.#historyText, 'history');
  }

  /** Ends the streams, which would hold up the end of the server. */
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
    if (this.#viewers.size > 0) this.#tell(sample, [...this.#viewers], 0);
  }

  #tell(sample: string, viewers: readonly Viewer[], from: number): void {
    const now = performance.now();
    const to = Math.min(viewers.length, from + PER_TURN);
    for (let at = from; at < to; at++) {
      const viewer = viewers[at] as Viewer;
      if (!this.#viewers.has(viewer)) continue;
      if (viewer.missed >= MOST_MISSED) this.#letGo(viewer);
      else if (viewer.asking) viewer.missed++;
      else if (now >= viewer.checkAt) void this.#ask(viewer, sample);
      else this.#offer(viewer, sample);
    }
    if (to < viewers.length) setImmediate(() => this.#tell(sample, viewers, to));
  }

  /** The sample waits for the answer. Where there is none, the next sample asks again. */
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
      this.deps.telemetry.log.error({ err }, 'who watches could not be looked up');
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
