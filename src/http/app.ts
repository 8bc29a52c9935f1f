// The HTTP server: one uWebSockets.js app whose every request walks the same list of checks, first failure
// wins. All routes, accounts and limits are given; this file knows no endpoint.
//
//   host ─► path and method ─► API key ─► draining? ─► body size, JSON ─► scope ─► route
//
// A WebSocket handshake walks it too, without a body, and is refused as any request is. What it becomes is
// uws-sockets.ts's.
//
// uWebSockets.js answers what its parser cannot read (garbage, oversized headers, HTTP/1.0) itself, see
// uws.ts, and closes connections whose client is silent where it should send, see
// docs/reference/limits.md; neither reaches this code.

import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket, us_socket_context_t } from 'uWebSockets.js';
import { LoopTime } from '../admission/loop-time.js';
import type { Config } from '../config/settings.js';
import { apiError, StartError } from '../shared/errors.js';
import type { RequestRecord } from '../telemetry/outcome.js';
import type { Telemetry } from '../telemetry/types.js';
import { shareOf } from '../shared/thread-count.js';
import { VERSION } from '../shared/version.js';
import { AnswerBudget } from './answer-budget.js';
import { identify } from './authentication.js';
import type { Authenticate } from './authentication.js';
import { checkBodyHeaders, readJsonBody } from './body.js';
import type { Route } from './exchange.js';
import type { Identity, Scope } from '../shared/identity.js';
import { HeldBody } from './held-body.js';
import type { BodySource } from './held-body.js';
import { hostGuard } from './hosts.js';
import { listenProblem } from './listen-problem.js';
import { ParseTurns, SMALL_BYTES, type Turn } from './parse-turns.js';
import { ReadingBudget } from './reading-budget.js';
import { Router } from './router.js';
import type { SocketRoute } from './socket.js';
import { StartQueue } from './start-queue.js';
import { loadUws } from './uws.js';
import type { Uws } from './uws.js';
import { UwsExchange } from './uws-exchange.js';
import type { ExchangeHost } from './uws-exchange.js';
import type { SocketData } from './uws-socket.js';
import { UwsSockets } from './uws-sockets.js';
import type { Admit, Connect } from './uws-sockets.js';

export interface HttpOptions {
  config: Config;
  routes: readonly Route[];
  sockets?: readonly SocketRoute[];
  authenticate: Authenticate;
  telemetry: Telemetry;
  /** A request of this key under /v1 that generates nothing. Throws ApiError 429. */
  reads?: (identity: Identity) => void;
  /** Takes a WebSocket's place. Throws ApiError 429, 503; returns how to give it back. Without it only this server's own are counted. */
  connect?: Connect;
  /** A request or a WebSocket's turn has been answered. */
  finished?: (record: RequestRecord) => void;
  /** Longest time a body may take to arrive. */
  bodyTimeoutMs?: number;
  /** Longest time a large answer may take to be read. */
  answerTimeoutMs?: number;
  /** Longest pause in a body that comes in chunks. */
  chunkSilenceMs?: number;
  /** Time between two pings of a WebSocket; two unanswered end it. */
  pingMs?: number;
}

const BODY_TIMEOUT_MS = 300_000;
const ANSWER_TIMEOUT_MS = 300_000;
/** So long a key that was looked at is what it was: as long as other processes take to hear of a change. */
const KNOWN_MS = 1_000;
/** Of the loop at once, for what of a large request can be done in slices. */
const SLICE_MS = 5;

export class HttpServer {
  private readonly uws: Uws;
  private readonly app: TemplatedApp;
  private readonly router: Router;
  private readonly exchangeHost: ExchangeHost;
  private readonly acceptsHost: (header: string) => boolean;
  private readonly sockets: UwsSockets;
  private readonly reading: ReadingBudget;
  private readonly turns = new ParseTurns();
  private readonly starts = new StartQueue();
  private readonly loopTime: LoopTime;
  private live = 0; // requests that are not answered completely
  private answeredOnes = 0;
  private readonly idleCallbacks: (() => void)[] = [];
  private listenSocket: us_listen_socket | null = null;
  private refusing = false;

