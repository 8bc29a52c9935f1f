// A route's view of one HTTP request and its response. Implemented in this directory; protocols
// depend only on these types. All calls happen on the event-loop thread that owns the socket.

import type { BufferReservation } from '../shared/buffer-reservation.js';
import type { ApiError, HeaderList } from '../shared/errors.js';
import type { Identity, Scope } from '../shared/identity.js';
import type { RequestClient } from '../shared/request-entry.js';
import type { RequestTrace } from '../telemetry/request-trace.js';

export interface Exchange {
  readonly requestId: string; // req_…, already set as x-request-id and request-id
  readonly identity: Identity;
  /**
   * Attributes the request to this identity from this call on. For routes that identify callers by something other than
   * an API key.
   */
  actAs(identity: Identity): void;
  /**
   * Charges time and memory (charged(), enqueue(), reserve()) to this organization from this call on. For routes that
   * identify callers by something other than an API key.
   */
  onAccountOf(organizationId: string): void;
  /**
   * The client's address: the peer address of the connection or, with http.trust_proxy, the address that the proxy
   * reports. '' after the client has disconnected.
   */
  readonly remoteAddress: string;
  /** The client, as recorded in the request log. Undefined in tests without a connection. */
  readonly client?: RequestClient | undefined;
  /** The connection's peer address, regardless of what a proxy reports. '' after the client has disconnected. */
  readonly peerAddress: string;
  readonly method: string; // upper case; 'BATCH' for a request of a batch
  /** ID of the batch that contains the request. Undefined for HTTP requests. */
  readonly batchId?: string | undefined;
  readonly receivedAt: number; // performance.now()
  /**
   * The body as parsed JSON. Undefined for GET requests. Becomes undefined once handler() has returned or reached its
   * first `await`, so that the body is not kept in memory during generation.
   */
  readonly body: unknown;
  /** Size of the body in bytes. Stays available after the body is released. */
  readonly bodyBytes: number;
  /** The body as a stream, only for routes with `streamsBody`. Can be read only once. */
  readonly bodyStream?: AsyncIterable<Uint8Array> | undefined;
  readonly query: URLSearchParams;
  readonly params: Readonly<Record<string, string>>; // values of the path parameters
  header(name: string): string; // lower-case name; '' if absent
  readonly aborted: boolean;
  /**
   * Runs work on `bytes` bytes or characters, and charges its time to the organization (limits.event_loop_ms). May
   * exceed the budget.
   */
  charged<T>(bytes: number, work: () => T): T;
  /**
   * Queues a read of `bytes` bytes or characters from storage. Large reads wait for their turn, round-robin by
   * organization, and their time is charged to the organization. Rejects with ApiError 429 if its budget is used up.
   * Never settles if the client disconnects first.
   */
  enqueue<T>(bytes: number, work: () => Promise<T>): Promise<T>;
  /**
   * Reserves memory for a non-streamed response until the client has read it. Throws ApiError 503, or 422 if the
   * response exceeds the size limit.
   */
  reserve(bytes: number): void;
  /** Opens a reservation for a response that outlives this request. The caller must release it. */
  keeping(): BufferReservation;
  /**
   * Calls `callback` once if the client disconnects before the response is complete, or immediately if it already has.
   */
  onAborted(callback: () => void): void;
  /**
   * Sets a response header; call before json(), sse() or lines(). A second value for the same name replaces the first.
   */
  setHeader(name: string, value: string): void;
  /** Removes a response header that has not been sent yet. */
  removeHeader?(name: string): void;
  /**
   * Sends a complete response. A JsonText is sent as is. Allowed after sse() as long as nothing has been sent on the
   * stream.
   */
  json(status: number, body: unknown): void;
  /**
   * Sends a complete response of about `bytes` bytes. A large response is serialized in slices when the organization
   * gets its turn, and its time is charged to the organization. Throws like reserve(); later failures are sent as the
   * response.
   */
  jsonEnqueued(bytes: number, status: number, body: unknown): void;
  /** Sends a complete response that is not JSON. */
  text(status: number, contentType: string, body: string | Uint8Array): void;
  /**
   * Sends a response body of `bytes` bytes. The next piece is read from `pieces` when the client has accepted the
   * previous one. If reading fails, the connection is closed. Resolves when the last byte has been passed to the
   * socket, the client has disconnected or reading has failed.
   */
  streamed(status: number, contentType: string, bytes: number, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  /**
   * Starts an event stream. Status 200 and the SSE headers are sent with the first write or the first keep-alive.
   * `onFailure` returns the events that report an error after the stream has started; without it, the path's error
   * format is used.
   */
  sse(onFailure?: (error: ApiError) => Iterable<StreamEvent>): EventStream;
  /**
   * Like sse(), but for a stream of JSON lines (application/x-ndjson). The keep-alive is a space, which JSON allows
   * before a value. An error after the start is the last line, in the path's error format.
   */
  lines(): EventStream;
  /**
   * Ends the response with an error. If nothing has been sent yet, the error is sent with its HTTP status in the path's
   * error format; otherwise, as error events on the stream. An error that is not an ApiError is logged and sent as
   * internal_error.
   */
  fail(error: unknown): void;
  /** Null if the request is not traced. */
  readonly trace: RequestTrace | null;
  /** Adds fields to this request's log line and metrics (model, tokens, finish reason, ...). */
  annotate(fields: Record<string, string | number | boolean | null>): void;
}

export interface StreamEvent {
  data: string;
  event?: string;
}

export interface EventStream {
  /**
   * Queues one event. `event`: the SSE event name, if the format uses event names. Events of one engine step are sent
   * together.
   */
  send(data: string, event?: string): void;
  /**
   * Sends everything queued and ends the response. `error`: the error reported in the last events, for the request log.
   */
  end(error?: ApiError | null): void;
  /**
   * Closes the connection without completing the response, so that the client notices the truncation. For formats
   * without error events. `error`: the reason, for the request log.
   */
  abort(error: ApiError): void;
  /** Whether headers have been sent. If so, errors must be sent as stream events. */
  readonly started: boolean;
  /**
   * Bytes buffered for a slow reader. Above the limit, the connection is closed and the onAborted callback is called.
   */
  readonly bufferedBytes: number;
}

export interface Route {
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  path: string; // a pattern such as '/v1/models/:id'
  /** The last parameter also matches values that contain slashes, such as `org/name`. */
  slashes?: true;
  scope: Scope | null;
  /** The route itself calls permit() after looking up the model, so that a 404 takes precedence over a 403. */
  checksScope?: true;
  /**
   * The route generates output. Its requests count toward the model's limits instead of limits.read_rpm, and rejected
   * requests appear in the usage data.
   */
  generates?: true;
  /** The path used to count this route's generations and rejections, if different from `path`. */
  countedAs?: string;
  /** For POST, PATCH and PUT: the body may be omitted and is then undefined. */
  bodyOptional?: true;
  /**
   * Served without an API key, and even while the server is draining (health, dashboard). `identity` must not be read
   * before actAs().
   */
  public?: true;
  /**
   * Called for a request without an API key. Returns the identity that it acts as, or null if the route requires a key.
   * Throws or rejects with ApiError.
   */
  withoutKey?(exchange: Exchange): Identity | Promise<Identity> | null;
  /** Only for this server's own pages: no CORS headers are sent, so other sites cannot read the response. */
  sameOrigin?: true;
  /** Set on all of the route's responses, including errors. */
  headers?: HeaderList;
  /**
   * Runs before the body is read; if it returns a promise, the body is read after the promise resolves. If it throws,
   * the error is sent as the response.
   */
  onRequest?(exchange: Exchange): void | Promise<unknown>;
  /**
   * Validates a large body in steps before preHandler() and handler(), so that other requests can run between the
   * steps. It returns no result and must not throw. Null if there is nothing to validate in advance.
   */
  validateInSlices?(body: unknown): Iterator<unknown> | null;
  /**
   * Like onRequest(), but runs after the body has been read. handler() can still read the body. Returns null if there
   * is nothing to wait for. Can resolve to the number of bytes that it has added to the body, in which case
   * validateInSlices() runs again.
   */
  preHandler?(exchange: Exchange): Promise<number | void> | null;
  /**
   * The handler reads the body itself from `bodyStream`, and must check its Content-Type and limit its size. `body` is
   * undefined.
   */
  streamsBody?: true;
  /**
   * The body is read as JSON regardless of its Content-Type, because curl by default sends the Content-Type of a form.
   */
  anyContentType?: true;
  /** Maximum body size, if lower than http.max_body_bytes. */
  maxBodyBytes?: number;
  /**
   * Handles the request. A thrown or rejected ApiError is sent in the path's error format; any other error is sent as
   * internal_error.
   */
  handler(exchange: Exchange): void | Promise<void>;
}
