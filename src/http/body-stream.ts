// Reads a request body as a stream, for routes that do not keep the whole body in memory. The socket is paused while
// the consumer is busy, so at most the data of one socket read is buffered. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import type { BodySource } from './transport.js';
import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/**
 * Interval, in ms, between pausing and resuming the socket. uWebSockets.js closes a connection if no data of an
 * incomplete body arrives for 10 seconds. Pausing and resuming the socket restarts that timer, so that only the
 * timeouts in this file apply.
 */
const RENEW_MS = 4_000;
/** Maximum time in ms without any data while the socket is not paused. */
const SILENCE_MS = 20_000;
/**
 * Maximum time, in ms, for reading and discarding the rest of the body before an error is sent. A client that is still
 * sending when the connection closes may see a connection reset instead of the error.
 */
const DISCARD_MS = 2_000;

export interface BodyStreamLimits {
  /** Maximum time from the headers to the last byte, in ms. */
  readonly timeoutMs: number;
  /** Maximum time without any data, in ms. Default: SILENCE_MS. */
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
   * Must be called synchronously in the HTTP library's request callback, unless a PausedBody is passed. Call close()
   * when the client disconnects or the rest of the body will not be read.
   */
  constructor(
    private readonly source: BodySource,
    private readonly limits: BodyStreamLimits,
    /** Called when the consumer has read the last byte. If it rejects, the stream fails instead of ending. */
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

  /** Whether the whole body has been received, or reading it has failed. */
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

  /** Reads and discards the rest of the body for up to DISCARD_MS. Resolves immediately if isOver. */
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

  /**
   * Must be called when the client has disconnected. Pending and later reads reject, and the source is no longer
   * used.
   */
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
      // An earlier chunk may have paused the socket. It is resumed so that the connection can receive the next request.
      this.#resume();
    }
    if (this.#discarded !== null) {
      if (isLast) this.#discarded();
      return;
    }
    // The chunk is copied, because its memory is valid only during this call.
    if (piece.byteLength > 0)
      this.#pieces.push(piece instanceof Uint8Array ? piece.slice() : new Uint8Array(piece.slice(0)));
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
    this.#lastDataAt = performance.now(); // the time during which the socket was paused does not count
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