  constructor(private readonly options: HttpOptions) {
    const { config, telemetry } = options;
    const socketRoutes = options.sockets ?? [];
    this.router = new Router(
      options.routes,
      socketRoutes.map(({ path }) => path),
    );
    this.reading = new ReadingBudget(shareOf(config.http.max_reading_bytes), config.http.max_body_bytes);
    this.loopTime = new LoopTime(config.limits.loop_ms);
    this.acceptsHost = hostGuard(config.host, config.http.allowed_hosts);
    this.exchangeHost = {
      keepaliveMs: config.http.keepalive_ms,
      streamBufferBytes: config.http.stream_buffer_bytes,
      commonHeaders: commonHeaders(config.http.cors_origins),
      loopTime: this.loopTime,
      turns: this.turns,
      answers: new AnswerBudget(shareOf(config.http.max_answering_bytes), config.http.max_body_bytes),
      answerTimeoutMs: options.answerTimeoutMs ?? ANSWER_TIMEOUT_MS,
      trustProxy: config.http.trust_proxy,
      finished: (record) => {
        this.live--;
        this.told(record);
        this.settleIdle();
      },
      unexpected: (error, requestId) =>
        telemetry.log.error({ err: error, request_id: requestId }, 'unexpected failure'),
    };
    this.sockets = new UwsSockets({
      config,
      pingMs: options.pingMs,
      connect: options.connect,
      loopTime: this.loopTime,
      answers: this.exchangeHost.answers,
      starts: this.starts,
      trace: (request) => telemetry.trace(request),
      draining: () => this.refusing,
      turnEnded: (record) => {
        this.told(record);
        this.settleIdle();
      },
      unexpected: this.exchangeHost.unexpected,
    });
    this.uws = loadUws(config.http.max_header_bytes, config.http.library).uws;
    hideLibraryHeader(this.uws);
    this.app = this.uws.App();
    for (const route of socketRoutes) {
      this.sockets.register(this.app, route, (res, req, context, admit) =>
        this.upgrade(route, res, req, context, admit),
      );
    }
    this.app.any('/*', (res, req) => this.receive(res, req));
  }

  /** Port 0 takes any free one. Resolves to the port; rejects if the address cannot be bound, with advice that names the flag. */
  listen(host: string, port: number, flag = '--port'): Promise<number> {
    return new Promise((resolve, reject) => {
      listenExclusive(this.app, host, port, (socket) => {
        if (socket === false) {
          void listenProblem(host, port, flag).then((problem) => reject(new StartError(problem)));
          return;
        }
        this.listenSocket = socket;
        resolve(this.uws.us_socket_local_port(socket));
      });
    });
  }

  /** For another thread's addThread(). Good until this thread closes its server. */
  descriptor(): unknown {
    return (this.app as unknown as ChildApps).getDescriptor();
  }

  /** From here on the connections this server accepts go to the threads' servers in turns, and none to its own. */
  addThread(descriptor: unknown): void {
    (this.app as unknown as ChildApps).addChildAppDescriptor(descriptor);
  }

  /** Before that thread closes its server. Without any thread left, connections are served here again. */
  removeThread(descriptor: unknown): void {
    (this.app as unknown as ChildApps).removeChildAppDescriptor(descriptor);
  }

  /** New requests are refused with shutting_down; health stays. WebSockets end when their running turn has. */
  get draining(): boolean {
    return this.refusing;
  }

  set draining(draining: boolean) {
    if (this.refusing === draining) return;
    this.refusing = draining;
    if (draining) this.sockets.drain();
  }

  /** Requests that are not answered completely, turns of WebSockets included. */
  get inFlight(): number {
    return this.live + this.sockets.inFlight;
  }

  /** Requests of /v1 and turns of WebSockets that have been answered. */
  get answered(): number {
    return this.answeredOnes;
  }

  /** Resolves when no request is in flight. */
  idle(): Promise<void> {
    return this.inFlight === 0 ? Promise.resolve() : new Promise((resolve) => this.idleCallbacks.push(resolve));
  }

  /** Stops accepting connections; those open stay. */
  stopListening(): void {
    if (this.listenSocket !== null) this.uws.us_listen_socket_close(this.listenSocket);
    this.listenSocket = null;
  }

  /** Closes everything at once. Requests in flight are aborted. */
  close(): void {
    this.listenSocket = null;
    this.app.close();
  }

  private told(record: RequestRecord): void {
    if (record.path.startsWith('/v1/')) this.answeredOnes++;
    this.options.telemetry.request(record);
    this.options.finished?.(record);
  }

