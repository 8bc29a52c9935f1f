// A transport on node:http and ws. It is slower than uWebSockets.js, but needs no binary, and its parser rejects header
// lines without a name.

import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as NetServer } from 'node:net';
import { errorPage, HEADERS_TOO_LARGE_PAGE, parserErrorPage, TRANSFER_ENCODING_PAGE } from './error-pages.js';
import { NodeIncoming, NodeRequest, wantsWebSocket } from './node-request.js';
import { NodeResponse } from './node-response.js';
import { NodeThreads, ThreadListener } from './node-threads.js';
import { NodeWebSockets } from './node-web-socket.js';
import type { Transport, TransportHandlers } from './transport.js';

/** uWebSockets.js has the same limit. */
const MAX_HEADERS = 98;
/**
 * Maximum time for receiving the headers, from the opening of the connection or from the first byte of a later request.
 * Node.js checks it every CHECK_MS, so a connection may stay open for up to the sum of both.
 */
const HEADERS_MS = 18_000;
const CHECK_MS = 1_000;
/** Limits the body of a request whose response is already complete. Bodies that are read have their own limit. */
const REQUEST_MS = 3_630_000;
/** Maximum number of pipelined requests that wait for an earlier response on their connection. */
const MAX_PIPELINED = 16;
/** How long a client may keep sending after a request that the parser rejected, so that it can read the response. */
const LINGER_MS = 1_000;

export interface NodeTransportOptions {
  maxHeaderBytes: number;
  idleMs: number;
}

interface Connection {
  current: NodeResponse | null;
  /** Requests that arrived before the current response was complete. */
  waiting: (() => void)[];
  /** Whether no further requests are served on this connection. */
  ended: boolean;
}

export class NodeTransport implements Transport {
  readonly readsChunkExtensions = true;
  private readonly server: Server;
  private readonly sockets: NodeWebSockets;
  private readonly connections = new Map<Socket, Connection>();
  private readonly threads = new NodeThreads((address) => this.listenHere(address));
  private readonly listener = new ThreadListener({
    listen: (address) => this.listenHere(address),
    stop: () => this.stopHere(),
  });

