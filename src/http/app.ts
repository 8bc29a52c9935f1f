// The HTTP server: the checks and the routing of every request that a transport receives. Every request goes through
// the same checks in the same order; the first one that fails determines the error. Routes, accounts and limits are
// passed in; this file does not depend on individual endpoints.
//
//   host ─► path and method ─► API key ─► draining? ─► body size, JSON ─► scope ─► route
//
// A WebSocket handshake goes through the same checks, except those on the body. After the upgrade,
// socket-connections.ts takes over.
//
// The transport itself responds to requests that its parser rejects (garbage, oversized headers), and closes
// connections whose client stops sending in the middle of a request (see docs/reference/limits.md). Neither case
// reaches this code.

import { EventLoopBudget } from '../admission/event-loop-budget.js';
import type { Config } from '../config/settings.js';
import { apiError, StartError } from '../shared/errors.js';
import type { RequestRecord } from '../telemetry/outcome.js';
import type { Telemetry } from '../telemetry/types.js';
import { VERSION } from '../shared/version.js';
import { hasNoKey, identify } from './authentication.js';
import type { Authenticate } from './authentication.js';
import { checkBodyHeaders, checkContentLength, readJsonBody } from './body.js';
import { BodyStream } from './body-stream.js';
import { isApiPath } from './error-format.js';
import type { Route } from './exchange.js';
import type { Identity, Scope } from '../shared/identity.js';
import { PausedBody } from './paused-body.js';
import { hostGuard } from './hosts.js';
import { listenProblem } from './listen-problem.js';
import { SMALL_BYTES, type ParseQueue, type Task } from './parse-queue.js';
import { requestMemoryOf } from './request-memory-budget.js';
import type { RequestMemoryBudget } from './request-memory-budget.js';
import { openSharedWork } from './shared-work.js';
import type { SharedWork } from './shared-work.js';
import { Router } from './router.js';
import type { SocketRoute } from './socket.js';
import { StartQueue } from './start-queue.js';
import { unservedPath } from './unserved-paths.js';
import { openTransport } from './server-choice.js';
import { HttpExchange } from './http-exchange.js';
import type { ExchangeHost } from './http-exchange.js';
import { SocketConnections } from './socket-connections.js';
import type { Admit, Connect } from './socket-connections.js';
import type { BodySource, Transport, TransportRequest, TransportResponse, TransportUpgrade } from './transport.js';

export interface HttpOptions {
  config: Config;
  routes: readonly Route[];
  sockets?: readonly SocketRoute[];
  authenticate: Authenticate;
  telemetry: Telemetry;
  /** Counts an API request that generates no output toward the key's read limit. Throws ApiError 429. */
  reads?: (identity: Identity) => void;
  /**
   * Reserves a WebSocket connection slot and returns the function that releases it. Throws ApiError 429 or 503. Without
   * this option, only this server's connections are counted.
   */
  connect?: Connect;
  /** The memory budget for request bodies. Defaults to a new one; set it to share the budget with other code. */
  requestMemory?: RequestMemoryBudget;
  sharedWork?: SharedWork;
  /** Called when the response to a request, or to a turn of a WebSocket, is complete. */
  finished?: (record: RequestRecord) => void;
  /** Maximum time for receiving a request body, in ms. */
  bodyTimeoutMs?: number;
  /** Maximum time a client may take to read a large response. */
  answerTimeoutMs?: number;
  /** Maximum time without new data while receiving a chunked request body. */
  chunkSilenceMs?: number;
  /** Interval between WebSocket pings. The connection is closed after two unanswered pings. */
  pingMs?: number;
}

const BODY_TIMEOUT_MS = 300_000;
/** Maximum time in ms for receiving the body of a route with `streamsBody`. */
const STREAMED_BODY_TIMEOUT_MS = 3_600_000;
const ANSWER_TIMEOUT_MS = 300_000;
/**
 * How long the result of an API key lookup is trusted, in ms. A change to a key takes about this long to reach other
 * processes in any case.
 */
const KNOWN_MS = 1_000;
/** Maximum time per slice of work on a large request, in ms. */
const SLICE_MS = 5;

