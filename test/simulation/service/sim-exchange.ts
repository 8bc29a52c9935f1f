// The client side of one request: what the client has sent and received, whether it is reading, and whether it has
// disconnected.
import { ApiError, toApiError } from '../../../src/shared/errors.js';
import type { EventStream, Exchange, StreamEvent } from '../../../src/http/exchange.js';
import { JsonText } from '../../../src/http/json-text.js';
import type { Identity } from '../../../src/shared/identity.js';

export interface SentEvent {
  readonly data: string;
  readonly type: string;
}

/** Number of unread bytes in the server's memory for a client that is currently not reading. */
const UNREAD_BYTES = 1_000_000;

export interface SimRequest {
  readonly method: string;
  readonly requestId: string;
  readonly body: unknown;
  /** The path's `id` parameter. */
  readonly id?: string;
  readonly query?: Record<string, string>;
}

export class SimExchange implements Exchange {
  readonly remoteAddress = '127.0.0.1';
  readonly peerAddress = '127.0.0.1';
  readonly trace = null;
  readonly bodyBytes = 1_000;
  readonly receivedAt = performance.now();
  /** null until the response is sent. */
  status: number | null = null;
  answer: unknown = null;
  code: string | null = null;
  events: SentEvent[] | null = null;
  /** The response has been sent completely, or never will be. */
  over = false;
  aborted = false;
  /** The client is currently not reading. */
  stopped = false;
  /** An error that no client should ever receive. */
  unexpected: unknown = null;
  #onAborted: (() => void)[] = [];
  #onFailure: ((error: ApiError) => Iterable<StreamEvent>) | undefined;

  readonly method: string;
  readonly requestId: string;
  readonly body: unknown;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;

  constructor(
    { method, requestId, body, id = '', query = {} }: SimRequest,
    public identity: Identity,
    private readonly onOver: (exchange: SimExchange) => void,
  ) {
    this.method = method;
    this.requestId = requestId;
    this.body = body;
    this.params = { id };
    this.query = new URLSearchParams(query);
  }

  actAs(identity: Identity): void {
    this.identity = identity;
  }
  onAccountOf(): void {}
  header(): string {
    return '';
  }
  charged<T>(_bytes: number, work: () => T): T {
    return work();
  }
  enqueue<T>(_bytes: number, work: () => Promise<T>): Promise<T> {
    return work();
  }
  reserve(): void {}
  keeping(): { reserve(): void; free(): void; release(): void } {
    return { reserve: () => undefined, free: () => undefined, release: () => undefined };
  }
  setHeader(): void {}
  annotate(): void {}
  text(): void {
    throw new Error('no simulated route sends plain text');
  }

  streamed(): Promise<void> {
    throw new Error('no simulated route streams a file');
  }

  lines(): EventStream {
    throw new Error('no simulated route sends JSON lines');
  }

  onAborted(callback: () => void): void {
    if (this.aborted) callback();
    else this.#onAborted.push(callback);
  }

  json(status: number, body: unknown): void {
    if (this.#isLate('json') || (this.events !== null && this.events.length > 0)) return;
    this.#end(status, JSON.parse(body instanceof JsonText ? body.toString() : JSON.stringify(body)));
  }

  jsonEnqueued(_bytes: number, status: number, body: unknown): void {
    this.json(status, body);
  }

  sse(onFailure?: (error: ApiError) => Iterable<StreamEvent>): EventStream {
    const events: SentEvent[] = [];
    this.events = events;
    this.#onFailure = onFailure;
    const { isStarted, unread } = {
      isStarted: () => events.length > 0,
      unread: () => (this.stopped ? UNREAD_BYTES : 0),
    };
    return {
      send: (data, event = '') => {
        if (!this.over) events.push({ data, type: event });
      },
      end: () => {
        if (!this.#isLate('end')) this.#end(200, null);
      },
      abort: (error) => {
        if (!this.#isLate('abort')) this.#end(200, error);
      },
      get started() {
        return isStarted();
      },
      get bufferedBytes() {
        return unread();
      },
    };
  }

  fail(error: unknown): void {
    if (this.#isLate('fail')) return;
    if (!(error instanceof ApiError) || error.code === 'internal_error')
      this.unexpected = error instanceof ApiError ? (error.cause ?? error) : error;
    const known = toApiError(error);
    this.code = known.code;
    if (this.events !== null && this.events.length > 0) {
      for (const { data, event = '' } of this.#onFailure?.(known) ?? []) this.events.push({ data, type: event });
      this.#end(200, null);
    } else {
      this.#end(known.status, null);
    }
  }

  /** The client disconnects, and the server is notified. */
  abort(): void {
    if (this.over) return;
    this.leave();
    for (const callback of this.#onAborted) callback();
  }

  /** The connection is lost, and the server is not notified. */
  leave(): void {
    this.over = true;
    this.aborted = true;
  }

  #isLate(what: string): boolean {
    if (this.over && !this.aborted) this.unexpected = new Error(`${what}() was called after the end of the response`);
    return this.over;
  }

  #end(status: number, answer: unknown): void {
    this.over = true;
    this.status = status;
    this.answer = answer;
    this.onOver(this);
  }
}