  constructor(
    private readonly handlers: TransportHandlers,
    { maxHeaderBytes, idleMs }: NodeTransportOptions,
  ) {
    this.sockets = new NodeWebSockets(handlers.maxMessageBytes);
    const options = {
      IncomingMessage: NodeIncoming,
      shouldUpgradeCallback: wantsWebSocket, // since Node.js 24.9; NodeIncoming has the same effect before
      insecureHTTPParser: false,
      requireHostHeader: false, // HTTP/1.0 has none
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: CHECK_MS,
      keepAliveTimeout: idleMs,
      noDelay: true,
    };
    this.server = createServer(options);
    this.server.maxHeadersCount = 0; // otherwise further headers would be dropped; receive() refuses them
    // Otherwise, no response could be sent after the client has closed its side. connected() cancels requests that are
    // not answered immediately.
    (this.server as unknown as { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
    // Emitted if accepting a connection failed, for example because the process has no file descriptors left.
    this.server.on('error', () => undefined);
    this.server.on('connection', (socket) => this.connected(socket));
    this.server.on('request', (incoming, res) => this.receive(incoming, res));
    this.server.on('checkExpectation', (incoming, res) => this.receive(incoming, res));
    this.server.on('upgrade', (incoming, socket, head) => this.upgrade(incoming, socket as Socket, head));
    this.server.on('connect', (_, socket) => this.refuseConnect(socket as Socket));
    this.server.on('clientError', (error: NodeJS.ErrnoException & { reason?: string }, socket) =>
      this.refuse(socket as Socket, error),
    );
  }

  async listen(host: string, port: number): Promise<number | null> {
    if (this.threads.size === 0) return await this.listenHere({ host, port, shared: false });
    return await this.threads.listen(host, port, () => this.stopHere());
  }

  stopListening(): void {
    this.threads.stop();
    this.stopHere();
  }

  close(): void {
    this.threads.close();
    this.listener.close();
    this.server.close(() => undefined);
    this.sockets.close();
    for (const [socket, connection] of [...this.connections]) {
      connection.ended = true;
      connection.current?.abort();
      socket.destroy();
    }
  }

  descriptor(): unknown {
    return this.listener.remote;
  }

  addThread(descriptor: unknown): void {
    this.threads.add(descriptor);
  }

  removeThread(descriptor: unknown): void {
    this.threads.remove(descriptor);
  }

  /** Open connections stay open, including idle ones, which http.Server.close() would close. */
  private stopHere(): void {
    if (this.server.listening) NetServer.prototype.close.call(this.server, () => undefined);
  }

  /** Resolves to the port, or to null. `shared`: other threads may listen on the same port. */
  private listenHere({ host, port, shared }: { host: string; port: number; shared: boolean }): Promise<number | null> {
    const bound = (): number | null => {
      const address = this.server.address();
      return address === null || typeof address === 'string' ? null : address.port;
    };
    if (this.server.listening) return Promise.resolve(bound());
    return new Promise((resolve) => {
      const failed = (): void => resolve(null);
      this.server.once('error', failed);
      const options = { host, port, exclusive: true, reusePort: shared };
      this.server.listen(options, () => {
        this.server.off('error', failed);
        resolve(bound());
      });
    });
  }

  private connected(socket: Socket): void {
    const connection: Connection = { current: null, waiting: [], ended: false };
    this.connections.set(socket, connection);
    socket.on('close', () => {
      connection.ended = true;
      this.connections.delete(socket);
      connection.current?.abort();
    });
    // A client that has closed only its side cannot be distinguished from a client that has disconnected. Responses
    // that are sent immediately still arrive.
    socket.on('end', () => {
      setImmediate(() => setImmediate(() => connection.current?.open === true && connection.current.close()));
    });
  }

  private receive(incoming: IncomingMessage, res: ServerResponse): void {
    const { socket } = incoming;
    const connection = this.connections.get(socket);
    if (connection === undefined || connection.ended) return;
    if (isFree(connection)) {
      this.serve(connection, incoming, res);
      return;
    }
    // A body that is not being read would fill the socket's buffer, and then a disconnect would go unnoticed.
    if (connection.waiting.length < MAX_PIPELINED && hasNoBody(incoming))
      connection.waiting.push(() => this.serve(connection, incoming, res));
    else drop(socket, connection);
  }

  private serve(connection: Connection, incoming: IncomingMessage, res: ServerResponse): void {
    const { socket } = incoming;
    if (connection.ended) return;
    const refusal = refusalOf(incoming);
    if (refusal !== null) {
      this.reject(socket, connection, refusal);
      return;
    }
    const next = (closes: boolean): void => {
      connection.ended ||= closes; // further bytes are not served, because they may be part of a body
      // Deferred, because the caller is still completing the response.
      if (connection.waiting.length > 0) setImmediate(() => connection.waiting.shift()?.());
    };
    const response = new NodeResponse(incoming, res, next);
    connection.current = response;
    this.handlers.request(new NodeRequest(incoming), response);
    response.discardBody();
  }

  private upgrade(incoming: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => undefined); // node:http no longer handles it
    const connection = this.connections.get(socket);
    if (connection === undefined || connection.ended) return;
    if (!isFree(connection)) {
      drop(socket, connection);
      return;
    }
    const res = new ServerResponse(incoming);
    res.shouldKeepAlive = false;
    res.assignSocket(socket);
    res.on('finish', () => {
      res.detachSocket(socket);
      socket.destroySoon();
    });
    const response = new NodeResponse(incoming, res, () => undefined);
    connection.current = response;
    const request = new NodeRequest(incoming);
    const path = request.getUrl();
    if (!this.handlers.socketPaths.includes(path) || refusalOf(incoming) !== null) {
      this.handlers.request(request, response);
      return;
    }
    this.handlers.upgrade({
      path,
      request,
      response,
      accept: (events) => {
        response.release();
        this.sockets.accept(incoming, socket, head, response.headerLines(), events);
      },
    });
  }

  private refuseConnect(socket: Socket): void {
    socket.on('error', () => undefined); // node:http no longer handles it
    const connection = this.connections.get(socket);
    if (connection === undefined || connection.ended) return;
    this.reject(socket, connection, errorPage('malformed_http', 'The method CONNECT is not supported.'));
  }

  /** Called when the parser rejected the request, or when receiving the request took too long. */
  private refuse(socket: Socket, error: NodeJS.ErrnoException & { reason?: string }): void {
    const connection = this.connections.get(socket);
    if (connection?.ended === true) return;
    const current = connection?.current;
    const answered = current?.open === true && (current.started || !current.receiving);
    if (connection === undefined || !socket.writable || answered || error.code?.startsWith('HPE_') !== true) {
      socket.destroy();
      return;
    }
    this.reject(socket, connection, parserErrorPage(error));
  }

  private reject(socket: Socket, connection: Connection, page: string): void {
    connection.ended = true;
    connection.current?.abort();
    socket.end(page);
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  }
}

function drop(socket: Socket, connection: Connection): void {
  connection.ended = true;
  socket.destroy();
}

/**
 * Whether no request is being served and none is waiting. After a response, the next waiting request is served in a
 * later event-loop turn.
 */
const isFree = ({ current, waiting }: Connection): boolean => current?.open !== true && waiting.length === 0;

const hasNoBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] === undefined && /^0*$/.test(headers['content-length'] ?? '');

/** Returns the response to a request that the parser accepts but this server rejects, or null. */
function refusalOf({ httpVersionMajor, httpVersion, rawHeaders, headers }: IncomingMessage): string | null {
  if (rawHeaders.length > 2 * MAX_HEADERS) return HEADERS_TOO_LARGE_PAGE;
  if (httpVersionMajor < 1) return errorPage('malformed_http', 'The HTTP version must be 1.1 or 1.0.');
  const coding = headers['transfer-encoding'];
  if (coding === '') return TRANSFER_ENCODING_PAGE; // before Node.js 22, the parser ignores it
  if (httpVersion === '1.0' && coding !== undefined)
    return errorPage('malformed_http', 'An HTTP/1.0 request must not have a Transfer-Encoding header.');
  return null;
}