  private settleIdle(): void {
    if (this.inFlight === 0) for (const callback of this.idleCallbacks.splice(0)) callback();
  }

  private exchangeOf(res: HttpResponse, req: HttpRequest): UwsExchange {
    const exchange = new UwsExchange(res, req, this.exchangeHost);
    this.live++;
    return exchange;
  }

  // The server library ends the process on an exception here and in upgrade(): none may leave.
  private receive(res: HttpResponse, req: HttpRequest): void {
    const exchange = this.exchangeOf(res, req);
    const { unclearEnd } = exchange;
    if (unclearEnd !== null) {
      // Not at once: the library would go on to the bytes behind the body, as it understands it, as to a new
      // request. One that comes while another is unanswered makes it close the connection.
      setImmediate(() => exchange.fail(unclearEnd));
      return;
    }
    try {
      this.route(exchange, res);
    } catch (error) {
      exchange.fail(error);
    }
  }

  // The library sends here what has a key for a handshake; what does not ask for one is a plain request.
  private upgrade(
    route: SocketRoute,
    res: HttpResponse,
    req: HttpRequest,
    context: us_socket_context_t,
    admit: Admit,
  ): void {
    if (req.getHeader('upgrade').toLowerCase() !== 'websocket') {
      this.receive(res, req);
      return;
    }
    const exchange = this.exchangeOf(res, req);
    try {
      const header = (name: string): string => exchange.header(name);
      this.checkHost(header);
      exchange.label = route.path;
      const known = identify(header, exchange, this.options.authenticate);
      if (known instanceof Promise) {
        known
          .then((identity) => {
            if (!exchange.aborted) res.cork(() => this.upgradeAs(identity, route, exchange, context, admit));
          })
          .catch((error: unknown) => exchange.fail(error));
      } else {
        this.upgradeAs(known, route, exchange, context, admit);
      }
    } catch (error) {
      exchange.fail(error);
    }
  }

  private upgradeAs(
    identity: Identity,
    route: SocketRoute,
    exchange: UwsExchange,
    context: us_socket_context_t,
    admit: Admit,
  ): void {
    const header = (name: string): string => exchange.header(name);
    exchange.identity = identity;
    if (this.draining) throw shuttingDown();
    if (header('sec-websocket-version') !== '13')
      throw apiError('invalid_header', 'Sec-WebSocket-Version must be 13.', 'Sec-WebSocket-Version');
    checkScope(route.scope, identity.scopes);
    const from = { remoteAddress: exchange.remoteAddress }; // after the upgrade it is not known
    const socket = admit({
      requestId: exchange.requestId,
      identity,
      header,
      identify: () => identify(header, from, this.options.authenticate),
    });
    exchange.upgrade<SocketData>(context, { socket });
  }

  private checkHost(header: (name: string) => string): void {
    if (!this.acceptsHost(header('host'))) {
      throw apiError(
        'invalid_header',
        'This server does not answer to the host name in the Host header; the setting http.allowed_hosts adds names.',
        'Host',
      );
    }
  }

  private route(exchange: UwsExchange, res: HttpResponse): void {
    const { method, path } = exchange;
    const header = (name: string): string => exchange.header(name);
    this.checkHost(header);
    if (method === 'OPTIONS') {
      this.preflight(exchange);
      return;
    }
    const match = this.router.match(method, path);
    if (match.kind === 'none') throw this.unknownPath(path);
    if (match.kind === 'method') {
      exchange.label = match.path;
      exchange.sameOrigin = this.router.isSameOrigin(path);
      exchange.setHeader('Allow', match.allow);
      const hint = match.socket && method === 'GET' ? ' without an upgrade to WebSocket' : '';
      throw apiError(
        'method_not_allowed',
        `${match.path} does not support ${method}${hint}; it supports ${match.allow}.`,
      );
    }
    const { route } = match;
    exchange.label = route.path;
    exchange.params = match.params;
    exchange.sameOrigin = route.sameOrigin === true;
    if (route.generates === true)
      exchange.trace = this.options.telemetry.trace({
        method,
        path: route.countedAs ?? route.path,
        receivedAt: exchange.receivedAt,
        header,
      });
    for (const [name, value] of route.headers ?? []) exchange.setHeader(name, value);
    if (route.public === true) {
      this.enter(route, exchange, res);
      return;
    }
    const known = identify(header, exchange, this.options.authenticate);
    if (known instanceof Promise)
      void this.later(known, route, exchange, res, (identity, body) => this.enterAs(identity, route, exchange, body));
    else this.enterAs(known, route, exchange, res);
  }