export class HttpServer {
  private readonly transport: Transport;
  private readonly router: Router;
  private readonly exchangeHost: ExchangeHost;
  private readonly acceptsHost: (header: string) => boolean;
  private readonly sockets: SocketConnections;
  private readonly reading: RequestMemoryBudget;
  private readonly turns: ParseQueue;
  private readonly starts = new StartQueue();
  private readonly loopTime: EventLoopBudget;
  private live = 0; // number of requests whose response is not complete
  private answeredOnes = 0;
  private readonly idleCallbacks: (() => void)[] = [];
  private refusing = false;

  constructor(private readonly options: HttpOptions) {
    const { config, telemetry } = options;
    const socketRoutes = options.sockets ?? [];
    this.router = new Router(
      options.routes,
      socketRoutes.map(({ path }) => path),
    );
    this.reading = options.requestMemory ?? requestMemoryOf(config.http);
    const { turns, answers } = options.sharedWork ?? openSharedWork(config.http);
    this.turns = turns;
    this.loopTime = new EventLoopBudget(config.limits.event_loop_ms);
    this.acceptsHost = hostGuard(config.host, config.http.allowed_hosts);
    this.exchangeHost = {
      keepaliveMs: config.http.keepalive_ms,
      streamBufferBytes: config.http.stream_buffer_bytes,
      commonHeaders: commonHeaders(config.http.cors_origins),
      loopTime: this.loopTime,
      turns,
      answers,
      answerTimeoutMs: options.answerTimeoutMs ?? ANSWER_TIMEOUT_MS,
      trustProxy: config.http.trust_proxy,
      finished: (record) => {
        this.live--;
        this.report(record);
        this.settleIdle();
      },
      unexpected: (error, requestId) =>
        telemetry.log.error({ err: error, request_id: requestId }, 'unexpected failure'),
    };
    this.sockets = new SocketConnections({
      config,
      pingMs: options.pingMs,
      connect: options.connect,
      loopTime: this.loopTime,
      answers: this.exchangeHost.answers,
      starts: this.starts,
      trace: (request) => telemetry.trace(request),
      draining: () => this.refusing,
      turnEnded: (record) => {
        this.report(record);
        this.settleIdle();
      },
      unexpected: this.exchangeHost.unexpected,
    });
    const admit = new Map<string, Admit>();
    for (const route of socketRoutes)
      for (const path of [route.path, `${route.path}/`]) admit.set(path, this.sockets.admitTo(route));
    this.transport = openTransport(config.http, {
      request: (request, response) => this.receive(request, response),
      upgrade: (upgrade) => {
        const route = socketRoutes.find(({ path }) => path === upgrade.path || `${path}/` === upgrade.path);
        const enter = admit.get(upgrade.path);
        if (route === undefined || enter === undefined) this.receive(upgrade.request, upgrade.response);
        else this.upgrade(route, upgrade, enter);
      },
      socketPaths: [...admit.keys()],
      maxMessageBytes: config.ws.max_message_bytes,
    });
  }

  /**
   * Resolves to the port. Port 0 selects any free port. If the address cannot be bound, rejects with an error that says
   * what to do and mentions `flag`.
   */
  async listen(host: string, port: number, flag = '--port'): Promise<number> {
    const bound = await this.transport.listen(host, port);
    if (bound === null) throw new StartError(await listenProblem(host, port, flag));
    return bound;
  }

  /** Returns a handle for addThread() on another thread. Valid until this server is closed. */
  descriptor(): unknown {
    return this.transport.descriptor();
  }

  /** Starts passing new connections to the added threads' servers instead of serving them here. */
  addThread(descriptor: unknown): void {
    this.transport.addThread(descriptor);
  }

  /**
   * Must be called before the added thread closes its server. When no added thread remains, new connections are served
   * here again.
   */
  removeThread(descriptor: unknown): void {
    this.transport.removeThread(descriptor);
  }

  /**
   * While true, new requests except health checks are refused with shutting_down. WebSockets are closed when their
   * current turn ends.
   */
  get draining(): boolean {
    return this.refusing;
  }

  set draining(draining: boolean) {
    if (this.refusing === draining) return;
    this.refusing = draining;
    if (draining) this.sockets.drain();
  }

  /** Number of requests and WebSocket turns whose response is not complete. */
  get inFlight(): number {
    return this.live + this.sockets.inFlight;
  }

  /** Number of completed API requests and WebSocket turns. */
  get answered(): number {
    return this.answeredOnes;
  }

