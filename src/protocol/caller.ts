// Who asks for a generation, an HTTP request as such, and what the log says of the client's own user.
import { createHash } from 'node:crypto';
import type { WireShape } from '../shared/errors.js';
import type { Asker, BufferReservation, Charged } from '../generation/provider.js';
import type { Exchange } from '../http/exchange.js';
import type { Identity } from '../shared/identity.js';
import type { RequestTrace } from '../telemetry/request-trace.js';

/** Who asks, and where headers and log fields go. An Exchange is one but for `endpoint` and `shape`; so is a WebSocket turn. */
export interface Caller {
  readonly identity: Identity;
  readonly requestId: string;
  readonly endpoint: string; // route path, for metrics and usage
  readonly shape: WireShape; // dialect of the rate-limit headers
  readonly receivedAt: number; // performance.now()
  readonly aborted: boolean;
  /** Called once when the client goes away; at once if it already has. Who has none is asked `aborted` later. */
  onAborted?(callback: () => void): void;
  /** What large prompts take of the thread is the organization's (limits.loop_ms). */
  readonly charged?: Charged;
  /** Opens a reservation of memory for an answer; its owner releases it. */
  keeping?(): BufferReservation;
  /** Of a request that is recorded. */
  readonly trace?: RequestTrace | null | undefined;
  setHeader(name: string, value: string): void;
  annotate(fields: Record<string, string | number | boolean | null>): void;
}

/** `endpoint`: the route's path, for metrics. `shape`: the dialect of the rate-limit headers. */
export function callerOf(exchange: Exchange, endpoint: string, shape: WireShape): Caller {
  return new ExchangeCaller(exchange, endpoint, shape);
}

/** A class, for an object literal with a getter gets a hidden class of its own each time: old from the start, it keeps all of its request until the next full collection. */
class ExchangeCaller implements Caller {
  readonly identity: Identity;
  readonly requestId: string;
  readonly receivedAt: number;
  readonly trace: RequestTrace | null | undefined;
  /** Given on without its owner. */
  readonly charged: Charged = (characters, work) => this.exchange.charged(characters, work);

  constructor(
    private readonly exchange: Exchange,
    readonly endpoint: string,
    readonly shape: WireShape,
  ) {
    this.identity = exchange.identity;
    this.requestId = exchange.requestId;
    this.receivedAt = exchange.receivedAt;
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
  annotate(fields: Parameters<Caller['annotate']>[0]): void {
    this.exchange.annotate(fields);
  }
}

/** As a provider sees it. */
export function askerOf(caller: Caller): Asker {
  return new CallerAsker(caller);
}

/** One whose leaving does not matter. */
export function unattendedAsker({ identity, charged, trace }: Caller): Asker {
  return { organization: identity.organizationNumber, charged, traceHeaders: trace?.headers };
}

class CallerAsker implements Asker {
  readonly organization: number;
  readonly charged: Charged | undefined;
  readonly traceHeaders: Asker['traceHeaders'];
  #signal: AbortSignal | undefined;

  constructor(private readonly caller: Caller) {
    this.organization = caller.identity.organizationNumber;
    this.charged = caller.charged;
    this.traceHeaders = caller.trace?.headers;
  }

  reserveBuffer(): BufferReservation | undefined {
    return this.caller.keeping?.();
  }

  /** Becomes aborted with the client. Made for whoever looks, which few do: each has hidden classes of its own, which are old from the start. */
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

/** Tells one organization's users apart in the log without naming them. */
export function annotateEndUser(exchange: Exchange, endUser: string | null): void {
  if (endUser === null) return;
  const hash = createHash('sha256').update(`${exchange.identity.organizationId}\n${endUser}`);
  exchange.annotate({ end_user: hash.digest('base64url').slice(0, 16) });
}
