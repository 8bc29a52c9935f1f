// Implements Exchange without a connection, to run one request of a batch (a line). It calls the handlers of the
// endpoint's route as for an HTTP request with the key that created the batch, and collects the response. Event-loop
// thread only.

import { performance } from 'node:perf_hooks';
import type { EventLoopBudget } from '../../admission/event-loop-budget.js';
import { EventLoopClock, EventLoopMeter } from '../../http/event-loop-meter.js';
import type { EventStream, Exchange, Route } from '../../http/exchange.js';
import { JsonText } from '../../http/json-text.js';
import { SMALL_BYTES, type Task } from '../../http/parse-queue.js';
import type { ResponseReservation } from '../../http/response-memory-budget.js';
import type { SharedWork } from '../../http/shared-work.js';
import type { BufferReservation } from '../../shared/buffer-reservation.js';
import { ApiError, apiError, errorBody, toApiError } from '../../shared/errors.js';
import type { ErrorFormat } from '../../shared/errors.js';
import { stringifyExact } from '../../shared/exact-json.js';
import { newRequestId } from '../../shared/ids.js';
import type { Identity } from '../../shared/identity.js';
import { finished } from '../../telemetry/outcome.js';
import type { RequestRecord } from '../../telemetry/outcome.js';

export interface LineRequest {
  readonly batchId: string;
  readonly identity: Identity;
  readonly errorFormat: ErrorFormat;
  readonly bodyBytes: number;
  /** Request headers, by lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface LineExchangeDeps {
  readonly work: SharedWork;
  /**
   * The event-loop time budget of batches. It is separate from the budget of HTTP requests, so that batches do not
   * use that up.
   */
  readonly loopTime: EventLoopBudget;
  /** Called for errors that the request did not cause. */
  readonly unexpected: (error: unknown) => void;
}

/** Maximum time, in ms, that validation may occupy the event loop before other work gets a turn. */
const SLICE_MS = 5;

/** The response to a line. */
export interface LineAnswer {
  readonly requestId: string;
  readonly status: number;
  /** The response body, as JSON. */
  readonly text: string;
  /** The error in the response body; null if the request succeeded. */
  readonly error: ApiError | null;
  /** The `x-ignored-*` response headers, which list the parts of the request that have no effect. */
  readonly ignored: Readonly<Record<string, string>>;
  readonly fields: RequestRecord['fields'];
  /** Number of reasoning tokens. The number of output tokens includes them. */
  readonly reasoningTokens: number;
}

export class LineExchange implements Exchange {
  readonly requestId = newRequestId();
  readonly receivedAt = performance.now();
  readonly method = 'BATCH';
  readonly params = {};
  readonly query = new URLSearchParams();
  readonly remoteAddress = '';
  readonly peerAddress = '';
  readonly trace = null;
  readonly batchId: string;
  readonly bodyBytes: number;
  /** Resolves to the response, or to null if abort() was called first. Never rejects. */
  readonly answered: Promise<LineAnswer | null>;
  identity: Identity;
  body: unknown = undefined;
  aborted = false;
  readonly loop = new EventLoopClock();
  readonly #headers: LineRequest['headers'];
  readonly #errorFormat: ErrorFormat;
  readonly #answerHeaders = new Map<string, string>();
  readonly #fields: Record<string, string | number | boolean | null> = {};
  readonly #abortCallbacks: (() => void)[] = [];
  #held: ResponseReservation | null = null;
  #resolve: (answer: LineAnswer | null) => void = () => undefined;
  #isOver = false;

