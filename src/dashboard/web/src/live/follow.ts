// A long-lived event stream. Reconnects with increasing delays until the caller closes the stream or the server refuses
// it. Does not need the DOM. Each call of follow() follows one stream.

import { readEvents, StreamError } from './event-reader.js';
import type { ServerEvent } from './event-reader.js';

export type Connection =
  | { state: 'connecting' }
  | { state: 'open' }
  /** The connection is lost. The next attempt starts at `until`, in Date.now() time. */
  | { state: 'waiting'; until: number; reason: string }
  /** A permanent failure: signed out, no permission, or not found. */
  | { state: 'refused'; status: number; reason: string };

export interface FollowOptions {
  open(signal: AbortSignal): Promise<Response>;
  onEvent(event: ServerEvent): void;
  onConnection(connection: Connection): void;
  /** The stream counts as lost after this long without data. Default: 10 s. */
  idleMs?: number;
  firstPauseMs?: number;
  longestPauseMs?: number;
}

/** Starts following. The returned function stops it; no callback runs afterwards. */
export function follow(options: FollowOptions): () => void {
  const { idleMs = 10_000, firstPauseMs = 500, longestPauseMs = 15_000 } = options;
  const controller = new AbortController();
  const { signal } = controller;
  let pauseMs = firstPauseMs;

  const attempt = async (): Promise<Connection> => {
    const response = await options.open(signal);
    if (!response.ok || response.body === null) {
      const reason = await errorMessage(response);
      if (isFinal(response.status)) return { state: 'refused', status: response.status, reason };
      return waiting(reason, retryAfterMs(response));
    }
    if (!(response.headers.get('content-type') ?? '').includes('text/event-stream')) {
      await response.body.cancel().catch(() => undefined);
      return waiting('The server did not respond with a stream.');
    }
    options.onConnection({ state: 'open' });
    for await (const event of readEvents(response.body, { idleMs })) {
      if (signal.aborted) break;
      pauseMs = firstPauseMs;
      options.onEvent(event);
    }
    return waiting('The server ended the stream.');
  };

  const waiting = (reason: string, atLeastMs = 0): Connection => {
    // Random jitter, so that pages do not all reconnect at the same moment after a restart.
    const ms = Math.max(atLeastMs, pauseMs * (0.75 + Math.random() / 2));
    pauseMs = Math.min(pauseMs * 2, longestPauseMs);
    return { state: 'waiting', until: Date.now() + ms, reason };
  };

  void (async () => {
    while (!signal.aborted) {
      options.onConnection({ state: 'connecting' });
      const next = await attempt().catch((error: unknown) =>
        waiting(error instanceof StreamError ? error.message : 'Cannot reach the server.'),
      );
      if (signal.aborted) return;
      options.onConnection(next);
      if (next.state !== 'waiting') return;
      await pause(next.until - Date.now(), signal);
    }
  })();
  return () => {
    controller.abort();
  };
}

const isFinal = (status: number): boolean => status >= 400 && status < 500 && status !== 429;

function retryAfterMs(response: Response): number {
  const seconds = Number(response.headers.get('retry-after'));
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), 60) * 1000 : 0;
}

async function errorMessage(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { error?: { message?: unknown } };
    if (typeof error?.message === 'string') return error.message;
  } catch {
    /* the body is not one of this server's JSON errors but, for example, a proxy's error page */
  }
  return `The server responded with status ${response.status}.`;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const timer = setTimeout(done, Math.max(ms, 0));
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
  });
}
