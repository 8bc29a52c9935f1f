// A ServerSocket for one WebSocket of a transport: batches the messages of one tick, limits the buffer for slow
// readers, and pings the peer. The library's socket becomes invalid with its close event, so every use of it checks
// `open` first.
//
//   send() ──► queue ──(end of this tick)──► write to the socket ──► clear: next send() writes again
//                ▲                                │
//                └─────── waits while the socket is full (drained) ──► over the limit: dropped

import { performance } from 'node:perf_hooks';
import { newRequestId } from '../shared/ids.js';
import { finished } from '../telemetry/outcome.js';
import type { Failure, RequestRecord } from '../telemetry/outcome.js';
import type { RequestTrace } from '../telemetry/request-trace.js';
import type { Telemetry } from '../telemetry/types.js';
import type { Identity } from '../shared/identity.js';
import type { RequestClient } from '../shared/request-entry.js';
import type { ResponseMemoryBudget, ResponseReservation } from './response-memory-budget.js';
import { EventLoopMeter, EventLoopClock } from './event-loop-meter.js';
import type { EventLoopBudget } from '../admission/event-loop-budget.js';
import { CLOSE } from './socket.js';
import type { CloseCode, ServerSocket, SocketListener, SocketRoute, SocketTurn } from './socket.js';
import type { StartQueue } from './start-queue.js';
import type { SocketEvents, TransportSocket } from './transport.js';

/** Number of consecutive unanswered pings after which the connection is closed. Two take one minute. */
const UNANSWERED_PINGS = 2;

export interface SocketHost {
  route: SocketRoute;
  bufferBytes: number;
  pingMs: number;
  maxMessageBytes: number;
  loopTime: EventLoopBudget;
  answers: ResponseMemoryBudget;
  /** Queue for incoming messages, because each message may start a turn, which costs as much as a request. */
  starts: StartQueue;
  trace: Telemetry['trace'];
  draining(): boolean;
  turnBegun(turn: SocketTurn): void;
  turnEnded(turn: SocketTurn, record: RequestRecord): void;
  /** Called once, when the connection is closed. */
  gone(socket: SocketConnection): void;
  unexpected(error: unknown, requestId: string): void;
}

/** Values saved from the handshake. */
export interface Handshake {
  requestId: string;
  identity: Identity;
  client: RequestClient;
  header(name: string): string;
  /** Looks up the API key again. Throws or rejects with ApiError 401 or 403. */
  identify(): Identity | Promise<Identity>;
}

export class SocketConnection implements ServerSocket, SocketEvents {
  readonly requestId: string;
  identity: Identity;
  readonly openedAt = performance.now();
  open = false;

  private library: TransportSocket | null = null;
  private listener: SocketListener | null = null;
  private queue: string[] = [];
  private queueBytes = 0; // counted only while the socket is full
  private full = false;
  private leftBytes = 0; // upper bound on the unsent part of the message that filled the socket
  private scheduled = false;
  private dropping = false;
  private unanswered = 0;
  private pings: NodeJS.Timeout | undefined;

  constructor(
    private readonly handshake: Handshake,
    private readonly host: SocketHost,
  ) {
    this.requestId = handshake.requestId;
    this.identity = handshake.identity;
  }

  get client(): RequestClient {
    return this.handshake.client;
  }

  get draining(): boolean {
    return this.host.draining();
  }

  get bufferedBytes(): number {
    return this.queueBytes + (this.open ? (this.library?.getBufferedAmount() ?? 0) : 0);
  }

  header(name: string): string {
    return this.handshake.header(name);
  }

  identify(): Promise<void> | void {
    const known = this.handshake.identify();
    if (known instanceof Promise)
      return known.then((identity) => {
        this.identity = identity;
      });
    this.identity = known;
  }

  /** Called when the handshake is complete. */
  opened(library: TransportSocket): void {
    this.library = library;
    this.open = true;
    this.pings = setInterval(() => this.ping(), this.host.pingMs);
    this.pings.unref();
    this.guard(() => {
      this.listener = this.host.route.open(this);
    });
  }

  received(bytes: Uint8Array, binary: boolean): void {
    this.unanswered = 0;
    if (!this.open) return;
    if (bytes.length > this.host.maxMessageBytes) {
      this.close(CLOSE.tooBig, `A message may have at most ${this.host.maxMessageBytes} bytes.`);
      return;
    }
    let message = bytes;
    this.host.starts.add(
      this.identity.organizationId,
      () => {
        if (this.open) this.guard(() => this.listener?.message(message, binary));
      },
      () => {
        message = bytes.slice();
      },
    ); // the library owns the memory
  }

  ponged(): void {
    this.unanswered = 0;
  }

  /**
   * Called after the library has responded to a ping, which it does even if many pongs are already waiting to be
   * sent.
   */
  pinged(): void {
    if (this.open && (this.library?.getBufferedAmount() ?? 0) > this.leftBytes + this.host.bufferBytes) this.drop();
  }

