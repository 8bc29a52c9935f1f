// An Exchange for one request of a transport. The transport's request object is valid only within the call that
// receives it, so the values needed later are copied first. Its response object becomes invalid when the response or
// the connection ends, so every use of it checks `open` first.

import type { BufferReservation } from '../shared/buffer-reservation.js';
import { performance } from 'node:perf_hooks';
import type { EventLoopBudget } from '../admission/event-loop-budget.js';
import { ApiError, apiError, errorBody, errorHeaders, toApiError } from '../shared/errors.js';
import type { ErrorFormat } from '../shared/errors.js';
import { newRequestId } from '../shared/ids.js';
import { finished } from '../telemetry/outcome.js';
import type { RequestRecord } from '../telemetry/outcome.js';
import type { RequestTrace } from '../telemetry/request-trace.js';
import { stringifyExact } from '../shared/exact-json.js';
import { LARGE_ANSWER_BYTES, type ResponseMemoryBudget, type ResponseReservation } from './response-memory-budget.js';
import type { BodyStream } from './body-stream.js';
import { sendStreamed } from './streamed-answer.js';
import { COMMENT, LINES, sseFraming, SseStream, type Framing } from './event-stream.js';
import type { EventStream, Exchange, StreamEvent } from './exchange.js';
import type { Identity } from '../shared/identity.js';
import { bounded, boundedClient, ENTRY_TEXT } from '../shared/request-entry.js';
import type { RequestClient } from '../shared/request-entry.js';
import { jsonSlices } from './json-slices.js';
import { JsonText } from './json-text.js';
import { sendLarge } from './large-answer.js';
import { EventLoopMeter, EventLoopClock } from './event-loop-meter.js';
import { SMALL_BYTES, type ParseQueue, type Task } from './parse-queue.js';
import { errorFormatOf } from './error-format.js';
import type { TransportRequest, TransportResponse } from './transport.js';

export interface ExchangeHost {
  keepaliveMs: number;
  streamBufferBytes: number;
  /**
   * Headers for every response: the version, and CORS headers unless only this server's own pages may read the
   * response.
   */
  commonHeaders(origin: string, sameOrigin: boolean): readonly (readonly [string, string])[];
  loopTime: EventLoopBudget;
  /** Queue for large reads and responses. */
  turns: ParseQueue;
  answers: ResponseMemoryBudget;
  /** Maximum time, in ms, that a client may take to read a large response. */
  answerTimeoutMs: number;
  /** Whether to take the client's address from X-Forwarded-For. */
  trustProxy: boolean;
  finished(record: RequestRecord): void;
  /** Called for errors that the client did not cause. */
  unexpected(error: unknown, requestId: string): void;
}

const STATUS_LINES: Readonly<Record<number, string>> = {
  101: '101 Switching Protocols',
  200: '200 OK',
  204: '204 No Content',
  303: '303 See Other',
  400: '400 Bad Request',
  401: '401 Unauthorized',
  403: '403 Forbidden',
  404: '404 Not Found',
  413: '413 Content Too Large',
  422: '422 Unprocessable Content',
  429: '429 Too Many Requests',
  500: '500 Internal Server Error',
  503: '503 Service Unavailable',
};

/** Milliseconds per slice of serializing a large response. */
const SLICE_MS = 2;

/** Runs one slice of work. Returns whether all work is done. */
function goneThrough(slices: Generator): boolean {
  const until = performance.now() + SLICE_MS;
  while (performance.now() < until) if (slices.next().done === true) return true;
  return false;
}

const JSON_TYPE = 'application/json; charset=utf-8';

/**
 * Maximum number of characters of the method that are kept for errors and the log. No registered method is longer
 * (UPDATEREDIRECTREF).
 */
const MAX_METHOD = 17;

const MAY_HAVE_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

