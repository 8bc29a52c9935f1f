// A protocol's view of one WebSocket connection. Implemented in this directory; protocols depend only
// on these types. All calls happen on the event-loop thread that owns the socket.

import type { BufferReservation } from '../shared/buffer-reservation.js';
import type { Failure } from '../telemetry/outcome.js';
import type { RequestTrace } from '../telemetry/request-trace.js';
import type { Identity, Scope } from '../shared/identity.js';
import type { RequestClient } from '../shared/request-entry.js';

/** The RFC 6455 close codes that this server sends. */
export const CLOSE = {
  goingAway: 1001,
  policyViolation: 1008,
  tooBig: 1009,
  internalError: 1011,
  serviceRestart: 1012,
} as const;
export type CloseCode = (typeof CLOSE)[keyof typeof CLOSE];

export interface SocketRoute {
  path: string; // an exact path, not a pattern
  scope: Scope | null;
  /** Called after a handshake has passed every check. Never called while the server is draining. */
  open(socket: ServerSocket): SocketListener;
}

/**
 * Called by the server. An error thrown by a listener is logged and closes its connection (1011); other connections are
 * not affected.
 */
export interface SocketListener {
  /** Called with one complete message of at most ws.max_message_bytes. `bytes` is valid only during the call. */
  message(bytes: Uint8Array, binary: boolean): void;
  /**
   * Called once, when the server starts to shut down. New work must be refused; running work may continue until the
   * drain ends.
   */
  drain(): void;
  /** Called once, as the last call, when either side has closed the connection. */
  closed(): void;
}

export interface ServerSocket {
  readonly requestId: string; // the handshake's request ID
  readonly identity: Identity; // from the handshake or the last identify()
  readonly openedAt: number; // performance.now()
  readonly open: boolean;
  readonly draining: boolean;
  /** Returns a header of the handshake by its lower-case name, or '' if the header is absent. */
  header(name: string): string;
  /**
   * Looks up the API key from the handshake again, synchronously or asynchronously. Throws or rejects with ApiError 401
   * or 403.
   */
  identify(): Promise<void> | void;
  /**
   * Queues one text message; messages sent in one tick are written together. If a slow reader's buffer exceeds its
   * limit, the connection is closed.
   */
  send(text: string): void;
  /** Sends everything queued, then the close frame. `reason`: at most 123 bytes. */
  readonly client: RequestClient;
  close(code: CloseCode, reason: string): void;
  /** Bytes buffered for a slow reader. */
  readonly bufferedBytes: number;
  /** Starts a turn: one line in the request log, and one request in flight until end(). */
  turn(): SocketTurn;
}

export interface SocketTurn {
  readonly requestId: string; // this turn's ID: req_…
  readonly receivedAt: number; // performance.now()
  /** Null if the turn is not traced. */
  readonly trace: RequestTrace | null;
  /**
   * Runs work that reads and checks a message of `bytes` bytes, and charges its time to the organization
   * (limits.event_loop_ms). If the organization's budget is used up, throws ApiError 429 without running the work.
   */
  read<T>(bytes: number, work: () => T): T;
  /** Like read(), but for further work on the message. Never refused. */
  charged<T>(bytes: number, work: () => T): T;
  /**
   * Reserves `bytes` more for the turn's output, until the turn ends. Throws ApiError 503, or 422 if the output exceeds
   * the size limit for one response.
   */
  hold(bytes: number): void;
  /** Opens a separate reservation. The caller must release it. */
  keeping(): BufferReservation;
  annotate(fields: Record<string, string | number | boolean | null>): void;
  /**
   * `status`: the status that the response would have over HTTP, or 0 if the client disconnected first. `failure`: the
   * error that was sent. Calls after the first have no effect.
   */
  end(status: number, failure: Failure | null): void;
}
