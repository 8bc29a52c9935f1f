// The client of a generation as an interface, its implementation for HTTP requests, and the hashed end-user ID for the
// log.
import type { BufferReservation } from '../shared/buffer-reservation.js';
import { createHash } from 'node:crypto';
import type { ErrorFormat } from '../shared/errors.js';
import type { RequestContext, Charged } from '../generation/provider.js';
import type { Exchange } from '../http/exchange.js';
import type { Identity } from '../shared/identity.js';
import { bounded, ENTRY_TEXT } from '../shared/request-entry.js';
import type { RequestClient } from '../shared/request-entry.js';
import type { RequestTrace } from '../telemetry/request-trace.js';

/**
 * Identifies the requester and receives response headers and log fields. An Exchange provides all members except
 * `endpoint` and `errorFormat`. A WebSocket turn is also a Caller.
 */
export interface Caller {
  readonly identity: Identity;
  readonly requestId: string;
  readonly endpoint: string; // route path, for metrics and usage
  readonly errorFormat: ErrorFormat; // API format for the rate-limit headers
  /** For the request log. */
  readonly client?: RequestClient | undefined;
  readonly method?: string | undefined;
  readonly receivedAt: number; // performance.now()
  /** The batch that contains the request. */
  readonly batchId?: string | undefined;
  readonly aborted: boolean;
  /** Whether admission has already checked the token budgets. */
  budgetChecked?: boolean;
  /**
   * Calls `callback` once, when the client disconnects, or immediately if it already has. For callers without this
   * method, `aborted` is checked instead.
   */
  onAborted?(callback: () => void): void;
  /** Charges event-loop time for large prompts to the organization (limits.event_loop_ms). */
  readonly charged?: Charged;
  /** Opens a memory reservation for a response. The caller of this method must release it. */
  keeping?(): BufferReservation;
  /** Set only if the request is traced. */
  readonly trace?: RequestTrace | null | undefined;
  setHeader(name: string, value: string): void;
  /** Removes a response header that has not been sent yet. */
  removeHeader?(name: string): void;
  annotate(fields: Record<string, string | number | boolean | null>): void;
}

/** `endpoint`: the route's path, for metrics. `errorFormat`: the API format for the rate-limit headers. */
export function callerOf(exchange: Exchange, endpoint: string, errorFormat: ErrorFormat): Caller {
  return new ExchangeCaller(exchange, endpoint, errorFormat);
}

/**
 * A class, because V8 creates a separate hidden class in the old generation for each object literal with a getter,
 * which would keep the whole request alive until the next full garbage collection.
 */
class ExchangeCaller implements Caller {
  readonly identity: Identity;
  readonly requestId: string;
  readonly receivedAt: number;
  readonly client: RequestClient | undefined;
  readonly method: string;
  readonly batchId: string | undefined;
  readonly trace: RequestTrace | null | undefined;
  budgetChecked = false;
  /** An arrow function, because it is called without its object as `this`. */
  readonly charged: Charged = (characters, work) => this.exchange.charged(characters, work);

  constructor(
    private readonly exchange: Exchange,
    readonly endpoint: string,
    readonly errorFormat: ErrorFormat,
  ) {
    this.identity = exchange.identity;
    this.requestId = exchange.requestId;
    this.receivedAt = exchange.receivedAt;
    this.client = exchange.client;
    this.method = exchange.method;
    this.batchId = exchange.batchId;
    this.trace = exchange.trace;
  }

  get aborted(): boolean {
    return this.exchange.aborted;
  }
  onAborted(callback: () => void): void {
    this.exchange.onAborted(callback);
  }
  keeping(): BufferReservation {
    return this.exchange.keeping();
  }
  setHeader(name: string, value: string): void {
    this.exchange.setHeader(name, value);
  }
  removeHeader(name: string): void {
    this.exchange.removeHeader?.(name);
  }
  annotate(fields: Parameters<Caller['annotate']>[0]): void {
    this.exchange.annotate(fields);
  }
}

/** Wraps a caller in the RequestContext that providers expect. */
export function contextOf(caller: Caller): RequestContext {
  return new CallerContext(caller);
}

/** A RequestContext without an abort signal, for work that continues after the client disconnects. */
export function unattendedContext({ identity, charged, trace, batchId }: Caller): RequestContext {
  const { organizationNumber: organization, organizationId } = identity;
  const isBackground = batchId !== undefined;
  return { organization, organizationId, isBackground, charged, traceHeaders: trace?.headers };
}

class CallerContext implements RequestContext {
  readonly organization: number;
  readonly organizationId: string;
  readonly isBackground: boolean;
  readonly charged: Charged | undefined;
  readonly traceHeaders: RequestContext['traceHeaders'];
  #signal: AbortSignal | undefined;

  constructor(private readonly caller: Caller) {
    this.organization = caller.identity.organizationNumber;
    this.organizationId = caller.identity.organizationId;
    this.isBackground = caller.batchId !== undefined;
    this.charged = caller.charged;
    this.traceHeaders = caller.trace?.headers;
  }

  reserveBuffer(): BufferReservation | undefined {
    return this.caller.keeping?.();
  }

  /**
   * Aborted when the client disconnects. Created lazily, because it is rarely needed, and each signal has its own
   * hidden classes in the old generation.
   */
  get signal(): AbortSignal | undefined {
    const { caller } = this;
    if (caller.onAborted === undefined || this.#signal !== undefined) return this.#signal;
    const controller = new AbortController();
    if (caller.aborted) controller.abort();
    else caller.onAborted(() => controller.abort());
    return (this.#signal = controller.signal);
  }
}

export function setHeaders(caller: Caller, headers: Iterable<readonly [name: string, value: string]>): void {
  for (const [name, value] of headers) caller.setHeader(name, value);
}

/**
 * Logs the model name of a parsed body. Must be called before the body is validated, so that the log includes the model
 * of invalid requests.
 */
export function annotateModel(named: Pick<Caller, 'annotate'>, body: unknown): void {
  const { model } = Object(body) as { model?: unknown };
  if (typeof model === 'string') named.annotate({ asked_model: bounded(model, ENTRY_TEXT.model) });
}

/** Logs a hash that distinguishes an organization's end users without identifying them. */
export function annotateEndUser(exchange: Exchange, endUser: string | null): void {
  if (endUser === null) return;
  const hash = createHash('sha256').update(`${exchange.identity.organizationId}\n${endUser}`);
  exchange.annotate({ end_user: hash.digest('base64url').slice(0, 16) });
}
