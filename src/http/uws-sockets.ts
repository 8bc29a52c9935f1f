// The WebSocket paths of a server: how many connections each organization has, what is in flight on them,
// and their end at shutdown. The handshake's checks that HTTP requests have too are app.ts's.

import type { HttpResponse, TemplatedApp, HttpRequest, us_socket_context_t } from 'uWebSockets.js';
import type { LoopTime } from '../admission/loop-time.js';
import type { Config } from '../config/settings.js';
import { ApiError, apiError } from '../shared/errors.js';
import type { RequestRecord } from '../telemetry/outcome.js';
import type { Telemetry } from '../telemetry/types.js';
import type { AnswerBudget } from './answer-budget.js';
import { organizationShare } from './reading-budget.js';
import type { SocketRoute, SocketTurn } from './socket.js';
import type { StartQueue } from './start-queue.js';
import { UwsSocket } from './uws-socket.js';
import type { Handshake, SocketData, SocketHost } from './uws-socket.js';

const PING_MS = 30_000;

export interface SocketsOptions {
  config: Config;
  pingMs?: number | undefined;
  connect?: Connect | undefined;
  loopTime: LoopTime;
  answers: AnswerBudget;
  starts: StartQueue;
  trace: Telemetry['trace'];
  draining(): boolean;
  turnEnded(record: RequestRecord): void;
  unexpected(error: unknown, requestId: string): void;
}

/** Takes one of the organization's places. Throws ApiError 429. */
export type Admit = (handshake: Handshake) => UwsSocket;

/** Takes one of an organization's `limit` places. Throws ApiError 429, 503; returns how to give it back, once. */
export type Connect = (organizationId: string, limit: number) => () => void;

export class UwsSockets {
  private readonly open = new Map<UwsSocket, () => void>(); // with how to give its place back
  private readonly connect: Connect;
  private readonly turns = new Set<SocketTurn>();

  constructor(private readonly options: SocketsOptions) {
    this.connect = options.connect ?? ownPlaces();
  }

  /** Turns that run. */
  get inFlight(): number {
    return this.turns.size;
  }

  /** `upgrade` gets every request that asks for a WebSocket on the path; others go on to the app's routes. */
  register(
    app: TemplatedApp,
    route: SocketRoute,
    upgrade: (res: HttpResponse, req: HttpRequest, context: us_socket_context_t, admit: Admit) => void,
  ): void {
    const { config } = this.options;
    const limit = config.ws.max_message_bytes;
    const host: SocketHost = {
      path: route.path,
      bufferBytes: config.http.stream_buffer_bytes,
      maxMessageBytes: limit,
      pingMs: this.options.pingMs ?? PING_MS,
      loopTime: this.options.loopTime,
      answers: this.options.answers,
      starts: this.options.starts,
      trace: (request) => this.options.trace(request),
      draining: () => this.options.draining(),
      turnBegun: (turn) => this.turns.add(turn),
      turnEnded: (turn, record) => {
        this.turns.delete(turn);
        this.options.turnEnded(record);
      },
      gone: (socket) => this.leave(socket),
      unexpected: (error, id) => this.options.unexpected(error, id),
    };
    const admit: Admit = (handshake) => this.admit(host, handshake);
    for (const path of [route.path, `${route.path}/`]) {
      app.ws<SocketData>(path, {
        // Past its bound the library breaks the connection off without a close frame. A message that is only
        // somewhat too long is therefore let in and answered with 1009. Not much: the library keeps what it has of
        // an unfinished message, and tells nobody how much that is.
        maxPayloadLength: Math.min(Math.ceil(limit * 1.125), 2 ** 31 - 1),
        maxBackpressure: 0, // ours is in UwsSocket.send
        idleTimeout: 0, // pings are ours: the library knows no close code for silence
        sendPingsAutomatically: false,
        upgrade: (res, req, context) => upgrade(res, req, context, admit),
        open: (library) => library.getUserData().socket.opened(library, (socket) => route.open(socket)),
        message: (library, bytes, binary) => library.getUserData().socket.received(new Uint8Array(bytes), binary),
        drain: (library) => library.getUserData().socket.drained(),
        ping: (library) => library.getUserData().socket.pinged(),
        pong: (library) => library.getUserData().socket.ponged(),
        close: (library) => library.getUserData().socket.closed(),
      });
    }
  }

  /** Tells every connection that the server shuts down. */
  drain(): void {
    for (const socket of [...this.open.keys()]) socket.drain();
  }

  private admit(host: SocketHost, handshake: Handshake): UwsSocket {
    const leave = this.enter(handshake.identity.organizationId);
    const socket = new UwsSocket(handshake, host);
    this.open.set(socket, leave);
    return socket;
  }

  /**
   * The library collects a message in memory of its own and reports it only once it is complete. The sum is therefore bounded by
   * the number of connections: each may hold one message of the largest size.
   */
  private enter(organizationId: string): () => void {
    const { http, ws } = this.options.config;
    const fit = Math.floor(organizationShare(http.max_reading_bytes, http.max_body_bytes) / ws.max_message_bytes);
    if (ws.max_connections <= fit) return this.connect(organizationId, ws.max_connections);
    try {
      return this.connect(organizationId, fit);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'concurrency_limit_exceeded') throw error;
      throw apiError(
        'capacity_exhausted',
        `The incomplete messages of more than ${fit} WebSocket connections may need more memory than an organization may use (half of http.max_reading_bytes; ws.max_message_bytes each).`,
        null,
        { retryAfterMs: 1000 },
      );
    }
  }

  private leave(socket: UwsSocket): void {
    this.open.get(socket)?.();
    this.open.delete(socket);
  }
}

/** Counts for one server alone. */
function ownPlaces(): Connect {
  const taken = new Map<string, number>();
  return (organizationId, limit) => {
    const before = taken.get(organizationId) ?? 0;
    if (before >= limit)
      throw apiError(
        'concurrency_limit_exceeded',
        `This organization has ${before} WebSocket connections open, the most it may have.`,
        null,
        { retryAfterMs: 1000 },
      );
    taken.set(organizationId, before + 1);
    return () => {
      taken.set(organizationId, (taken.get(organizationId) ?? 1) - 1);
    };
  };
}