  idle(): Promise<void> {
    return this.inFlight === 0 ? Promise.resolve() : new Promise((resolve) => this.idleCallbacks.push(resolve));
  }

  /** Stops accepting connections. Existing connections stay open. */
  stopListening(): void {
    this.transport.stopListening();
  }

  /** Closes all connections immediately and aborts requests in flight. */
  close(): void {
    this.transport.close();
  }

  private report(record: RequestRecord): void {
    if (isApiPath(record.path)) this.answeredOnes++;
    this.options.telemetry.request(record);
    this.options.finished?.(record);
  }

  private settleIdle(): void {
    if (this.inFlight === 0) for (const callback of this.idleCallbacks.splice(0)) callback();
  }

  private exchangeOf(request: TransportRequest, response: TransportResponse): HttpExchange {
    const exchange = new HttpExchange(response, request, this.exchangeHost);
    this.live++;
    return exchange;
  }

  // Must not throw: an exception from here or from upgrade() would end the process.
  private receive(request: TransportRequest, response: TransportResponse): void {
    const exchange = this.exchangeOf(request, response);
    const { framingError: unclearEnd } = exchange;
    if (unclearEnd !== null) {
      // The handler is deferred, because after an immediate response the library would parse any bytes after the
      // supposed end of the body as a new request. If a second request arrives while the first has no response yet, the
      // library closes the connection.
      setImmediate(() => exchange.fail(unclearEnd));
      return;
    }
    try {
      this.route(exchange, response);
    } catch (error) {
      exchange.fail(error);
    }
  }

  private upgrade(route: SocketRoute, upgrade: TransportUpgrade, admit: Admit): void {
    const exchange = this.exchangeOf(upgrade.request, upgrade.response);
    try {
      const header = (name: string): string => exchange.header(name);
      this.checkHost(header);
      exchange.label = route.path;
      const known = identify(header, exchange, this.options.authenticate);
      if (known instanceof Promise) {
        known
          .then((identity) => {
            if (!exchange.aborted)
              upgrade.response.cork(() => this.upgradeAs(identity, route, exchange, upgrade, admit));
          })
          .catch((error: unknown) => exchange.fail(error));
      } else {
        this.upgradeAs(known, route, exchange, upgrade, admit);
      }
    } catch (error) {
      exchange.fail(error);
    }
  }

  private upgradeAs(
    identity: Identity,
    route: SocketRoute,
    exchange: HttpExchange,
    upgrade: TransportUpgrade,
    admit: Admit,
  ): void {
    const header = (name: string): string => exchange.header(name);
    exchange.identity = identity;
    if (this.draining) throw shuttingDown();
    if (header('sec-websocket-version') !== '13')
      throw apiError('invalid_header', 'Sec-WebSocket-Version must be 13.', 'Sec-WebSocket-Version');
    if (!/^[+/0-9A-Za-z]{22}==$/.test(header('sec-websocket-key')))
      throw apiError('invalid_header', 'Sec-WebSocket-Key must be 16 bytes in base64.', 'Sec-WebSocket-Key');
    checkScope(route.scope, identity.scopes);
    const from = { remoteAddress: exchange.remoteAddress }; // not available after the upgrade
    const socket = admit({
      requestId: exchange.requestId,
      identity,
      client: exchange.client,
      header,
      identify: () => identify(header, from, this.options.authenticate),
    });
    exchange.upgrade(() => upgrade.accept(socket));
  }

  private checkHost(header: (name: string) => string): void {
    if (!this.acceptsHost(header('host'))) {
      throw apiError(
        'invalid_header',
        'The host name in the Host header is not allowed. Add it to the setting http.allowed_hosts.',
        'Host',
      );
    }
  }

