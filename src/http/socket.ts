// What a protocol sees of one WebSocket connection. Implemented over uWebSockets.js in this folder; protocols
// depend on these types only. All calls happen on the event-loop thread that owns the socket.

import type { Failure } from '../telemetry/outcome.js';
import type { RequestTrace } from '../telemetry/request-trace.js';
import type { KeptAnswer } from './exchange.js';
import type { Identity, Scope } from '../shared/identity.js';

/** The close codes of RFC 6455 that this server sends. */
export const CLOSE = {
  goingAway: 1001,
  policyViolation: 1008,
  tooBig: 1009,
  internalError: 1011,
  serviceRestart: 1012,
} as const;
export type CloseCode = (typeof CLOSE)[keyof typeof CLOSE];

export interface SocketRoute {
  path: string; // exact, no pattern
  scope: Scope | null;
  /** A handshake that passed every check. Never called while the server drains. */
  open(socket: ServerSocket): SocketListener;
}

/** Called by the server. What they throw is logged and closes the connection (1011), nothing else. */
export interface SocketListener {
  /** One whole message. `bytes` are valid during the call only; at most ws.max_message_bytes. */
  message(bytes: Uint8Array, binary: boolean): void;
  /** The server shuts down: what has not begun is to be refused, what runs may go on for a while. Once. */
  drain(): void;
  /** The connection is gone, whoever closed it. Once; nothing follows. */
  closed(): void;
}

export interface ServerSocket {
  readonly requestId: string; // of the handshake
  readonly identity: Identity; // as of the handshake, or of the last identify()
  readonly openedAt: number; // performance.now()
  readonly open: boolean;
  readonly draining: boolean;
  /** A header of the handshake: lower-case name; '' if absent. */
  header(name: string): string;
  /** Looks the key of the handshake up again, at once or with a promise. Throws or rejects with ApiError 401, 403. */
  identify(): Promise<void> | void;
  /** Queues one text message; those of one tick leave together. Past the bound for slow readers the connection is dropped. */
  send(text: string): void;
  /** Sends what is queued, then the close frame. `reason`: at most 123 bytes. */
  close(code: CloseCode, reason: string): void;
  /** Bytes waiting for a slow reader. */
  readonly bufferedBytes: number;
  /** A turn begins: one line in the request log, and a request in flight until end(). */
  turn(): SocketTurn;
}

export interface SocketTurn {
  readonly requestId: string; // req_…, of its own
  readonly receivedAt: number; // performance.now()
  /** Of a turn that is recorded. */
  readonly trace: RequestTrace | null;
  /** Runs what reads and checks a message of so many bytes, on the organization's account (limits.loop_ms). Throws ApiError 429 instead if that is used up. */
  read<T>(bytes: number, work: () => T): T;
  /** As read(), but what goes on with the message is not refused any more. */
  charged<T>(bytes: number, work: () => T): T;
  /** So many bytes more are kept for what the turn makes, until its end. Throws ApiError 503, and 422 if nothing may have so many. */
  hold(bytes: number): void;
  /** A separate reservation. The caller that opens it releases it. */
  keeping(): KeptAnswer;
  annotate(fields: Record<string, string | number | boolean | null>): void;
  /** `status` as the answer would have over HTTP; 0 if nobody waited for its end. `failure`: what was told. Later calls do nothing. */
  end(status: number, failure: Failure | null): void;
}
