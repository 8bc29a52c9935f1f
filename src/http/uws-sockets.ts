// A server's WebSocket routes: connections per organization, turns in flight, and shutdown. The handshake checks shared
// with HTTP requests are in app.ts.

import type { HttpResponse, TemplatedApp, HttpRequest, us_socket_context_t } from 'uWebSockets.js';
import type { EventLoopBudget } from '../admission/event-loop-budget.js';
import type { Config } from '../config/settings.js';
import { ApiError, apiError } from '../shared/errors.js';
import type { RequestRecord } from '../telemetry/outcome.js';
import type { Telemetry } from '../telemetry/types.js';
import type { ResponseMemoryBudget } from './response-memory-budget.js';
import { organizationShare } from './request-memory-budget.js';
import type { SocketRoute, SocketTurn } from './socket.js';
import type { StartQueue } from './start-queue.js';
import { UwsSocket } from './uws-socket.js';
import type { Handshake, SocketData, SocketHost } from './uws-socket.js';

const PING_MS = 30_000;

export interface SocketsOptions {
  config: Config;
  pingMs?: number | undefined;
  connect?: Connect | undefined;
  loopTime: EventLoopBudget;
  answers: ResponseMemoryBudget;
  starts: StartQueue;
  trace: Telemetry['trace'];
  draining(): boolean;
  turnEnded(record: RequestRecord): void;
  unexpected(error: unknown, requestId: string): void;
}

/** Takes one of the organization's connection slots. Throws ApiError 429. */
export type Admit = (handshake: Handshake) => UwsSocket;

/**
 * Takes one of an organization's `limit` connection slots. Returns a function that releases it, which must be called
 * once. Throws ApiError 429 or 503.
 */
export type Connect = (organizationId: string, limit: number) => () => void;

export class UwsSockets {
  private readonly open = new Map<UwsSocket, () => void>(); // the value releases the connection slot
  private readonly connect: Connect;
  private readonly turns = new Set<SocketTurn>();

  constructor(private readonly options: SocketsOptions) {
    this.connect = options.connect ?? ownPlaces();
  }

  /** Number of running turns. */
  get inFlight(): number {
    return this.turns.size;
  }

  /** `upgrade` receives every WebSocket handshake on the path. Other requests continue to the app's routes. */
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
        // Above this limit, the library closes the connection without a close frame. So messages that exceed our limit
        // slightly are accepted here, and the connection is then closed with 1009. The margin is small, because the
        // library buffers unfinished messages without reporting their size.
        maxPayloadLength: Math.min(Math.ceil(limit * 1.125), 2 ** 31 - 1),
        maxBackpressure: 0, // UwsSocket.send enforces our own limit
        idleTimeout: 0, // our own pings detect silence, because the library has no close code for it
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

  /** Notifies every connection that the server is shutting down. */
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
   * The library collects each message in its own memory and reports it only when it is complete. So the total size of
   * unfinished messages is limited through the number of connections, each of which may hold one message of the maximum
   * size.
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
        `Too many WebSocket connections: the incomplete messages of more than ${fit} connections could exceed this organization's memory limit (half of http.max_reading_bytes; ws.max_message_bytes each).`,
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

/** Counts only this server's connections. */
function ownPlaces(): Connect {
  const taken = new Map<string, number>();
  return (organizationId, limit) => {
    const before = taken.get(organizationId) ?? 0;
    if (before >= limit)
      throw apiError(
        'concurrency_limit_exceeded',
        `This organization already has the maximum of ${before} open WebSocket connections.`,
        null,
        { retryAfterMs: 1000 },
      );
    taken.set(organizationId, before + 1);
    return () => {
      taken.set(organizationId, (taken.get(organizationId) ?? 1) - 1);
    };
  };
}
