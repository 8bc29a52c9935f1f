// A transport's WebSocket on the ws package.

import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { SocketEvents, TransportSocket } from './transport.js';

/** How long a client may take to respond to a close frame, in ms. */
const CLOSE_MS = 5_000;
/** Memory per piece of an unfinished message, in bytes. Even a piece of a single byte takes about this much. */
const PIECE_BYTES = 256;
const MIN_PIECES = 1_024;

export class NodeWebSockets {
  private readonly server: WebSocketServer;
  private readonly open = new Set<NodeWebSocket>();
  private headerLines: readonly string[] = [];

  constructor(maxMessageBytes: number) {
    const options = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      // No subprotocol is negotiated; the client's offers are ignored.
      handleProtocols: () => false as const,
      // Messages slightly over the limit reach SocketConnection, which closes the connection with a more specific
      // message.
      maxPayload: Math.min(Math.ceil(maxMessageBytes * 1.125), 2 ** 31 - 1),
      // The number of pieces is also limited, so that a client that sends one byte at a time cannot use much more
      // memory than the maximum message size.
      maxBufferedChunks: Math.max(MIN_PIECES, Math.ceil(maxMessageBytes / PIECE_BYTES)),
      maxPendingAutoPongs: 0, // SocketConnection.pinged() limits unsent pongs
      closeTimeout: CLOSE_MS,
    };
    this.server = new WebSocketServer(options);
    this.server.on('headers', (lines) => lines.push(...this.headerLines));
  }

  /** Sends the 101. Reports `closed` immediately if the client has disconnected. */
  accept(
    incoming: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    lines: readonly string[],
    events: SocketEvents,
  ): void {
    this.headerLines = lines;
    delete incoming.headers['sec-websocket-protocol'];
    let accepted = false;
    this.server.handleUpgrade(incoming, socket, head, (ws) => {
      accepted = true;
      const one = new NodeWebSocket(ws, events, () => this.open.delete(one));
      this.open.add(one);
      one.start();
    });
    if (accepted) return;
    events.opened(CLOSED);
    events.closed();
  }

  /** Closes all connections without a close frame. */
  close(): void {
    for (const socket of [...this.open]) socket.close();
  }
}

class NodeWebSocket implements TransportSocket {
  private isOpen = true;
  private backlog = false; // data was unsent before the current cork
  private corked = false;
  private readonly sent = (): void => {
    if (this.isOpen && this.ws.bufferedAmount === 0) this.events.drained();
  };

  constructor(
    private readonly ws: WebSocket,
    private readonly events: SocketEvents,
    private readonly gone: () => void,
  ) {}

  start(): void {
    const { ws, events } = this;
    ws.on('message', (data: Buffer, binary) => events.received(data, binary));
    ws.on('ping', () => events.pinged());
    ws.on('pong', () => events.ponged());
    ws.on('error', () => undefined); // `close` follows
    ws.on('close', () => this.ended());
    events.opened(this);
  }

  cork(work: () => void): void {
    const { _socket: socket } = this.ws as unknown as { _socket: Duplex };
    this.backlog = this.ws.bufferedAmount > 0;
    this.corked = true;
    socket.cork();
    try {
      work();
    } finally {
      this.corked = false;
      socket.uncork();
    }
  }

  send(text: string): number {
    this.ws.send(text, { binary: false, compress: false }, this.sent);
    return (this.corked ? !this.backlog : this.ws.bufferedAmount === 0) ? 1 : 0;
  }

  getBufferedAmount(): number {
    return this.ws.bufferedAmount;
  }

  ping(): void {
    this.ws.ping();
  }

  end(code: number, reason: string): void {
    this.ws.close(code, reason);
    this.ended();
  }

  close(): void {
    this.ws.terminate();
    this.ended();
  }

  private ended(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.gone();
    this.events.closed();
  }
}

/** Represents a connection that was closed during its handshake. */
const CLOSED: TransportSocket = {
  cork: (work) => work(),
  send: () => 1,
  getBufferedAmount: () => 0,
  ping: () => undefined,
  end: () => undefined,
  close: () => undefined,
};
