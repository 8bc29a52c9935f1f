// Reads one request body. Limits the reading time and the body size: by Content-Length, while reading, and while
// decompressing. A request uses at most `max_body_bytes` of memory, plus the same amount for the decompressed body. The
// memory budget for request bodies limits the total across all requests.

import { performance } from 'node:perf_hooks';
import { createGunzip } from 'node:zlib';
import type { BodySource } from './transport.js';
import { type ApiError, apiError } from '../shared/errors.js';
import { checkJsonComplexity, jsonObject, jsonText } from './json.js';
import type { EventLoopMeter } from './event-loop-meter.js';
import { SMALL_BYTES, type ParseQueue, type Task } from './parse-queue.js';
import { tooMuchToRead } from './request-memory-budget.js';
import type { Reading } from './request-memory-budget.js';
import type { StartQueue } from './start-queue.js';

// A client that is still sending when it receives a 413 or 503 may see a connection reset instead of the response.
// Therefore, the server reads and discards the rest of the body for this long, in ms, before it closes the connection.
const SWALLOW_MS = 2_000;
// If the organization's event-loop budget is used up, reading the body and sending the error are delayed by this long,
// in ms. A connection that repeatedly sends large bodies is therefore read only once per second.
const HOLD_MS = 1_000;
// uWebSockets.js closes a connection 10 seconds after the last bytes of an unfinished body. Pausing and resuming a
// socket restarts that timer. The socket is paused and resumed at this interval, so that this server's own timeout is
// the effective one.
const RENEW_MS = 4_000;
/**
 * If a chunk has an extension, uWebSockets.js waits for bytes that never arrive. Therefore, a chunked body times out if
 * no new data arrives.
 */
const CHUNK_SILENCE_MS = 20_000;
const INFLATED_PIECE_BYTES = 65_536;
/**
 * Maximum extra capacity allocated with a chunk, to make room for later chunks. Never exceeds the number of bytes
 * collected so far.
 */
const MAX_AHEAD_BYTES = 65_536;

export interface BodyLimits {
  maxBytes: number;
  /**
   * Maximum time from the headers to the last byte, in ms. After that, the request is rejected with a 400
   * request_timeout.
   */
  timeoutMs: number;
  /** Maximum pause within a chunked body. */
  chunkSilenceMs?: number | undefined;
  readsChunkExtensions?: boolean;
}

/** `contentType`: null if absent, '' if its bytes are not valid text. */
export interface BodyHeaders {
  contentLength: string;
  contentType: string | null;
  contentEncoding: string;
}

/** Decisions made from the headers, before the body is read. */
export interface BodyState {
  gzip: boolean;
  oversized: boolean;
  /** If set, the body is not read, and the response is this error. */
  refused?: ApiError | null;
  chunked?: boolean;
}

/** Returns how to read the body. Throws ApiError if the headers already show that it must be refused. */
export function checkBodyHeaders(headers: BodyHeaders, maxBytes: number): BodyState {
  const { contentLength } = headers;
  checkContentLength(contentLength);
  if (Number(contentLength) > maxBytes) return { gzip: false, oversized: true };
  const mediaType =
    headers.contentType === null ? null : (headers.contentType.split(';')[0] as string).trim().toLowerCase();
  if (mediaType !== null && mediaType !== 'application/json') {
    throw apiError('unsupported_media_type', `Content-Type must be application/json, not ${quoted(mediaType)}.`);
  }
  const encoding = headers.contentEncoding.trim().toLowerCase();
  if (encoding !== '' && encoding !== 'identity' && encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw apiError('unsupported_media_type', `Content-Encoding must be gzip or identity, not ${quoted(encoding)}.`);
  }
  return { gzip: encoding.endsWith('gzip'), oversized: false };
}

/** Throws ApiError 400 if the value of Content-Length is not a whole number. '' means that the header is absent. */
export function checkContentLength(value: string): void {
  if (value !== '' && !/^\d+$/.test(value))
    throw apiError('invalid_header', 'Content-Length must be a whole number.', 'Content-Length');
}