/** Removes the client's port, which some proxies add and which differs between connections. */
const withoutPort = (address: string): string =>
  /^\[([^\]]*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address;

export class HttpExchange implements Exchange {
  readonly requestId = newRequestId();
  readonly receivedAt = performance.now();
  readonly method: string; // upper case
  readonly path: string;
  readonly errorFormat: ErrorFormat;
  readonly client: RequestClient;
  readonly query: URLSearchParams;
  params: Readonly<Record<string, string>> = {};
  body: unknown = undefined;
  bodyBytes = 0;
  bodyStream: BodyStream | undefined = undefined;
  aborted = false;
  /** Whether to close the connection after the response, because the end of the request body is uncertain. */
  closes = false;
  /** The error if the end of the request (RFC 9112, section 6.3) or its host cannot be determined, or null. */
  readonly framingError: ApiError | null;
  sameOrigin = false;
  readonly loop = new EventLoopClock();
  /** The route's pattern, once known. Used as a metrics label with a limited number of values. */
  label = 'unmatched';
  trace: RequestTrace | null = null;

  private readonly requestHeaders = new Map<string, string>();
  private readonly answerHeaders = new Map<string, [name: string, value: string]>();
  private readonly abortCallbacks: (() => void)[] = [];
  private readonly fields: Record<string, string | number | boolean | null> = {};
  private known: Identity | null = null;
  private knownAt = -Infinity;
  private payer = ''; // the organization charged for time and memory if there is no identity
  private stream: SseStream | null = null;
  private onFailure: ((error: ApiError) => Iterable<StreamEvent>) | undefined;
  private open = true; // the response object may be used
  private held: ResponseReservation | null = null;
  private sending: {
    readonly status: number;
    readonly error: ApiError | null;
    readonly timer: NodeJS.Timeout | undefined;
  } | null = null; // a large response that the client has not completely read yet

  constructor(
    private readonly res: TransportResponse,
    req: TransportRequest,
    private readonly host: ExchangeHost,
  ) {
    const method = req.getMethod().toUpperCase();
    this.method = method.length > MAX_METHOD ? `${method.slice(0, MAX_METHOD)}…` : method;
    this.path = req.getUrl();
    this.query = new URLSearchParams(req.getQuery());
    let lengthsDiffer = false;
    let hosts = 0;
    let codings = 0;
    req.forEach((name, value) => {
      const first = this.requestHeaders.get(name);
      if (name === 'transfer-encoding') codings++;
      if (name === 'host') hosts++;
      if (first === undefined) this.requestHeaders.set(name, value);
      else if (name.startsWith('x-forwarded-'))
        // A proxy may add its own header line after the client's.
        this.requestHeaders.set(name, `${first}, ${value}`);
      else if (name === 'content-length' && first !== value) lengthsDiffer = true;
      else if (name === 'tracestate') this.requestHeaders.set(name, `${first},${value}`);
      else if (name === 'traceparent') this.requestHeaders.set(name, ''); // a repeated traceparent is ignored
    });
    this.framingError = lengthsDiffer
      ? apiError('invalid_header', 'The request has two Content-Length headers that differ.', 'Content-Length')
      : // the library treats any value as `chunked`, and an empty value as an absent header
        codings > 1 || (codings === 1 && this.header('transfer-encoding').toLowerCase() !== 'chunked')
        ? apiError('invalid_header', 'Transfer-Encoding must be `chunked`, exactly once.', 'Transfer-Encoding')
        : hosts > 1 // a proxy may have checked the other one
          ? apiError('invalid_header', 'The request has more than one Host header.', 'Host')
          : null;
    // A request without these headers has no body. However, the library may hide a header that indicates a body, so
    // further bytes on this connection cannot be trusted.
    const saysNoLength = MAY_HAVE_BODY.has(this.method) && !this.hasHeader('content-length') && codings === 0;
    this.closes = this.framingError !== null || saysNoLength;
    this.errorFormat = errorFormatOf(this.path, (name) => this.header(name));
    this.client = boundedClient(this.remoteAddress, this.header('user-agent')); // not available after a disconnect
    res.onAborted(() => this.abort());
  }

  get identity(): Identity {
    if (this.known === null) throw new Error('identity of a request that was not authenticated');
    return this.known;
  }

  /** '' until it is known. */
  get organizationId(): string {
    return this.known?.organizationId ?? this.payer;
  }

  set identity(identity: Identity) {
    this.known = identity;
    this.knownAt = performance.now();
  }

  /** Milliseconds since the API key was looked up; Infinity if there is none. */
  get knownForMs(): number {
    return performance.now() - this.knownAt;
  }

  actAs(identity: Identity): void {
    this.known = identity;
  }

  onAccountOf(organizationId: string): void {
    this.payer = organizationId;
  }

  get remoteAddress(): string {
    const forwarded = this.host.trustProxy ? (this.header('x-forwarded-for').split(',').at(-1)?.trim() ?? '') : '';
    if (forwarded !== '') return withoutPort(forwarded);
    return this.peerAddress;
  }

  get peerAddress(): string {
    if (!this.open) return '';
    const address = this.res.getRemoteAddressAsText();
    return typeof address === 'string' ? address : Buffer.from(address).toString('latin1');
  }

  header(name: string): string {
    return this.requestHeaders.get(name) ?? '';
  }

  /** True also if the header is empty or its bytes cannot be decoded as text. */
  hasHeader(name: string): boolean {
    return this.requestHeaders.has(name);
  }

  charged<T>(bytes: number, work: () => T): T {
    return this.account.charged(bytes, work);
  }

  /** Returns the meter for the calling organization, if the organization is already known. */
  get account(): EventLoopMeter {
    return new EventLoopMeter(this.host.loopTime, this.organizationId, this);
  }

  enqueue<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.host.turns.take(this.organizationId, bytes, () => {
        if (this.aborted) return;
        try {
          resolve(this.account.run(bytes, work));
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  reserve(bytes: number): void {
    if (!this.open || bytes <= 0) return;
    (this.held ??= this.host.answers.open(this.organizationId)).reserve(bytes);
  }

  keeping(): BufferReservation {
    return this.host.answers.open(this.organizationId);
  }

  onAborted(callback: () => void): void {
    if (this.aborted) callback();
    else this.abortCallbacks.push(callback);
  }

  setHeader(name: string, value: string): void {
    this.answerHeaders.set(name.toLowerCase(), [name, value]);
  }

  removeHeader(name: string): void {
    this.answerHeaders.delete(name.toLowerCase());
  }

  json(status: number, body: unknown): void {
    if (!this.open || this.stream?.started === true) return;
    if (this.path.startsWith('/v1/') && this.errorFormat === 'chat') {
      // Responses in the Messages format do not have this header.
      this.setHeader('openai-processing-ms', String(Math.round(performance.now() - this.receivedAt)));
    }
    this.whole(
      status,
      JSON_TYPE,
      body instanceof JsonText
        ? body.isShort
          ? body.toString()
          : body.pieces()
        : this.account.measured(() => stringifyExact(body)),
      null,
    );
  }

  jsonEnqueued(bytes: number, status: number, body: unknown): void {
    if (bytes < SMALL_BYTES) return this.json(status, body);
    this.reserve(bytes);
    const text = new JsonText();
    const slices = jsonSlices(body, text);
    const turn = (): Task | undefined => {
      if (!this.open) return;
      try {
        if (!this.charged(bytes, () => goneThrough(slices))) return turn;
        this.json(status, text);
      } catch (error) {
        this.fail(error);
      }
      return;
    };
    this.host.turns.resume(this.organizationId, turn);
  }

  text(status: number, contentType: string, body: string | Uint8Array): void {
    if (this.open) this.whole(status, contentType, body, null);
  }

  async streamed(status: number, contentType: string, bytes: number, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    if (!this.open) return;
    if (bytes === 0 || this.method === 'HEAD') {
      this.withoutBody(status, contentType, bytes);
      return;
    }
    this.open = false;
    const timer = this.slowReaderTimer();
    this.sending = { status, error: null, timer };
    this.res.cork(() => this.writeHead(status, contentType));
    try {
      await sendStreamed(this.res, {
        total: bytes,
        pieces,
        isGone: () => this.aborted,
        onAccepted: () => timer.refresh(),
        onGone: (callback) => this.abortCallbacks.push(callback),
      });
      this.finish(status, null);
    } catch (error) {
      if (this.aborted) return; // abort() has finished the request
      this.host.unexpected(error, this.requestId);
      this.res.close(); // calls abort()
    }
  }

  /** Starts a timer that closes the connection if the client does not read the response in time. */
  private slowReaderTimer(): NodeJS.Timeout {
    const timer = setTimeout(() => {
      if (this.sending === null) return;
      this.annotate({ dropped: 'slow reader' });
      this.res.close(); // calls abort()
    }, this.host.answerTimeoutMs);
    return timer.unref();
  }

  /** Sends only the status and headers, for HEAD requests and empty responses. `bytes`: the Content-Length. */
  private withoutBody(status: number, contentType: string, bytes: number): void {
    this.open = false;
    this.res.cork(() => {
      this.writeHead(status, contentType);
      this.res.writeHeader('Content-Length', String(bytes));
      this.res.endWithoutBody();
    });
    this.finish(status, null);
  }

  /** Sends a 204, for OPTIONS. */
  noContent(): void {
    if (!this.open) return;
    this.open = false;
    this.res.cork(() => {
      this.writeHead(204);
      this.res.endWithoutBody();
    });
    this.finish(204, null);
  }

  /** Sends a 101 and upgrades the connection to a WebSocket. `accept` calls the transport. */
  upgrade(accept: () => void): void {
    this.open = false;
    this.writeHead(101);
    accept();
    this.finish(101, null);
  }

  sse(onFailure?: (error: ApiError) => Iterable<StreamEvent>): EventStream {
    if (this.stream !== null) return this.stream;
    this.onFailure = onFailure;
    const keepalive = this.errorFormat === 'messages' ? 'event: ping\ndata: {"type":"ping"}\n\n' : COMMENT;
    return this.startStream('text/event-stream; charset=utf-8', sseFraming(keepalive));
  }

  lines(): EventStream {
    if (this.stream !== null) return this.stream;
    this.onFailure = (error) => [{ data: JSON.stringify(errorBody(error, this.errorFormat, this.requestId)) }];
    return this.startStream('application/x-ndjson', LINES);
  }

  private startStream(contentType: string, framing: Framing): EventStream {
    if (this.method === 'HEAD' && this.open) this.whole(200, contentType, '', null);
    this.stream = new SseStream(this.res, {
      framing,
      keepaliveMs: this.host.keepaliveMs,
      bufferBytes: this.host.streamBufferBytes,
      writeHead: () => {
        // The route's Cache-Control value, such as `no-store`, is kept, and `no-transform` is added to it.
        const caching = this.answerHeaders.get('cache-control')?.[1] ?? 'no-cache';
        this.setHeader('Cache-Control', `${caching}, no-transform`);
        this.writeHead(200, contentType);
        this.res.writeHeader('Connection', 'keep-alive');
        this.res.writeHeader('X-Accel-Buffering', 'no');
      },
      onEnd: (dropped) => {
        if (dropped) {
          this.annotate({ dropped: 'slow reader' });
          return; // the connection is about to be closed, which calls abort()
        }
        this.open = false;
        this.finish(200, this.stream?.error ?? null);
      },
    });
    if (!this.open) this.stream.close();
    return this.stream;
  }

  fail(thrown: unknown): void {
    const error = toApiError(thrown);
    if (!(thrown instanceof ApiError)) this.host.unexpected(thrown, this.requestId);
    if (!this.open) return;
    if (this.bodyStream !== undefined && !this.bodyStream.isOver) {
      void this.failUnread(this.bodyStream, error);
      return;
    }
    this.closes ||= this.bodyStream?.isComplete === false;
    const body = errorBody(error, this.errorFormat, this.requestId);
    if (this.stream?.started === true) {
      if (this.onFailure !== undefined) {
        for (const { data, event } of this.onFailure(error)) this.stream.send(data, event);
      } else if (this.errorFormat === 'messages') {
        this.stream.send(JSON.stringify(body), 'error');
      } else {
        this.stream.send(JSON.stringify(body));
        this.stream.send('[DONE]');
      }
      this.stream.end(error);
      return;
    }
    for (const [name, value] of errorHeaders(error, this.errorFormat)) this.setHeader(name, value);
    this.whole(error.status, JSON_TYPE, JSON.stringify(body), error);
  }

  /** Sends an error while the request body is still arriving. Discards the rest of the body first. */
  private async failUnread(body: BodyStream, error: ApiError): Promise<void> {
    await body.discard();
    body.close();
    this.fail(error);
  }

  annotate(fields: Record<string, string | number | boolean | null>): void {
    Object.assign(this.fields, fields);
  }

  private whole(
    status: number,
    contentType: string,
    answer: string | Uint8Array | readonly Uint8Array[],
    error: ApiError | null,
  ): void {
    const pieces =
      typeof answer === 'string'
        ? answer.length < LARGE_ANSWER_BYTES
          ? []
          : [this.account.measured(() => Buffer.from(answer))]
        : answer instanceof Uint8Array
          ? [answer]
          : answer;
    const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (bytes >= LARGE_ANSWER_BYTES && this.method !== 'HEAD' && !this.closes) {
      this.large(status, contentType, pieces, answer instanceof Uint8Array ? 0 : bytes, error);
      return;
    }
    const body = typeof answer === 'string' || answer instanceof Uint8Array ? answer : Buffer.concat(pieces);
    this.open = false;
    this.stream?.close();
    const length = (): number => (typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength);
    const closeAfter = status === 413 || this.closes;
    this.res.cork(() => {
      this.writeHead(status, contentType);
      if (this.method !== 'HEAD') this.res.end(body, closeAfter);
      else if (closeAfter) this.res.endWithoutBody(length(), true);
      else {
        // Passing the length to endWithoutBody() would make the library wait for that many bytes and close the
        // connection at the next request.
        this.res.writeHeader('Content-Length', String(length()));
        this.res.endWithoutBody();
      }
    });
    this.finish(status, error);
  }

  /** `own`: number of response bytes that are in memory for this request only. */
  private large(
    status: number,
    contentType: string,
    pieces: readonly Uint8Array[],
    own: number,
    error: ApiError | null,
  ): void {
    const refusal = own === 0 ? null : (this.held ??= this.host.answers.open(this.organizationId)).settle(own);
    if (refusal !== null) {
      this.fail(refusal);
      return;
    }
    this.open = false;
    this.stream?.close();
    const timer = this.slowReaderTimer();
    this.sending = { status, error, timer };
    this.res.cork(() => {
      this.writeHead(status, contentType);
      sendLarge(
        this.res,
        pieces,
        () => this.aborted,
        () => this.finish(status, error),
      );
    });
  }

  private writeHead(status: number, contentType?: string): void {
    this.res.writeStatus(STATUS_LINES[status] ?? String(status));
    if (contentType !== undefined) this.res.writeHeader('Content-Type', contentType);
    this.res.writeHeader('x-request-id', this.requestId);
    this.res.writeHeader('request-id', this.requestId);
    if (this.errorFormat === 'messages' && this.known !== null)
      this.res.writeHeader('anthropic-organization-id', this.known.organizationId);
    for (const [name, value] of this.host.commonHeaders(this.header('origin'), this.sameOrigin))
      this.res.writeHeader(name, value);
    for (const [name, value] of this.answerHeaders.values())
      this.res.writeHeader(name, value.replace(/[^\t\x20-\x7e]/g, ' '));
  }

  private abort(): void {
    const unanswered = this.open || this.sending !== null;
    const { sending } = this;
    this.open = false;
    this.aborted = true;
    const started = this.stream?.started === true;
    this.stream?.close();
    for (const callback of this.abortCallbacks.splice(0)) {
      try {
        callback();
      } catch (error) {
        this.host.unexpected(error, this.requestId);
      }
    }
    if (unanswered) this.finish(sending?.status ?? (started ? 200 : 0), sending?.error ?? this.stream?.error ?? null);
  }

  private finish(status: number, failure: ApiError | null): void {
    this.abortCallbacks.length = 0;
    clearTimeout(this.sending?.timer);
    this.sending = null;
    this.held?.release();
    this.host.finished(
      finished({
        requestId: this.requestId,
        clientRequestId: this.header('x-client-request-id').slice(0, 128) || null,
        method: this.method,
        path: this.label,
        ...(this.label === 'unmatched' ? { url: bounded(this.path, ENTRY_TEXT.path) } : {}),
        client: this.client,
        status,
        failure,
        organizationId: this.known?.organizationId ?? null,
        keyId: this.known?.keyId ?? null,
        durationMs: performance.now() - this.receivedAt,
        aborted: this.aborted,
        loopMs: this.loop.ms,
        fields: this.fields,
        trace: this.trace,
      }),
    );
  }
}
