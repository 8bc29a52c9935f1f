// What a route sees of one HTTP request and its answer. Implemented over uWebSockets.js in this folder;
// protocols depend on these types only. All calls happen on the event-loop thread that owns the socket.

import type { ApiError, HeaderList } from '../shared/errors.js';
import type { Identity, Scope } from '../shared/identity.js';
import type { RequestTrace } from '../telemetry/request-trace.js';

export interface Exchange {
  readonly requestId: string; // req_…, already set as x-request-id and request-id
  readonly identity: Identity;
  /** From here on the request counts as this caller's: for routes that know their callers by something else than an API key. */
  actAs(identity: Identity): void;
  /** What it takes is from here on the organization's (charged(), inTurn(), hold()), of a caller who is known by something else than an API key. */
  onAccountOf(organizationId: string): void;
  /** Of the client: the connection's, or with http.trust_proxy what the proxy says. '' once the client has gone. */
  readonly remoteAddress: string;
  readonly method: string; // capitals
  readonly receivedAt: number; // performance.now()
  /** Parsed JSON; undefined for GET, and once serve() has returned or awaited: what generates must not hold it. */
  readonly body: unknown;
  /** How many bytes it had, also afterwards. */
  readonly bodyBytes: number;
  readonly query: URLSearchParams;
  readonly params: Readonly<Record<string, string>>; // of the path pattern
  header(name: string): string; // lower-case name; '' if absent
  readonly aborted: boolean;
  /** Does work on so many bytes or characters on the account of the organization (limits.loop_ms), which it may overdraw. */
  charged<T>(bytes: number, work: () => T): T;
  /**
   * Reads so many bytes or characters of what is stored when it is their turn, which large ones wait for, organizations in turns; on the account of
   * the organization. Rejects with ApiError 429 if that is used up; never settles if the client goes first.
   */
  inTurn<T>(bytes: number, work: () => Promise<T>): Promise<T>;
  /** So many bytes more are kept for a whole answer in the making, until it has been read. Throws ApiError 503, and 422 if no answer may have so many. */
  hold(bytes: number): void;
  /** For an answer that goes on when this request has been answered: whoever makes it lets it go. */
  keeping(): KeptAnswer;
  /** Called once if the client goes away before the answer is complete; at once if it already has. */
  onAborted(callback: () => void): void;
  /** Headers of the answer; before json()/sse(). A second value for a name replaces the first. */
  setHeader(name: string, value: string): void;
  /** The whole answer; a JsonText is sent as it is. Allowed after sse() as long as nothing of the stream has left. */
  json(status: number, body: unknown): void;
  /**
   * The whole answer, of about so many bytes: a large one is made in slices, in the organization's turn and on its account. Throws as
   * hold(); what goes wrong later is the answer.
   */
  jsonInTurn(bytes: number, status: number, body: unknown): void;
  /** The whole answer, not JSON. */
  text(status: number, contentType: string, body: string | Uint8Array): void;
  /**
   * Starts an event stream: status 200 and SSE headers are sent with the first write (or by the keep-alive clock).
   * `onFailure` makes the events that tell of an error once the stream has started; without it they are the path's.
   */
  sse(onFailure?: (error: ApiError) => Iterable<StreamEvent>): EventStream;
  /**
   * Ends with an error: as a status in the path's shape while nothing has been sent, else as the error
   * sequence of an event stream. Anything but an ApiError is logged and sent as internal_error.
   */
  fail(error: unknown): void;
  /** Of a request that is recorded. */
  readonly trace: RequestTrace | null;
  /** Fields for this request's log line and metrics (model, tokens, finish reason, ...). */
  annotate(fields: Record<string, string | number | boolean | null>): void;
}

/** What is kept of an answer in the making, counted with those of all requests; hold() as that of an exchange. */
export interface KeptAnswer {
  hold(bytes: number): void;
  free(bytes: number): void;
  release(): void;
}

export interface StreamEvent {
  data: string;
  event?: string;
}

export interface EventStream {
  /** Queues one event; `event` is the SSE event name if the format has one. Writes of one engine step are corked together. */
  send(data: string, event?: string): void;
  /** Sends what is queued and ends the answer. `error`: what its last events have told of, for the outcome of the request. */
  end(error?: ApiError | null): void;
  /** True once headers have left: failures must then travel in the stream. */
  readonly started: boolean;
  /** Bytes waiting for a slow reader. Past the bound the connection is dropped and onAborted fires. */
  readonly bufferedBytes: number;
}

export interface Route {
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  path: string; // pattern: '/v1/models/:id'
  scope: Scope | null;
  /** The route calls permit() itself, after it knows that the model exists (404 comes before 403). */
  checksScope?: true;
  /** A generation: counted in the limits of its model rather than in limits.read_rpm, and refusals of it in the usage. */
  generates?: true;
  /** Another way in to this path, whose generations and refusals are told as that path's. */
  countedAs?: string;
  /** POST, PATCH, PUT: the body may be left out; it is undefined then. */
  bodyOptional?: true;
  /** Served without an API key, also while draining: health, the dashboard. `identity` must not be read before actAs(). */
  public?: true;
  /** For pages of this server only: no CORS headers, so that no other page can read the answer. */
  sameOrigin?: true;
  /** On every answer of the route, errors included. */
  headers?: HeaderList;
  /** Runs before the body is read, which waits for its promise; what it throws is answered instead. */
  before?(exchange: Exchange): void | Promise<unknown>;
  /**
   * What of a large body can be done in steps before enter() and serve(), which then find it done: other requests are served
   * between them. It tells nothing and throws nothing. Null: there is nothing of the kind.
   */
  ahead?(body: unknown): Iterator<unknown> | null;
  /** The same as before() when the body has been read; serve() has it still. */
  enter?(exchange: Exchange): Promise<unknown>;
  /** Largest body, where less than http.max_body_bytes will do. */
  maxBodyBytes?: number;
  /** Errors thrown (ApiError) or rejected are answered in the path's error shape; others become internal_error. */
  serve(exchange: Exchange): void | Promise<void>;
}