const quoted = (text: string): string => JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);

export function tooLarge(maxBytes: number): ApiError {
  return apiError('request_too_large', `The request body is larger than ${maxBytes} bytes.`);
}

/** Queues in which a body waits to be parsed: small bodies in `starts`, large ones in `turns`. */
export interface BodyQueues {
  turns: ParseQueue;
  starts: StartQueue;
}

/**
 * Reads and parses the body, then calls either `done` or `failed` once, unless the client disconnects first.
 * - Thread time spent in `done` is charged to `account`. `done` and the slices that it returns must not throw.
 * - `unread` is true if the client may still be sending.
 * - Must be called within the call that receives the request, or with a PausedBody.
 * - The caller's `onAborted` handler must already be registered, and must call the returned function, which releases
 *   everything.
 */
export function readJsonBody(
  res: BodySource,
  {
    limits: { maxBytes, timeoutMs, chunkSilenceMs = CHUNK_SILENCE_MS, readsChunkExtensions = false },
    state,
    reading,
    queues: { turns, starts },
    organizationId,
    account,
    gone,
    done,
    failed,
  }: {
    limits: BodyLimits;
    state: BodyState;
    reading: Reading;
    queues: BodyQueues;
    organizationId: string;
    account: EventLoopMeter;
    gone: () => boolean;
    done: (body: object, bytes: number) => Task | undefined;
    failed: (error: unknown, unread: boolean) => void;
  },
): () => void {
  const gathered = new Gathered();
  let size = 0;
  let refusal: ApiError | null = null; // set while the rest of the body is discarded
  let held = false; // reading is paused
  let complete = false;
  let settled = false;
  let timer: NodeJS.Timeout | undefined;
  const began = performance.now();
  let heard = began; // time of the last body data
  const overdue = (): string | null => {
    const now = performance.now();
    if (now - began >= timeoutMs)
      return `Timed out reading the request body: not complete after ${timeoutMs / 1000} seconds.`;
    if (state.chunked !== true || now - heard < chunkSilenceMs) return null;
    const hint = readsChunkExtensions ? '' : ' Chunk extensions are not supported.';
    return `Timed out reading the request body: no data for ${chunkSilenceMs / 1000} seconds.${hint}`;
  };
  const renewal = setInterval(
    () => {
      if (held) return;
      const late = overdue();
      if (late === null) {
        res.pause();
        res.resume(); // calling resume() without pause() would stop reading
      } else if (settle()) {
        reading.release();
        failed(apiError('request_timeout', late), true);
      }
    },
    Math.min(RENEW_MS, timeoutMs, chunkSilenceMs),
  );
  renewal.unref();

  /** Returns false if reading has already succeeded or failed. */
  function settle(): boolean {
    if (settled) return false;
    settled = true;
    gathered.clear();
    clearTimeout(timer);
    clearInterval(renewal);
    return true;
  }

  const refuse = (): void => {
    if (settle() && !gone()) failed(refusal, true);
  };
  const startSwallowing = (error: ApiError): void => {
    refusal = error;
    gathered.clear();
    reading.release();
    timer = setTimeout(refuse, SWALLOW_MS);
    timer.unref();
  };
  const hold = (error: ApiError): void => {
    refusal = error;
    held = true;
    res.pause();
    timer = setTimeout(() => {
      held = false;
      if (complete) {
        refuse();
        return;
      }
      res.resume();
      startSwallowing(error);
    }, HOLD_MS);
  };
  if (state.oversized) startSwallowing(tooLarge(maxBytes));
  else if (state.refused != null) hold(state.refused);

  res.onData((piece, isLast) => {
    if (settled) return;
    size += piece.byteLength;
    heard = performance.now();
    if (refusal === null) {
      if (size > maxBytes) startSwallowing(tooLarge(maxBytes));
      else if (!reading.add(piece.byteLength)) startSwallowing(tooMuchToRead());
    }
    if (refusal !== null) {
      complete = isLast;
      if (held) return;
      if (isLast || size > 4 * maxBytes) refuse();
      return;
    }
    if (!isLast) {
      gathered.add(new Uint8Array(piece));
      return;
    }
    const whole = gathered.end(new Uint8Array(piece));
    settle();
    if (state.gzip) inflate(whole());
    else parse(whole, size);
  });

  return () => {
    settle();
    reading.release();
  };

  function inflate(compressed: Buffer): void {
    let bytes: Buffer[] = [];
    let length = 0;
    const stream = createGunzip({ chunkSize: INFLATED_PIECE_BYTES });
    const end = (error: unknown): void => {
      bytes = [];
      stream.destroy();
      reading.release();
      if (!gone()) failed(error, false);
    };
    stream.on('data', (piece: Buffer) => {
      length += piece.length;
      if (gone()) stream.destroy();
      else if (length > maxBytes) end(tooLarge(maxBytes));
      else if (!reading.add(piece.length)) end(tooMuchToRead());
      else bytes.push(piece);
    });
    stream.on('error', () => end(apiError('invalid_json', 'The request body is not valid gzip.')));
    stream.on('end', () => {
      if (!gone()) parse(() => Buffer.concat(bytes.splice(0), length), length);
    });
    stream.end(compressed);
  }

  /**
   * Parses in steps, so that other requests can run between the steps of a large body. `whole` joins the body into one
   * buffer.
   */
  function parse(whole: () => Uint8Array, length: number): void {
    const read = (): void =>
      turns.take(
        organizationId,
        length,
        step(() => {
          const bytes = account.run(length, () => {
            const all = whole();
            checkJsonComplexity(all);
            return all;
          });
          return decoding(bytes, length);
        }),
      );
    if (length < SMALL_BYTES) starts.add(organizationId, read);
    else read();
  }

  function decoding(bytes: Uint8Array, length: number): Task {
    return step(() =>
      parsing(
        account.charged(length, () => jsonText(bytes)),
        length,
      ),
    );
  }

  function parsing(text: string, length: number): Task {
    return step(() =>
      account.charged(length, () => {
        const body = jsonObject(text);
        reading.release(); // released before `done` reserves memory of its own
        return done(body, length);
      }),
    );
  }

  function step(work: () => Task | undefined): Task {
    return () => {
      if (gone()) return undefined; // the abort handler has released everything
      try {
        return work();
      } catch (error) {
        reading.release();
        failed(error, false);
        return undefined;
      }
    };
  }
}

