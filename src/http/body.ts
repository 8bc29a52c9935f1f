// Reads one request body from uWebSockets.js: bounded in time, and in size by Content-Length, then while
// reading, then while decompressing. Holds at most `max_body_bytes` of a request, plus as much again decompressed,
// and of all requests together what the budget has.

import { performance } from 'node:perf_hooks';
import { createGunzip } from 'node:zlib';
import type { BodySource } from './held-body.js';
import { type ApiError, apiError } from '../shared/errors.js';
import { checkJsonExtent, jsonObject, jsonText } from './json.js';
import type { LoopAccount } from './loop-account.js';
import { SMALL_BYTES, type ParseTurns, type Turn } from './parse-turns.js';
import { tooMuchToRead } from './reading-budget.js';
import type { Reading } from './reading-budget.js';
import type { StartQueue } from './start-queue.js';

// A client that is told 413 or 503 while it still sends may see a reset instead of the answer. What it sends is
// therefore swallowed for a while before the connection closes.
const SWALLOW_MS = 2_000;
// Who has used up his time is read and answered so much later: one connection that repeats a large body all the
// time is then read once a second.
const HOLD_MS = 1_000;
// The library closes a connection 10 seconds after the last bytes of an unfinished body. Resuming a paused
// socket starts its clock anew: done this often, the bound that holds is ours.
const RENEW_MS = 4_000;
/** A chunk with an extension keeps the library waiting for bytes that nobody will send. */
const CHUNK_SILENCE_MS = 20_000;
const INFLATED_PIECE_BYTES = 65_536;
/** Room made beyond a piece for those after it; at most as much as there is already. */
const MOST_AHEAD_BYTES = 65_536;

export interface BodyLimits {
  maxBytes: number;
  /** From the headers to the last byte; then 400 request_timeout. */
  timeoutMs: number;
  /** The same for any pause of a body in chunks. */
  chunkSilenceMs?: number | undefined;
}

/** `contentType` null: absent; '': none that is text. */
export interface BodyHeaders {
  contentLength: string;
  contentType: string | null;
  contentEncoding: string;
}

/** What decides over a body before it is read. */
export interface BodyState {
  gzip: boolean;
  oversized: boolean;
  /** It is not read for that reason. */
  refused?: ApiError | null;
  chunked?: boolean;
}

/** Throws ApiError for headers that already decide against the body. Returns whether it is compressed. */
export function checkBodyHeaders(headers: BodyHeaders, maxBytes: number): BodyState {
  const { contentLength } = headers;
  if (contentLength !== '' && !/^\d+$/.test(contentLength))
    throw apiError('invalid_header', 'Content-Length must be a whole number.', 'Content-Length');
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

const quoted = (text: string): string => JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);

export function tooLarge(maxBytes: number): ApiError {
  return apiError('request_too_large', `The request body is larger than ${maxBytes} bytes.`);
}

/** Where a body waits before it is parsed: a small one in `starts`, a large one in `turns`. */
export interface BodyQueues {
  turns: ParseTurns;
  starts: StartQueue;
}

/**
 * Reads and parses the body, then calls exactly one of the two, unless the client goes away first; what `done`
 * takes of the thread is the account's too, and it must not throw, nor what it leaves for later slices. `unread` tells that the client may still be sending. Must be called within the route callback of the server library, or with a HeldBody;
 * `onAborted` must be registered already, and call what this returns: it lets go of everything.
 */
export function readJsonBody(
  res: BodySource,
  { maxBytes, timeoutMs, chunkSilenceMs = CHUNK_SILENCE_MS }: BodyLimits,
  state: BodyState,
  reading: Reading,
  { turns, starts }: BodyQueues,
  organizationId: string,
  account: LoopAccount,
  gone: () => boolean,
  done: (body: object, bytes: number) => Turn | undefined,
  failed: (error: unknown, unread: boolean) => void,
): () => void {
  const gathered = new Gathered();
  let size = 0;
  let refusal: ApiError | null = null; // what is left of the body is swallowed
  let held = false; // nothing is read for a while
  let complete = false;
  let settled = false;
  let timer: NodeJS.Timeout | undefined;
  const began = performance.now();
  let heard = began; // something of the body came last
  const overdue = (): string | null => {
    const now = performance.now();
    if (now - began >= timeoutMs) return `The request body was not complete after ${timeoutMs / 1000} seconds.`;
    if (state.chunked !== true || now - heard < chunkSilenceMs) return null;
    return `The request body is not complete and nothing of it came for ${chunkSilenceMs / 1000} seconds. Chunks with extensions are not supported.`;
  };
  const renewal = setInterval(
    () => {
      if (held) return;
      const late = overdue();
      if (late === null) {
        res.pause();
        res.resume(); // without the pause it would stop reading
      } else if (settle()) {
        reading.release();
        failed(apiError('request_timeout', late), true);
      }
    },
    Math.min(RENEW_MS, timeoutMs, chunkSilenceMs),
  );
  renewal.unref();

  /** False if it was settled before. */
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

  /** In steps: of a large body others are let in between them. `whole` makes one piece of it. */
  function parse(whole: () => Uint8Array, length: number): void {
    const read = (): void =>
      turns.take(
        organizationId,
        length,
        step(() => {
          const bytes = account.run(length, () => {
            const all = whole();
            checkJsonExtent(all);
            return all;
          });
          return decoding(bytes, length);
        }),
      );
    if (length < SMALL_BYTES) starts.add(organizationId, read);
    else read();
  }

  function decoding(bytes: Uint8Array, length: number): Turn {
    return step(() =>
      parsing(
        account.charged(length, () => jsonText(bytes)),
        length,
      ),
    );
  }

  function parsing(text: string, length: number): Turn {
    return step(() =>
      account.charged(length, () => {
        const body = jsonObject(text);
        reading.release(); // before anything comes of it
        return done(body, length);
      }),
    );
  }

  function step(work: () => Turn | undefined): Turn {
    return () => {
      if (gone()) return undefined; // who let go of everything
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

/** Pieces of a body as they come, copied: their memory is the server library's. A piece of one byte costs little more than one. */
class Gathered {
  private blocks: Buffer[] = [];
  private size = 0;
  private room = 0; // left in the last block

  add(piece: Uint8Array): void {
    const fits = Math.min(piece.length, this.room);
    const open = this.blocks.at(-1);
    open?.set(piece.subarray(0, fits), open.length - this.room);
    this.room -= fits;
    this.size += piece.length;
    if (fits === piece.length) return;
    const rest = piece.subarray(fits);
    const block = Buffer.allocUnsafeSlow(Math.max(rest.length, Math.min(this.size, MOST_AHEAD_BYTES)));
    block.set(rest);
    this.room = block.length - rest.length;
    this.blocks.push(block);
  }

  /** What makes one piece of all of it and a last piece: that is another copy, which waits for its turn where there are many. */
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