  drain(): void {
    if (this.open) this.guard(() => this.listener?.drain());
  }

  /** Called on the library's close event. The library's socket must no longer be used. */
  closed(): void {
    if (!this.open) return;
    this.open = false;
    clearInterval(this.pings);
    this.queue = [];
    this.queueBytes = 0;
    this.guard(() => this.listener?.closed());
    this.listener = null;
    this.host.gone(this);
  }

  send(text: string): void {
    if (!this.open || this.dropping) return;
    if (this.full) {
      // Only earlier messages count toward the limit, so that a client that keeps up is not disconnected because of one
      // long message.
      if (this.queueBytes > this.host.bufferBytes) {
        this.drop();
        return;
      }
      this.queueBytes += Buffer.byteLength(text);
    }
    this.queue.push(text);
    if (this.scheduled || this.full) return;
    this.scheduled = true;
    queueMicrotask(() => this.flush());
  }

  close(code: CloseCode, reason: string): void {
    const { library } = this;
    if (!this.open || library === null) return;
    // The library sends its buffered data before the close frame.
    library.cork(() => {
      for (const text of this.queue.splice(0)) library.send(text, false, false);
      library.end(code, reason); // calls closed()
    });
  }

  /** Called when the socket accepts data again. */
  drained(): void {
    if (!this.full || !this.open || (this.library?.getBufferedAmount() ?? 0) > 0) return;
    this.full = false;
    this.leftBytes = 0;
    this.queueBytes = 0;
    this.flush();
  }

  turn(): SocketTurn {
    return new Turn(this, this.host);
  }

  private flush(): void {
    this.scheduled = false;
    const { library } = this;
    if (!this.open || library === null || this.full || this.queue.length === 0) return;
    library.cork(() => {
      let sent = 0;
      while (sent < this.queue.length && !this.full) {
        this.full = library.send(this.queue[sent++] as string, false, false) !== 1;
      }
      this.queue.splice(0, sent);
    });
    if (!this.full) return;
    this.leftBytes = library.getBufferedAmount();
    for (const text of this.queue) this.queueBytes += Buffer.byteLength(text);
  }

  /**
   * Deferred, because the caller of send() may be in the middle of other work. The caller is notified through
   * closed().
   */
  private drop(): void {
    if (this.dropping) return;
    this.dropping = true;
    this.queue = [];
    queueMicrotask(() => {
      if (this.open) this.library?.close();
    });
  }

  private ping(): void {
    if (this.unanswered >= UNANSWERED_PINGS) {
      this.close(CLOSE.goingAway, 'No response to pings.');
      return;
    }
    this.unanswered++;
    this.library?.ping();
  }

  /** An internal error closes only this connection. */
  private guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.host.unexpected(error, this.requestId);
      this.close(CLOSE.internalError, 'The server failed unexpectedly.');
    }
  }
}

class Turn implements SocketTurn {
  readonly requestId = newRequestId();
  readonly receivedAt = performance.now();
  readonly loop = new EventLoopClock();
  readonly trace: RequestTrace | null;
  private fields: RequestRecord['fields'] = {};
  private held: ResponseReservation | null = null;
  private ended = false;

  constructor(
    private readonly socket: SocketConnection,
    private readonly host: SocketHost,
  ) {
    this.trace = host.trace({
      method: 'WEBSOCKET',
      path: host.route.path,
      receivedAt: this.receivedAt,
      header: (name) => socket.header(name),
    });
    this.fields = { connection: socket.requestId };
    host.turnBegun(this);
  }

  read<T>(bytes: number, work: () => T): T {
    return this.#account().run(bytes, work);
  }

  charged<T>(bytes: number, work: () => T): T {
    return this.#account().charged(bytes, work);
  }

  #account(): EventLoopMeter {
    return new EventLoopMeter(this.host.loopTime, this.socket.identity.organizationId, this);
  }

  hold(bytes: number): void {
    if (!this.ended) (this.held ??= this.host.answers.open(this.socket.identity.organizationId)).reserve(bytes);
  }

  keeping(): ResponseReservation {
    return this.host.answers.open(this.socket.identity.organizationId);
  }

  annotate(fields: RequestRecord['fields']): void {
    this.fields = { ...this.fields, ...fields };
  }

  end(status: number, failure: Failure | null): void {
    if (this.ended) return;
    this.ended = true;
    this.held?.release();
    const { socket } = this;
    this.host.turnEnded(
      this,
      finished({
        requestId: this.requestId,
        clientRequestId: socket.header('x-client-request-id').slice(0, 128) || null,
        method: 'WEBSOCKET',
        path: this.host.route.path,
        client: socket.client,
        status,
        failure,
        organizationId: socket.identity.organizationId,
        keyId: socket.identity.keyId,
        loopMs: this.loop.ms,
        durationMs: performance.now() - this.receivedAt,
        aborted: !socket.open,
        fields: this.fields,
        trace: this.trace,
      }),
    );
  }
}
