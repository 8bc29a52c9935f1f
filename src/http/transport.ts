// The interface between the HTTP semantics in this directory and the library that owns the sockets. Its methods have
// the names and contracts of uWebSockets.js, whose objects implement it without adapters. node-transport.ts implements
// it on node:http and ws. All calls happen on the event-loop thread that owns the socket.

/** A request as a transport receives it. Valid only within the call that receives it. */
export interface TransportRequest {
  getMethod(): string;
  /** The path without the query. */
  getUrl(): string;
  getQuery(): string | undefined;
  /** Lower-case name; '' if absent. */
  getHeader(name: string): string;
  /** All header lines in order: name in lower case, and value ('' if its bytes are not UTF-8). */
  forEach(callback: (name: string, value: string) => void): void;
}

/** `piece` is valid only during the call. */
export type TakePiece = (piece: ArrayBuffer | Uint8Array, isLast: boolean) => void;

/** The methods of a response object that are needed to read the request's body. */
export interface BodySource {
  /** Must be called within the call that receives the request, because data without a handler is discarded. */
  onData(take: TakePiece): unknown;
  pause(): unknown;
  resume(): unknown;
}

/** Becomes invalid when the response is complete or onAborted() has called back. */
export interface TransportResponse extends BodySource {
  /** Calls back once if the connection is closed before the response is complete. */
  onAborted(callback: () => void): unknown;
  /** Runs `work`, and sends everything that it writes together. */
  cork(work: () => void): unknown;
  writeStatus(status: string): unknown;
  writeHeader(name: string, value: string): unknown;
  /** Returns false if the socket is full. In that case, onWritable() calls back once the socket has room. */
  write(text: string): boolean;
  /**
   * The callback returns whether everything was written. `offset`: the bytes that tryEnd() has passed to the socket.
   */
  onWritable(callback: (offset: number) => boolean): unknown;
  /**
   * Sends the next part of a response of `total` bytes. `ok` is false if the socket is full. In that case, the caller
   * waits for onWritable() and continues at the offset that it reports.
   */
  tryEnd(piece: Uint8Array, total: number): [ok: boolean, done: boolean];
  end(body?: string | Uint8Array, closeConnection?: boolean): unknown;
  /** Ends a response without a body; `length` is the Content-Length to declare. */
  endWithoutBody(length?: number, closeConnection?: boolean): unknown;
  /** Closes the connection immediately, which calls the onAborted() callback. */
  close(): unknown;
  getRemoteAddressAsText(): ArrayBuffer | string;
}

/** A library's WebSocket. Becomes invalid with SocketEvents.closed(). */
export interface TransportSocket {
  cork(work: () => void): unknown;
  /** Returns 1 if the message was passed to the socket, and another number if it is buffered. */
  send(text: string, isBinary: boolean, compress: boolean): number;
  getBufferedAmount(): number;
  ping(): unknown;
  /** Sends buffered data, then a close frame. Calls SocketEvents.closed(). */
  end(code: number, reason: string): unknown;
  /** Closes the connection without a close frame. Calls SocketEvents.closed(). */
  close(): unknown;
}

/** The events of one WebSocket. Called by the library. */
export interface SocketEvents {
  opened(socket: TransportSocket): void;
  /** `bytes` are valid only during the call. */
  received(bytes: Uint8Array, binary: boolean): void;
  drained(): void;
  pinged(): void;
  ponged(): void;
  closed(): void;
}

/** A WebSocket handshake that the server may accept. */
export interface TransportUpgrade {
  readonly path: string;
  readonly request: TransportRequest;
  readonly response: TransportResponse;
  /** Sends the 101 with the status and headers written so far. */
  accept(events: SocketEvents): void;
}

export interface TransportHandlers {
  /** Must not throw. */
  request(request: TransportRequest, response: TransportResponse): void;
  /** Receives every handshake on one of `socketPaths`. Must not throw. */
  upgrade(upgrade: TransportUpgrade): void;
  /** Exact paths that accept WebSockets. */
  socketPaths: readonly string[];
  maxMessageBytes: number;
}

/** A listening socket and its connections. */
export interface Transport {
  /** Whether the transport understands chunk extensions in a request body. */
  readonly readsChunkExtensions: boolean;
  /** Resolves to the port, or to null if the address cannot be bound. */
  listen(host: string, port: number): Promise<number | null>;
  stopListening(): void;
  /** Closes all connections immediately and aborts requests in flight. */
  close(): void;
  /** Returns a handle for addThread() on another thread. Valid until this transport is closed. */
  descriptor(): unknown;
  /** Starts passing new connections to the added threads instead of serving them on this thread. */
  addThread(descriptor: unknown): void;
  removeThread(descriptor: unknown): void;
}