  /** Goes on when `pending` has resolved; what comes of the body meanwhile is held. Never rejects. */
  private async later<T>(
    pending: Promise<T>,
    route: Route,
    exchange: UwsExchange,
    source: BodySource,
    goOn: (value: T, source: BodySource) => void,
  ): Promise<void> {
    const body = hasBody(route) ? new HeldBody(source) : null;
    try {
      const value = await pending;
      if (!exchange.aborted) goOn(value, body ?? source);
    } catch (error) {
      if (!exchange.aborted) body?.drop();
      exchange.fail(error);
    }
  }

  private enterAs(identity: Identity, route: Route, exchange: UwsExchange, body: BodySource): void {
    exchange.identity = identity;
    if (this.draining) throw shuttingDown();
    if (route.generates !== true && route.path.startsWith('/v1/')) this.options.reads?.(identity);
    this.enter(route, exchange, body);
  }

  /** Reads the body, if there may be one, and serves. */
  private enter(route: Route, exchange: UwsExchange, source: BodySource): void {
    if (!hasBody(route) || (route.bodyOptional === true && hasNoBody((name) => exchange.header(name)))) {
      if (route.public === true) this.serve(route, exchange);
      else
        this.starts.add(exchange.organizationId, () => {
          if (!exchange.aborted) this.serve(route, exchange);
        });
      return;
    }
    const before = route.before?.(exchange);
    if (before instanceof Promise)
      void this.later(before, route, exchange, source, (_, body) => this.read(route, exchange, body));
    else this.read(route, exchange, source);
  }

  private read(route: Route, exchange: UwsExchange, source: BodySource): void {
    const header = (name: string): string => exchange.header(name);
    const limit = Math.min(route.maxBodyBytes ?? Infinity, this.options.config.http.max_body_bytes);
    const state = checkBodyHeaders(
      {
        contentLength: header('content-length'),
        contentType: exchange.hasHeader('content-type') ? header('content-type') : null,
        contentEncoding: header('content-encoding'),
      },
      limit,
    );
    const { organizationId, account } = exchange;
    const refused = state.oversized ? null : account.refusal(Number(header('content-length')));
    const reading = this.reading.open(organizationId);
    const limits = {
      maxBytes: limit,
      timeoutMs: this.options.bodyTimeoutMs ?? BODY_TIMEOUT_MS,
      chunkSilenceMs: this.options.chunkSilenceMs,
    };
    const forget = readJsonBody(
      source,
      limits,
      { ...state, refused, chunked: exchange.hasHeader('transfer-encoding') },
      reading,
      { turns: this.turns, starts: this.starts },
      organizationId,
      account,
      () => exchange.aborted,
      (body, bytes) => {
        exchange.body = body;
        exchange.bodyBytes = bytes;
        const ahead = bytes < SMALL_BYTES ? null : (route.ahead?.(body) ?? null);
        if (ahead !== null) return slicesOf(ahead, exchange, () => this.serve(route, exchange));
        this.serve(route, exchange);
        return undefined;
      },
      (error, unread) => {
        exchange.closes ||= unread;
        exchange.fail(error);
      },
    );
    exchange.onAborted(forget);
  }

  private serve(route: Route, exchange: UwsExchange): void {
    if (route.public === true || exchange.knownForMs < KNOWN_MS) this.serveKnown(route, exchange);
    else void this.serveAgain(route, exchange);
  }

  /** The body was long in coming: the key may have been revoked since it was looked at. Never rejects. */
  private async serveAgain(route: Route, exchange: UwsExchange): Promise<void> {
    try {
      exchange.identity = await identify((name) => exchange.header(name), exchange, this.options.authenticate);
      if (!exchange.aborted) exchange.charged(exchange.bodyBytes, () => this.serveKnown(route, exchange));
    } catch (error) {
      exchange.body = undefined;
      exchange.fail(error);
    }
  }

  private serveKnown(route: Route, exchange: UwsExchange): void {
    if (route.enter === undefined) {
      this.serveNow(route, exchange);
      return;
    }
    route
      .enter(exchange)
      .then(() => {
        if (!exchange.aborted) exchange.charged(exchange.bodyBytes, () => this.serveNow(route, exchange));
      })
      .catch((error: unknown) => {
        exchange.body = undefined;
        exchange.fail(error);
      });
  }