/**
 * Collects copies of the body's chunks, because the library owns the memory of the originals. Even one-byte chunks take
 * little more than a byte of memory each.
 */
class Gathered {
  private blocks: Buffer[] = [];
  private size = 0;
  private room = 0; // unused bytes of the last block

  add(piece: Uint8Array): void {
    const fits = Math.min(piece.length, this.room);
    const open = this.blocks.at(-1);
    open?.set(piece.subarray(0, fits), open.length - this.room);
    this.room -= fits;
    this.size += piece.length;
    if (fits === piece.length) return;
    const rest = piece.subarray(fits);
    const block = Buffer.allocUnsafeSlow(Math.max(rest.length, Math.min(this.size, MAX_AHEAD_BYTES)));
    block.set(rest);
    this.room = block.length - rest.length;
    this.blocks.push(block);
  }

  /**
   * Returns a function that joins all chunks and `last` into one buffer. Joining copies the body, so it is done only
   * when the body is parsed.
   */
  end(last: Uint8Array): () => Buffer {
    if (this.blocks.length === 0) {
      const whole = Buffer.concat([last]);
      return () => whole;
    }
    this.add(last);
    const { blocks, size } = this;
    return () => Buffer.concat(blocks, size);
  }

  clear(): void {
    this.blocks = [];
    this.size = this.room = 0;
  }
}
