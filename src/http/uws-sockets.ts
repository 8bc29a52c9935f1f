// The WebSocket paths of a server: how many connections each organization has, what is in flight on them,
// and their end at shutdown. The handshake's checks that HTTP requests have too are app.ts's.

import type { HttpResponse, TemplatedApp, HttpRequest, us_socket_context_t } from 'uWebSockets.js';
import type { Config } from '../config.js';
import { apiError } from '../errors.js';
import type { RequestRecord } from '../telemetry/types.js';
import type { SocketRoute, SocketTurn } from './socket.js';
import { UwsSocket } from './uws-socket.js';
import type { Handshake, SocketData, SocketHost } from './uws-socket.js';

const PING_MS = 30_000;

export interface SocketsOptions {
  config: Config;
  pingMs?: number | undefined;
  draining(): boolean;
  turnEnded(record: RequestRecord): void;
  unexpected(error: unknown, requestId: string): void;
}

/** Takes one of the organization's places. Throws ApiError 429. */
export type Admit = (handshake: Handshake) => UwsSocket;

export class UwsSockets {
  private readonly open = new Set<UwsSocket>();
  private readonly perOrganization = new Map<string, number>();
  private readonly turns = new Set<SocketTurn>();

  constructor(private readonly options: SocketsOptions) {}

  /** Turns that run. */
  get inFlight(): number {
    return this.turns.size;
  }

  /** `upgrade` gets every request that asks for a WebSocket on the path; others go on to the app's routes. */
  register(app: TemplatedApp, route: SocketRoute, upgrade: (res: HttpResponse, req: HttpRequest, context: us_socket_context_t, admit: Admit) => void): void {
    const { config } = this.options;
    const limit = config.http.max_body_bytes;
    const host: SocketHost = {
      path: route.path, bufferBytes: config.http.stream_buffer_bytes, maxMessageBytes: limit,
      pingMs: this.options.pingMs ?? PING_MS,
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
        maxBackpressure: 0,                      // ours is in UwsSocket.send
        idleTimeout: 0,                          // pings are ours: the library knows no close code for silence
        sendPingsAutomatically: false,
        upgrade: (res, req, context) => upgrade(res, req, context, admit),
        open: (library) => library.getUserData().socket.opened(library, (socket) => route.open(socket)),
        message: (library, bytes, binary) => library.getUserData().socket.received(new Uint8Array(bytes), binary),
        drain: (library) => library.getUserData().socket.drained(),
        pong: (library) => library.getUserData().socket.ponged(),
        close: (library) => library.getUserData().socket.closed(),
      });
    }
  }

  /** Tells every connection that the server shuts down. */
  drain(): void {
    for (const socket of [...this.open]) socket.drain();
  }

  private admit(host: SocketHost, handshake: Handshake): UwsSocket {
    const { organizationId } = handshake.identity;
    const limit = this.options.config.ws.max_connections;
    const taken = this.perOrganization.get(organizationId) ?? 0;
    if (taken >= limit) {
      throw apiError('concurrency_limit_exceeded', `This organization has ${taken} WebSocket connections open; the limit is ${limit}.`, null, { retryAfterMs: 1000 });
    }
    const socket = new UwsSocket(handshake, host);
    this.perOrganization.set(organizationId, taken + 1);
    this.open.add(socket);
    return socket;
  }

  private leave(socket: UwsSocket): void {
    if (!this.open.delete(socket)) return;
    const { organizationId } = socket.identity;   // a key stays with its organization
    const left = (this.perOrganization.get(organizationId) ?? 1) - 1;
    if (left === 0) this.perOrganization.delete(organizationId);
    else this.perOrganization.set(organizationId, left);
  }
}
