// Reads a request body as a stream, for routes that do not keep it in memory. While the consumer is busy, the socket is
// paused, so at most one socket read is buffered. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import type { BodySource } from './transport.js';
import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/**
 * uWebSockets.js closes a connection 10 seconds after the last bytes of an unfinished body. Pausing and resuming a
 * socket restarts that timer. The socket is paused and resumed at this interval, so that this server's own timeout is
 * the effective one.
 */
const RENEW_MS = 4_000;
/** Maximum time without any data while the server is ready to read. */
const SILENCE_MS = 20_000;
/**
 * A client that is still sending when it receives an error may see a connection reset instead of the response.
 * Therefore, the server reads and discards the rest of the body for this long, in ms, before it sends the error.
 */
const DISCARD_MS = 2_000;

export interface BodyStreamLimits {
  /** Maximum time from the headers to the last byte, in ms. */
  readonly timeoutMs: number;
  readonly silenceMs?: number | undefined;
}

interface Waiting {
  resolve(result: IteratorResult<Uint8Array>): void;
  reject(error: ApiError): void;
}

export class BodyStream implements AsyncIterable<Uint8Array> {
  readonly #pieces: Uint8Array[] = [];
  readonly #renewal: NodeJS.Timeout;
  readonly #began = performance.now();
  #lastDataAt = this.#began;
  #waiting: Waiting | null = null;
  #discarded: (() => void) | null = null; // set while the rest of the body is discarded
  #failure: ApiError | null = null;
  #isComplete = false;
  #isPaused = false;

  /**
   * Must be called within the call that receives the request, or with a PausedBody. close() must be called when the
   * response is complete or the client has disconnected.
   */
  constructor(
    private readonly source: BodySource,
    private readonly limits: BodyStreamLimits,
    /** Called after the last byte. If it rejects, the stream fails instead of ending. */
    private readonly atEnd: () => Promise<void>,
  ) {
    const { timeoutMs, silenceMs = SILENCE_MS } = limits;
    this.#renewal = setInterval(() => this.#renew(), Math.min(RENEW_MS, timeoutMs, silenceMs));
    this.#renewal.unref();
    source.onData((piece, isLast) => this.#take(piece, isLast));
  }

  /** Whether the whole body has been received. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Whether nothing more will be received. */
  get isOver(): boolean {
    return this.#isComplete || this.#failure !== null;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return {
      next: async () => {
        const result = await this.#next();
        if (result.done === true) await this.atEnd();
        return result;
      },
    };
  }

  /** Reads and discards the rest of the body, for a limited time. Resolves immediately if there is nothing to discard. */
  discard(): Promise<void> {
    if (this.#isComplete || this.#failure !== null) return Promise.resolve();
    this.#pieces.length = 0;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, DISCARD_MS);
      timer.unref();
      this.#discarded = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#resume();
    });
  }

  /** The client has disconnected: a pending or later read rejects, and the source is not used any more. */
  close(): void {
    clearInterval(this.#renewal);
    this.#fail(apiError('request_timeout', 'The client disconnected before the request body was complete.'));
  }

  #take(piece: ArrayBuffer | Uint8Array, isLast: boolean): void {
    if (this.#failure !== null) return;
    this.#lastDataAt = performance.now();
    this.#isComplete = isLast;
    if (isLast) {
      clearInterval(this.#renewal);
      // Several pieces may come from one read of the socket. The connection is needed for the next request.
      this.#resume();
    }
    if (this.#discarded !== null) {
      if (isLast) this.#discarded();
      return;
    }
    if (piece.byteLength > 0)
      this.#pieces.push(piece instanceof Uint8Array ? piece.slice() : new Uint8Array(piece.slice(0))); // the library owns it
    const waiting = this.#waiting;
    if (waiting === null) {
      this.#pause();
      return;
    }
    const next = this.#pieces.shift();
    if (next === undefined && !isLast) return;
    this.#waiting = null;
    waiting.resolve(next === undefined ? { done: true, value: undefined } : { done: false, value: next });
  }

  #next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#failure !== null && !this.#isComplete) return Promise.reject(this.#failure);
    const next = this.#pieces.shift();
    if (next !== undefined) return Promise.resolve({ done: false, value: next });
    if (this.#isComplete) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#resume();
    });
  }

  #pause(): void {
    if (this.#isPaused || this.#isComplete) return;
    this.#isPaused = true;
    this.source.pause();
  }

  #resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#lastDataAt = performance.now(); // the time that the server was busy does not count
    this.source.resume();
  }

  #renew(): void {
    const { timeoutMs, silenceMs = SILENCE_MS } = this.limits;
    const now = performance.now();
    if (now - this.#began >= timeoutMs) {
      this.#fail(timedOut(`not complete after ${timeoutMs / 1000} seconds`));
    } else if (!this.#isPaused && now - this.#lastDataAt >= silenceMs) {
      this.#fail(timedOut(`no data for ${silenceMs / 1000} seconds`));
    } else {
      this.source.pause();
      if (!this.#isPaused) this.source.resume();
    }
  }

  #fail(error: ApiError): void {
    clearInterval(this.#renewal);
    this.#failure ??= error;
    this.#discarded?.();
    this.#waiting?.reject(this.#failure);
    this.#waiting = null;
  }
}

const timedOut = (why: string): ApiError => apiError('request_timeout', `Timed out reading the request body: ${why}.`);
