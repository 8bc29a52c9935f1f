// Reads one request body from uWebSockets.js: bounded in time, and in size by Content-Length, then while
// reading, then while decompressing. Holds at most `max_body_bytes` of a request, plus as much again decompressed.

import { performance } from 'node:perf_hooks';
import { gunzip } from 'node:zlib';
import type { HttpResponse } from 'uWebSockets.js';
import { ApiError, apiError } from '../errors.js';
import { parseJsonBody } from './json.js';

// A client that is told 413 while it still sends may see a reset instead of the answer. What it sends is
// therefore swallowed for a while before the connection closes.
const SWALLOW_MS = 2_000;
// The library closes a connection 10 seconds after the last bytes of an unfinished body. Resuming a paused
// socket starts its clock anew: done this often, the bound that holds is ours.
const RENEW_MS = 4_000;

export interface BodyLimits {
  maxBytes: number;
  /** From the headers to the last byte; then 400 request_timeout. */
  timeoutMs: number;
}

export interface BodyHeaders { contentLength: string; contentType: string; contentEncoding: string }

/** Throws ApiError for headers that already decide against the body. Returns whether it is compressed. */
export function checkBodyHeaders(headers: BodyHeaders, maxBytes: number): { gzip: boolean; oversized: boolean } {
  const { contentLength } = headers;
  if (contentLength !== '' && !/^\d+$/.test(contentLength)) throw apiError('invalid_header', 'Content-Length must be a whole number.', 'Content-Length');
  if (Number(contentLength) > maxBytes) return { gzip: false, oversized: true };
  const mediaType = (headers.contentType.split(';')[0] as string).trim().toLowerCase();
  if (mediaType !== '' && mediaType !== 'application/json') {
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

/**
 * Reads and parses the body, then calls exactly one of the two, unless the client goes away first. Must be
 * called within the route callback of the server library; `onAborted` must be registered already, and call
 * what this returns: it lets go of everything.
 */
export function readJsonBody(
  res: HttpResponse, { maxBytes, timeoutMs }: BodyLimits, state: { gzip: boolean; oversized: boolean },
  gone: () => boolean, done: (body: object) => void, failed: (error: unknown) => void,
): () => void {
  let pieces: Buffer[] = [];
  let size = 0;
  let over = state.oversized;
  let settled = false;
  let timer: NodeJS.Timeout | undefined;
  const began = performance.now();
  const renewal = setInterval(() => {
    if (performance.now() - began < timeoutMs) {
      res.pause();
      res.resume();   // without the pause it would stop reading
    } else if (settle()) {
      failed(apiError('request_timeout', `The request body was not complete after ${timeoutMs / 1000} seconds.`));
    }
  }, Math.min(RENEW_MS, timeoutMs));
  renewal.unref();

  /** False if it was settled before. */
  function settle(): boolean {
    if (settled) return false;
    settled = true;
    pieces = [];
    clearTimeout(timer);
    clearInterval(renewal);
    return true;
  }

  const refuse = (): void => {
    if (settle() && !gone()) failed(tooLarge(maxBytes));
  };
  const startSwallowing = (): void => {
    over = true;
    pieces = [];
    timer = setTimeout(refuse, SWALLOW_MS);
    timer.unref();
  };
  if (over) startSwallowing();

  res.onData((piece, isLast) => {
    if (settled) return;
    size += piece.byteLength;
    if (!over && size > maxBytes) startSwallowing();
    if (over) {
      if (isLast || size > 4 * maxBytes) refuse();
      return;
    }
    if (!isLast) {
      pieces.push(Buffer.from(new Uint8Array(piece)));   // the server library reuses the memory
      return;
    }
    const last = Buffer.from(piece);
    const whole = pieces.length === 0 ? last : Buffer.concat([...pieces, last], size);
    settle();
    if (state.gzip) inflate(Buffer.from(whole));
    else parse(whole);
  });

  return () => void settle();

  function inflate(compressed: Buffer): void {
    gunzip(compressed, { maxOutputLength: maxBytes }, (error, bytes) => {
      if (gone()) return;
      if (error === null) parse(bytes);
      else if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') failed(tooLarge(maxBytes));
      else failed(apiError('invalid_json', 'The request body is not valid gzip.'));
    });
  }

  function parse(bytes: Uint8Array): void {
    let body: object;
    try {
      body = parseJsonBody(bytes);
    } catch (error) {
      failed(error);
      return;
    }
    done(body);
  }
}
