// A transport on uWebSockets.js (uws.ts). The library's request and response objects are used directly.

import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket, us_socket_context_t } from 'uWebSockets.js';
import type { SocketEvents, Transport, TransportHandlers } from './transport.js';
import type { Uws } from './uws.js';

/**
 * User data that the library stores with each connection. The library copies this object's fields, so the SocketEvents
 * object must be a field.
 */
interface SocketData {
  events: SocketEvents;
}

/**
 * The library closes a connection that is idle between requests, or whose headers are incomplete, after this many
 * seconds, up to 4 seconds early. The library uses a single timeout for both cases.
 */
const IDLE_S = 20;

export class UwsTransport implements Transport {
  readonly readsChunkExtensions = false;
  private readonly app: TemplatedApp;
  private listenSocket: us_listen_socket | null = null;

  constructor(
    private readonly uws: Uws,
    handlers: TransportHandlers,
  ) {
    hideLibraryHeader(uws);
    this.app = uws.App();
    (this.app as unknown as IdleTimeout).setIdleTimeout?.(IDLE_S);
    for (const path of handlers.socketPaths) this.registerSocket(path, handlers);
    this.app.any('/*', (res, req) => handlers.request(req, res));
  }

  listen(host: string, port: number): Promise<number | null> {
    return new Promise((resolve) => {
      listenExclusive(this.app, host, port, (socket) => {
        if (socket === false) {
          resolve(null);
          return;
        }
        this.listenSocket = socket;
        resolve(this.uws.us_socket_local_port(socket));
      });
    });
  }

  stopListening(): void {
    if (this.listenSocket !== null) this.uws.us_listen_socket_close(this.listenSocket);
    this.listenSocket = null;
  }

  close(): void {
    this.listenSocket = null;
    this.app.close();
  }

  descriptor(): unknown {
    return (this.app as unknown as ChildApps).getDescriptor();
  }

  /** The library distributes accepted connections among the threads round-robin. */
  addThread(descriptor: unknown): void {
    (this.app as unknown as ChildApps).addChildAppDescriptor(descriptor);
  }

  removeThread(descriptor: unknown): void {
    (this.app as unknown as ChildApps).removeChildAppDescriptor(descriptor);
  }

  private registerSocket(path: string, handlers: TransportHandlers): void {
    this.app.ws<SocketData>(path, {
      // Above this limit, the library closes the connection without a close frame. Therefore, messages that slightly
      // exceed this server's own limit are accepted here, and the connection is then closed with code 1009. The margin
      // is small, because the library buffers unfinished messages without reporting their size.
      maxPayloadLength: Math.min(Math.ceil(handlers.maxMessageBytes * 1.125), 2 ** 31 - 1),
      maxBackpressure: 0, // SocketConnection.send enforces our own limit
      idleTimeout: 0, // our own pings detect silence, because the library has no close code for it
      sendPingsAutomatically: false,
      upgrade: (res, req, context) => upgrade(path, res, req, context, handlers),
      open: (library) => library.getUserData().events.opened(library),
      message: (library, bytes, binary) => library.getUserData().events.received(new Uint8Array(bytes), binary),
      drain: (library) => library.getUserData().events.drained(),
      ping: (library) => library.getUserData().events.pinged(),
      pong: (library) => library.getUserData().events.ponged(),
      close: (library) => library.getUserData().events.closed(),
    });
  }
}

// The library routes every request with a Sec-WebSocket-Key header here. Without `Upgrade: websocket`, it is an
// ordinary request.
function upgrade(
  path: string,
  res: HttpResponse,
  req: HttpRequest,
  context: us_socket_context_t,
  handlers: TransportHandlers,
): void {
  if (req.getHeader('upgrade').toLowerCase() !== 'websocket') {
    handlers.request(req, res);
    return;
  }
  const key = req.getHeader('sec-websocket-key');
  handlers.upgrade({
    path,
    request: req,
    response: res,
    // No subprotocol or extension is negotiated; the client's offers are ignored.
    accept: (events) => res.upgrade<SocketData>({ events }, key, '', '', context),
  });
}

// Removes the library's name and version from responses. The argument is a magic value that the library defines.
function hideLibraryHeader(uws: Uws): void {
  const configure = (uws as unknown as { _cfg?: (word: string) => void })._cfg;
  configure?.('999999990007');
}

// A method that the library's type declarations do not include. Builds whose timeout is always 10 seconds do not
// implement it.
interface IdleTimeout {
  setIdleTimeout?(seconds: number): void;
}

// An interface that is missing from the library's type declarations.
interface ChildApps {
  getDescriptor(): unknown;
  addChildAppDescriptor(descriptor: unknown): void;
  removeChildAppDescriptor(descriptor: unknown): void;
}

// Option 1 is LIBUS_LISTEN_EXCLUSIVE_PORT. Without it, two servers could bind the same port, and each would receive
// some of the connections. The library accepts a host together with options, but its type declarations lack this
// overload.
function listenExclusive(
  app: TemplatedApp,
  host: string,
  port: number,
  callback: (socket: us_listen_socket | false) => void,
): void {
  const listen = app.listen as unknown as (
    this: TemplatedApp,
    host: string,
    port: number,
    options: 1,
    callback: (socket: us_listen_socket | false) => void,
  ) => void;
  listen.call(app, host, port, 1, callback);
}
