// A server's WebSocket routes: connections per organization, turns in flight, and shutdown. The handshake checks shared
// with HTTP requests are in app.ts.

import type { EventLoopBudget } from '../admission/event-loop-budget.js';
import type { Config } from '../config/settings.js';
import { ApiError, apiError } from '../shared/errors.js';
import type { RequestRecord } from '../telemetry/outcome.js';
import type { Telemetry } from '../telemetry/types.js';
import type { ResponseMemoryBudget } from './response-memory-budget.js';
import { organizationShare } from './request-memory-budget.js';
import type { SocketRoute, SocketTurn } from './socket.js';
import type { StartQueue } from './start-queue.js';
import { SocketConnection } from './socket-connection.js';
import type { Handshake, SocketHost } from './socket-connection.js';

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
export type Admit = (handshake: Handshake) => SocketConnection;

/**
 * Takes one of an organization's `limit` connection slots. Returns a function that releases it, which must be called
 * once. Throws ApiError 429 or 503.
 */
export type Connect = (organizationId: string, limit: number) => () => void;

export class SocketConnections {
  private readonly open = new Map<SocketConnection, () => void>(); // the value releases the connection slot
  private readonly connect: Connect;
  private readonly turns = new Set<SocketTurn>();

  constructor(private readonly options: SocketsOptions) {
    this.connect = options.connect ?? ownPlaces();
  }

  /** Number of running turns. */
  get inFlight(): number {
    return this.turns.size;
  }

  /** Takes a connection slot for a handshake on the route. */
  admitTo(route: SocketRoute): Admit {
    const { config } = this.options;
    const host: SocketHost = {
      route,
      bufferBytes: config.http.stream_buffer_bytes,
      maxMessageBytes: config.ws.max_message_bytes,
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
    return (handshake) => this.admit(host, handshake);
  }

  /** Notifies every connection that the server is shutting down. */
  drain(): void {
    for (const socket of [...this.open.keys()]) socket.drain();
  }

  private admit(host: SocketHost, handshake: Handshake): SocketConnection {
    const leave = this.enter(handshake.identity.organizationId);
    const socket = new SocketConnection(handshake, host);
    this.open.set(socket, leave);
    return socket;
  }

  /**
   * The library collects each message in its own memory and reports it only when it is complete. Therefore, the total
   * size of unfinished messages is limited through the number of connections, each of which can have one message of the
   * maximum size.
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

  private leave(socket: SocketConnection): void {
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