  private route(exchange: HttpExchange, res: TransportResponse): void {
    const { method, path } = exchange;
    const header = (name: string): string => exchange.header(name);
    this.checkHost(header);
    if (method === 'OPTIONS') {
      this.preflight(exchange);
      return;
    }
    const match = this.router.match(method, path);
    if (match.kind === 'none') return this.refuse(exchange, this.unknownPath(path));
    if (match.kind === 'method') {
      exchange.label = match.path;
      exchange.sameOrigin = this.router.isSameOrigin(path);
      exchange.setHeader('Allow', match.allow);
      const hint = match.socket && method === 'GET' ? ' without an upgrade to WebSocket' : '';
      return this.refuse(
        exchange,
        apiError('method_not_allowed', `${match.path} does not support ${method}${hint}; it supports ${match.allow}.`),
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
    const known = this.identityOf(route, exchange);
    if (known instanceof Promise)
      void this.later(known, route, exchange, res, (identity, body) => this.enterAs(identity, route, exchange, body));
    else this.enterAs(known, route, exchange, res);
  }

  /**
   * Rejects a request that matches no route. If the request has a valid key, it is logged under the key's organization.
   */
  private refuse(exchange: HttpExchange, error: Error): void {
    const header = (name: string): string => exchange.header(name);
    const refused = (): void => exchange.fail(error);
    try {
      const known = identify(header, exchange, this.options.authenticate);
      if (known instanceof Promise) {
        const named = known.then((identity) => exchange.actAs(identity));
        void named.then(refused, refused);
        return;
      }
      exchange.actAs(known);
    } catch {
      // Without a valid key, the request is visible only to operators.
    }
    refused();
  }

  /** Throws or rejects with ApiError. */
  private identityOf(route: Route, exchange: HttpExchange): Identity | Promise<Identity> {
    const header = (name: string): string => exchange.header(name);
    const keyless = hasNoKey(header) ? route.withoutKey?.(exchange) : null;
    return keyless ?? identify(header, exchange, this.options.authenticate);
  }

  /** Continues when `pending` resolves. Body data that arrives in the meantime is kept. Never rejects. */
  private async later<T>(
    pending: Promise<T>,
    route: Route,
    exchange: HttpExchange,
    source: BodySource,
    resume: (value: T, source: BodySource) => void,
  ): Promise<void> {
    const body = hasBody(route) ? new PausedBody(source) : null;
    try {
      const value = await pending;
      if (!exchange.aborted) resume(value, body ?? source);
    } catch (error) {
      if (!exchange.aborted) body?.drop();
      exchange.fail(error);
    }
  }

  private enterAs(identity: Identity, route: Route, exchange: HttpExchange, body: BodySource): void {
    exchange.identity = identity;
    if (this.draining) throw shuttingDown();
    if (route.generates !== true && isApiPath(route.path)) this.options.reads?.(identity);
    this.enter(route, exchange, body);
  }

  /** Reads the body, if the route accepts one, then serves the request. */
  private enter(route: Route, exchange: HttpExchange, source: BodySource): void {
    if (!hasBody(route) || (route.bodyOptional === true && hasNoBody((name) => exchange.header(name)))) {
      if (route.public === true) this.serve(route, exchange);
      else
        this.starts.add(exchange.organizationId, () => {
          if (!exchange.aborted) this.serve(route, exchange);
        });
      return;
    }
    const before = route.onRequest?.(exchange);
    if (before instanceof Promise)
      void this.later(before, route, exchange, source, (_, body) => this.read(route, exchange, body));
    else this.read(route, exchange, source);
  }

  private read(route: Route, exchange: HttpExchange, source: BodySource): void {
    if (route.streamsBody === true) {
      this.readStreamed(route, exchange, source);
      return;
    }
    const header = (name: string): string => exchange.header(name);
    const limit = Math.min(route.maxBodyBytes ?? Infinity, this.options.config.http.max_body_bytes);
    const state = checkBodyHeaders(
      {
        contentLength: header('content-length'),
        contentType:
          route.anyContentType !== true && exchange.hasHeader('content-type') ? header('content-type') : null,
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
      readsChunkExtensions: this.transport.readsChunkExtensions,
    };
    const forget = readJsonBody(source, {
      limits,
      state: { ...state, refused, chunked: exchange.hasHeader('transfer-encoding') },
      reading,
      queues: { turns: this.turns, starts: this.starts },
      organizationId,
      account,
      gone: () => exchange.aborted,
      done: (body, bytes) => {
        exchange.body = body;
        exchange.bodyBytes = bytes;
        const slices = validationOf(route, exchange, () => this.serve(route, exchange));
        if (slices === null) this.serve(route, exchange);
        return slices ?? undefined;
      },
      failed: (error, unread) => {
        exchange.closes ||= unread;
        exchange.fail(error);
      },
    });
    exchange.onAborted(forget);
  }

  /** Calls the handler before the body has been received. The handler reads the body as a stream. */
  private readStreamed(route: Route, exchange: HttpExchange, source: BodySource): void {
    checkContentLength(exchange.header('content-length'));
    const limits = {
      timeoutMs: this.options.bodyTimeoutMs ?? STREAMED_BODY_TIMEOUT_MS,
      silenceMs: this.options.chunkSilenceMs,
    };
    const stream = new BodyStream(source, limits, () => this.recheckKey(route, exchange));
    exchange.bodyStream = stream;
    exchange.onAborted(() => stream.close());
    this.serve(route, exchange);
  }

  /** Looks up the API key again unless the last lookup is recent. Rejects with ApiError if the key was revoked. */
  private async recheckKey(route: Route, exchange: HttpExchange): Promise<void> {
    if (route.public === true || exchange.knownForMs < KNOWN_MS) return;
    exchange.identity = await this.identityOf(route, exchange);
    if (route.checksScope !== true) checkScope(route.scope, exchange.identity.scopes);
  }

  private serve(route: Route, exchange: HttpExchange): void {
    if (route.public === true || exchange.knownForMs < KNOWN_MS) this.serveKnown(route, exchange);
    else void this.serveAgain(route, exchange);
  }

  /**
   * Receiving the body took so long that the key may have been revoked in the meantime, so the key is looked up again.
   * Never rejects.
   */
  private async serveAgain(route: Route, exchange: HttpExchange): Promise<void> {
    try {
      exchange.identity = await this.identityOf(route, exchange);
      if (!exchange.aborted) exchange.charged(exchange.bodyBytes, () => this.serveKnown(route, exchange));
    } catch (error) {
      exchange.body = undefined;
      exchange.fail(error);
    }
  }

  private serveKnown(route: Route, exchange: HttpExchange): void {
    let before: Promise<number | void> | null;
    try {
      before = route.preHandler?.(exchange) ?? null;
    } catch (error) {
      exchange.body = undefined;
      exchange.fail(error);
      return;
    }
    if (before === null) {
      this.serveNow(route, exchange);
      return;
    }
    before
      .then((added) => {
        if (exchange.aborted) return;
        exchange.bodyBytes += added ?? 0;
        const serve = (): void => this.serveNow(route, exchange);
        const slices = added ? validationOf(route, exchange, serve) : null;
        if (slices === null) exchange.charged(exchange.bodyBytes, serve);
        else this.turns.resume(exchange.organizationId, slices);
      })
      .catch((error: unknown) => {
        exchange.body = undefined;
        exchange.fail(error);
      });
  }

  private serveNow(route: Route, exchange: HttpExchange): void {
    try {
      if (route.checksScope !== true && route.public !== true) checkScope(route.scope, exchange.identity.scopes);
      const done = route.handler(exchange);
      if (done !== undefined) done.catch((error: unknown) => exchange.fail(error));
    } catch (error) {
      exchange.fail(error);
    } finally {
      exchange.body = undefined; // no longer needed; it may be large, and the response may take an hour
    }
  }

  private preflight(exchange: HttpExchange): void {
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
    const unserved = unservedPath(path);
    if (unserved !== null)
      return apiError(
        'unknown_endpoint',
        `There is no endpoint at ${shown}: this server ${unserved.purpose}. ${unserved.instead}; GET /openapi.json lists all endpoints.`,
      );
    const hint = this.router.has(`/v1${path}`) ? ` Did you mean /v1${shown}?` : '';
    return apiError('unknown_endpoint', `There is no endpoint at ${shown}.${hint}`);
  }
}

/**
 * Returns a task that validates a large body in slices and then serves the request, or null if no such task is
 * needed.
 */
function validationOf(route: Route, exchange: HttpExchange, serve: () => void): Task | null {
  const work = exchange.bodyBytes < SMALL_BYTES ? null : (route.validateInSlices?.(exchange.body) ?? null);
  return work === null ? null : slicesOf(work, exchange, serve);
}

/** Processes a request in slices, and serves it after the last one. */
function slicesOf(work: Iterator<unknown>, exchange: HttpExchange, serve: () => void): Task {
  const slice: Task = () => {
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

const shuttingDown = (): Error =>
  apiError('shutting_down', 'The server is shutting down and does not accept new requests.');

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