  private serveNow(route: Route, exchange: UwsExchange): void {
    try {
      if (route.checksScope !== true && route.public !== true) checkScope(route.scope, exchange.identity.scopes);
      const done = route.serve(exchange);
      if (done !== undefined) done.catch((error: unknown) => exchange.fail(error));
    } catch (error) {
      exchange.fail(error);
    } finally {
      exchange.body = undefined; // read by now; it may be large, and the answer may take an hour
    }
  }

  private preflight(exchange: UwsExchange): void {
    const allow = this.router.allow(exchange.path);
    if (this.router.isSameOrigin(exchange.path)) {
      exchange.sameOrigin = true;
      exchange.setHeader('Allow', allow);
      exchange.noContent();
      return;
    }
    const requested = exchange.header('access-control-request-headers');
    exchange.setHeader('Allow', allow);
    exchange.setHeader('Access-Control-Allow-Methods', allow);
    if (requested !== '') exchange.setHeader('Access-Control-Allow-Headers', requested);
    exchange.setHeader('Access-Control-Max-Age', '7200');
    exchange.noContent();
  }

  private unknownPath(path: string): Error {
    const shown = path.length > 128 ? `${path.slice(0, 128)}…` : path;
    const hint = this.router.has(`/v1${path}`) ? ` Did you mean /v1${shown}?` : '';
    return apiError('unknown_endpoint', `There is no endpoint at ${shown}.${hint}`);
  }
}

/** Goes on with a request a slice at a time, and serves it once everything is done. */
function slicesOf(work: Iterator<unknown>, exchange: UwsExchange, serve: () => void): Turn {
  const slice: Turn = () => {
    if (exchange.aborted) return undefined;
    try {
      return exchange.charged(exchange.bodyBytes, () => {
        for (const end = performance.now() + SLICE_MS; performance.now() < end; ) {
          if (work.next().done !== true) continue;
          return () => {
            if (!exchange.aborted) exchange.charged(exchange.bodyBytes, serve);
          };
        }
        return slice;
      });
    } catch (error) {
      exchange.body = undefined;
      exchange.fail(error);
      return undefined;
    }
  };
  return slice;
}

function checkScope(scope: Scope | null, granted: readonly string[]): void {
  if (scope !== null && !granted.includes(scope))
    throw apiError('endpoint_not_allowed', `This API key does not have the permission "${scope}".`);
}

const hasBody = ({ method }: Route): boolean => method !== 'GET' && method !== 'DELETE';
const hasNoBody = (header: (name: string) => string): boolean =>
  /^0*$/.test(header('content-length')) && header('transfer-encoding') === '';

const shuttingDown = (): Error => apiError('shutting_down', 'The server is shutting down and takes no new requests.');

// Leaves the library's name and version out of answers. Its configuration call takes magic words.
function hideLibraryHeader(uws: Uws): void {
  const configure = (uws as unknown as { _cfg?: (word: string) => void })._cfg;
  configure?.('999999990007');
}

// The library's type declarations leave these out.
interface ChildApps {
  getDescriptor(): unknown;
  addChildAppDescriptor(descriptor: unknown): void;
  removeChildAppDescriptor(descriptor: unknown): void;
}

// Option 1 is LIBUS_LISTEN_EXCLUSIVE_PORT: without it two servers share a port and split the requests between
// them. The library takes host and options together, its type declarations do not say so.
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

function commonHeaders(origins: readonly string[]): ExchangeHost['commonHeaders'] {
  const version = ['x-service-version', VERSION] as const;
  const closed = [version];
  const always: readonly (readonly [string, string])[] = [version, ['Access-Control-Expose-Headers', '*']];
  if (origins.includes('*')) {
    const open = [...always, ['Access-Control-Allow-Origin', '*'] as const];
    return (_origin, sameOrigin) => (sameOrigin ? closed : open);
  }
  const vary = [...always, ['Vary', 'Origin'] as const];
  const allowed = new Map(
    origins.map((origin) => [origin, [...vary, ['Access-Control-Allow-Origin', origin] as const]]),
  );
  return (origin, sameOrigin) => (sameOrigin ? closed : (allowed.get(origin) ?? vary));
}