  constructor(
    { batchId, identity, errorFormat, bodyBytes, headers }: LineRequest,
    private readonly deps: LineExchangeDeps,
  ) {
    this.batchId = batchId;
    this.identity = identity;
    this.bodyBytes = bodyBytes;
    this.#headers = headers;
    this.#errorFormat = errorFormat;
    this.#fields['batch'] = batchId;
    this.answered = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** Measures this request's event-loop time. */
  get meter(): EventLoopMeter {
    return new EventLoopMeter(this.deps.loopTime, this.identity.organizationId, this);
  }

  /** Runs the route with this body, with the same steps in the same order as the HTTP server. Never rejects. */
  async run(route: Route, body: object): Promise<void> {
    this.body = body;
    try {
      await route.onRequest?.(this);
      await this.#validateInSlices(route);
      if (this.aborted) return;
      const added = (await route.preHandler?.(this)) ?? 0;
      if (added > 0) await this.#validateInSlices(route);
      if (this.aborted) return;
      const done = route.handler(this);
      this.body = undefined; // the handler has read the body, which may be large
      await done;
    } catch (error) {
      this.fail(error);
    }
  }

  /** Cancels the request, as if its client had disconnected. */
  abort(): void {
    if (this.#isOver) return;
    this.aborted = true;
    for (const callback of this.#abortCallbacks.splice(0)) {
      try {
        callback();
      } catch (error) {
        this.deps.unexpected(error);
      }
    }
    this.#end(null);
  }

  /** Returns the request's record for the log and the metrics. `endpoint` is the path of its route. */
  record(endpoint: string, answer: LineAnswer | null): RequestRecord {
    return finished({
      requestId: this.requestId,
      clientRequestId: null,
      method: this.method,
      path: endpoint,
      status: answer?.status ?? 0,
      failure: answer?.error ?? null,
      organizationId: this.identity.organizationId,
      keyId: this.identity.keyId,
      durationMs: performance.now() - this.receivedAt,
      aborted: this.aborted,
      loopMs: this.loop.ms,
      fields: this.#fields,
      trace: null,
    });
  }

  actAs(identity: Identity): void {
    this.identity = identity;
  }
  onAccountOf(): void {}
  header(name: string): string {
    return this.#headers[name] ?? '';
  }
  charged<T>(bytes: number, work: () => T): T {
    return this.meter.charged(bytes, work);
  }

  enqueue<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.deps.work.turns.take(this.identity.organizationId, bytes, () => {
        if (this.aborted) return;
        try {
          resolve(this.meter.run(bytes, work));
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  reserve(bytes: number): void {
    if (this.#isOver || bytes <= 0) return;
    (this.#held ??= this.deps.work.answers.open(this.identity.organizationId)).reserve(bytes);
  }

  keeping(): BufferReservation {
    return this.deps.work.answers.open(this.identity.organizationId);
  }

  onAborted(callback: () => void): void {
    if (this.aborted) callback();
    else this.#abortCallbacks.push(callback);
  }

  setHeader(name: string, value: string): void {
    this.#answerHeaders.set(name.toLowerCase(), value);
  }
  removeHeader(name: string): void {
    this.#answerHeaders.delete(name.toLowerCase());
  }

  annotate(fields: Record<string, string | number | boolean | null>): void {
    Object.assign(this.#fields, fields);
  }

  json(status: number, body: unknown): void {
    if (this.#isOver) return;
    try {
      const text = body instanceof JsonText ? body.toString() : stringifyExact(body);
      this.#end({
        requestId: this.requestId,
        status,
        text,
        error: null,
        ignored: this.#ignored(),
        fields: this.#fields,
        reasoningTokens: reasoningTokensOf(body),
      });
    } catch (error) {
      this.fail(error);
    }
  }

  jsonEnqueued(bytes: number, status: number, body: unknown): void {
    this.reserve(bytes);
    this.json(status, body);
  }

  text(): void {
    this.fail(new Error('an endpoint of batches answered with plain text'));
  }
  streamed(): Promise<void> {
    throw notStreamed();
  }
  sse(): EventStream {
    throw notStreamed();
  }
  lines(): EventStream {
    throw notStreamed();
  }

  fail(thrown: unknown): void {
    if (!(thrown instanceof ApiError)) this.deps.unexpected(thrown);
    if (this.#isOver) return;
    const refused = refusal(toApiError(thrown), this.#errorFormat, this.requestId);
    this.#end({ ...refused, ignored: this.#ignored(), fields: this.#fields });
  }

  /** Validates a large body in slices. Resolves when it is validated or the request was aborted. */
  #validateInSlices(route: Route): Promise<void> {
    const slices = this.bodyBytes < SMALL_BYTES ? null : (route.validateInSlices?.(this.body) ?? null);
    if (slices === null) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const slice: Task = () => {
        try {
          const isDone = this.aborted || this.charged(this.bodyBytes, () => runSlice(slices));
          if (!isDone) return slice;
          resolve();
        } catch (error) {
          reject(error as Error);
        }
        return undefined;
      };
      this.deps.work.turns.take(this.identity.organizationId, this.bodyBytes, slice);
    });
  }

  #ignored(): Record<string, string> {
    return Object.fromEntries([...this.#answerHeaders].filter(([name]) => name.startsWith('x-ignored-')));
  }

  #end(answer: LineAnswer | null): void {
    this.#isOver = true;
    this.#abortCallbacks.length = 0;
    this.#held?.release();
    this.#resolve(answer);
  }
}

/** Returns whether the request is finished. */
function runSlice(slices: Iterator<unknown>): boolean {
  for (const end = performance.now() + SLICE_MS; performance.now() < end; )
    if (slices.next().done === true) return true;
  return false;
}

/** Builds the response to a line that is refused with this error. */
export function refusal(error: ApiError, errorFormat: ErrorFormat, requestId = newRequestId()): LineAnswer {
  return {
    requestId,
    status: error.status,
    text: JSON.stringify(errorBody(error, errorFormat, requestId)),
    error,
    ignored: {},
    fields: {},
    reasoningTokens: 0,
  };
}

export const notStreamed = (): ApiError =>
  apiError('unsupported_value', 'stream must be false in a batch, whose results are read from a file.', 'stream');

/** Returns the number of reasoning tokens in the `usage` of a response. Returns 0 for formats other than OpenAI's. */
function reasoningTokensOf(body: unknown): number {
  const { usage } = Object(body) as { usage?: Record<string, unknown> | null };
  const details = Object(usage?.['completion_tokens_details'] ?? usage?.['output_tokens_details']) as {
    reasoning_tokens?: unknown;
  };
  return typeof details.reasoning_tokens === 'number' ? details.reasoning_tokens : 0;
}
