// Runs the lines of batches that this process has claimed. A line runs like an HTTP request with the key that created
// its batch. Its lease is renewed while it runs. Its result is stored only if this process still holds the lease.
// Event-loop thread only.
//
//   claim ─► look up key ─► route handler (line-exchange.ts) ─► finish: store the result
//                                                          └──► release: retry later, after a temporary error

import type { Route } from '../../http/exchange.js';
import type { EventLoopBudget } from '../../admission/event-loop-budget.js';
import { parseInTurns, type SharedWork } from '../../http/shared-work.js';
import type { ErrorCode } from '../../shared/error-codes.js';
import { ApiError, apiError, toApiError } from '../../shared/errors.js';
import type { Identity } from '../../shared/identity.js';
import { MAX_LOST } from '../../storage/batch-store.js';
import type { BatchStore, Claim, ClaimedLine, LineResult } from '../../storage/batch-store.js';
import type { RequestRecord } from '../../telemetry/outcome.js';
import type { Log } from '../../telemetry/types.js';
import { errorFormatOfEndpoint } from './endpoints.js';
import { LineExchange, notStreamed, refusal, type LineAnswer } from './line-exchange.js';
import { resultOf } from './results.js';

/** Maximum interval in ms between lease renewals. A renewal also detects that the batch was cancelled or expired. */
const RENEW_MS = 2_000;
/** Bounds of the delay in ms before a line is retried after a temporary error. */
const MIN_DELAY_MS = 1_000;
const MAX_DELAY_MS = 60_000;
/** Maximum number of attempts to store a result while the database is unavailable, and the pause between them in ms. */
const STORE_ATTEMPTS = 50;
const STORE_AGAIN_MS = 200;

/** Temporary errors. A line that is refused with such an error is retried later and does not fail. */
const TRY_LATER: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'rpm_limit_exceeded',
  'tpm_limit_exceeded',
  'concurrency_limit_exceeded',
  'capacity_exhausted',
  'model_loading',
  'model_unavailable',
  'maintenance',
  'shutting_down',
]);

/** Temporary errors that concern one model. They delay only the line's batch, not its whole organization. */
const OF_THE_MODEL: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'capacity_exhausted',
  'model_loading',
  'model_unavailable',
]);

export interface LineRunnerDeps {
  readonly batches: BatchStore;
  /** The route of each endpoint, by path. */
  readonly routes: ReadonlyMap<string, Route>;
  /** Returns the identity of a key. Rejects with ApiError 401 or 403 if the key is no longer valid. */
  readonly identityOf: (organizationId: string, keyId: string) => Promise<Identity>;
  readonly work: SharedWork;
  readonly loopTime: EventLoopBudget;
  /** Receives the record of each line that has run, unless it was refused with a temporary error. */
  readonly finished: (record: RequestRecord) => void;
  readonly log: Log;
  readonly leaseMs: number;
}

interface Running {
  readonly line: ClaimedLine;
  exchange: LineExchange | null;
  /** Why the line was stopped; null if it was not. `lost`: this process no longer holds the lease. */
  stop: 'canceled' | 'expired' | 'released' | 'lost' | null;
  readonly done: Promise<void>;
}

export class LineRunner {
  readonly #running = new Set<Running>();
  readonly #timer: NodeJS.Timeout;
  #renewing: Promise<void> | null = null;

  /**
   * `onEnd` is called after each line, when another line may be claimed. `onDelayed` is called with the ID of a batch
   * or organization after one of its lines was refused with a temporary error, which probably applies to its other
   * lines too.
   */
  constructor(
    private readonly deps: LineRunnerDeps,
    private readonly onEnd: () => void,
    private readonly onDelayed: (id: string, delayMs: number) => void,
  ) {
    this.#timer = setInterval(
      () => {
        this.#renewing ??= this.#renew()
          .catch((err: unknown) => this.#failed(err, 'cannot renew the leases of batch lines'))
          .finally(() => {
            this.#renewing = null;
          });
      },
      Math.min(RENEW_MS, deps.leaseMs / 3),
    ).unref();
  }

  get size(): number {
    return this.#running.size;
  }

  run(line: ClaimedLine): void {
    const running: Running = {
      line,
      exchange: null,
      stop: null,
      // #run() starts in a microtask, because it needs `running`, which is not yet initialized here.
      done: Promise.resolve()
        .then(() => this.#run(running))
        .catch((err: unknown) => this.#failed(err, 'a batch line could not be ended; it will run again'))
        .finally(() => {
          this.#running.delete(running);
          this.onEnd();
        }),
    };
    this.#running.add(running);
  }

  /** Stops and releases all running lines, so that another process, or this one after a restart, runs them again. */
  releaseAll(): void {
    for (const running of this.#running) this.#stop(running, 'released');
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.releaseAll();
    await Promise.all([...this.#running].map(({ done }) => done));
    await this.#renewing;
  }

  async #run(running: Running): Promise<void> {
    const { line } = running;
    const { batch } = line;
    if (line.lost >= MAX_LOST) {
      await this.#finish(line, failure(line, apiError('internal_error', LOST)));
      return;
    }
    let exchange: LineExchange;
    let body: object;
    try {
      [exchange, body] = await this.#open(line);
    } catch (error) {
      if (isTemporary(error)) await this.#delay(line, toApiError(error));
      else await this.#finish(line, failure(line, toApiError(error)));
      return;
    }
    running.exchange = exchange;
    const route = this.deps.routes.get(batch.endpoint);
    if (running.stop !== null) exchange.abort();
    else if (route === undefined) exchange.fail(new Error(`no route for ${batch.endpoint}`));
    else void exchange.run(route, body);
    const answer = await exchange.answered;
    await this.#end(running, exchange, answer);
  }

  /** Prepares to run a line. Rejects with ApiError if the key is no longer valid or the request is not allowed. */
  async #open(line: ClaimedLine): Promise<[LineExchange, body: object]> {
    const { batch, body: text } = line;
    const { work, loopTime } = this.deps;
    const { organizationId } = batch;
    const identity = await this.deps.identityOf(organizationId, batch.keyId);
    const bytes = Buffer.from(text);
    const exchange = new LineExchange(
      {
        batchId: batch.id,
        identity,
        errorFormat: errorFormatOfEndpoint(batch.endpoint),
        bodyBytes: bytes.length,
        headers: batch.headers,
      },
      { work, loopTime, unexpected: (err) => this.#failed(err, 'unexpected failure of a batch line') },
    );
    const refused = exchange.meter.refusal(bytes.length);
    if (refused !== null) throw refused;
    const what = 'body of the request';
    const body = (await parseInTurns(work, organizationId, bytes, { meter: exchange.meter, what })) as Readonly<
      Record<string, unknown>
    >;
    if (body['stream'] === true) throw notStreamed();
    if (body['background'] === true)
      throw apiError('unsupported_value', 'background must be false in a batch.', 'background');
    return [exchange, body];
  }

  async #end(running: Running, exchange: LineExchange, answer: LineAnswer | null): Promise<void> {
    const { line, stop } = running;
    const { batches } = this.deps;
    // If the response was complete before the line was stopped, its result is stored as usual.
    if (answer === null) {
      if (stop === 'released') await batches.release(line, 0);
      else if (stop === 'canceled' || stop === 'expired')
        await this.#finish(line, { outcome: stop, text: '', usage: null });
    } else if (answer.error !== null && isTemporary(answer.error)) {
      await (stop === null ? this.#delay(line, answer.error) : batches.release(line, 0));
      return; // not logged, because the line will be retried
    } else await this.#finish(line, resultOf(line.batch, answer));
    this.deps.finished(exchange.record(line.batch.endpoint, answer));
  }

  /** Releases a line after a temporary error. It can be claimed again after the delay. */
  async #delay(line: ClaimedLine, error: ApiError): Promise<void> {
    const delayMs = delayOf(error);
    this.onDelayed(OF_THE_MODEL.has(error.code) ? line.batch.id : line.batch.organizationId, delayMs);
    await this.deps.batches.release(line, delayMs);
  }

  /** Stores the result. Retries while the database is unavailable. If all attempts fail, the line will run again. */
  async #finish(claim: Claim, result: LineResult): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        if (!(await this.deps.batches.finish(claim, result)))
          this.deps.log.warn(
            { batch: claim.batch.id, line: claim.line },
            'a batch line was run elsewhere after its lease expired; its second result was discarded',
          );
        return;
      } catch (error) {
        if (!(error instanceof ApiError) || attempt === STORE_ATTEMPTS) throw error;
        await new Promise((resolve) => {
          setTimeout(resolve, STORE_AGAIN_MS);
        });
      }
    }
  }

  async #renew(): Promise<void> {
    const all = [...this.#running];
    if (all.length === 0) return;
    const renewed = await this.deps.batches.renew(
      all.map(({ line }) => line),
      this.deps.leaseMs,
    );
    const stops = new Map(renewed.map(({ claim, stop }) => [claim, stop]));
    for (const running of all) {
      const stop = stops.get(running.line);
      if (stop === undefined) this.#stop(running, 'lost');
      else if (stop !== null) this.#stop(running, stop);
    }
  }

  #stop(running: Running, why: NonNullable<Running['stop']>): void {
    if (!this.#running.has(running) || running.stop !== null) return;
    running.stop = why;
    running.exchange?.abort();
  }

  /**
   * Logs an error. ApiErrors are skipped, because they come from the database and the storage layer has already
   * logged them.
   */
  #failed(err: unknown, message: string): void {
    if (!(err instanceof ApiError)) this.deps.log.error({ err }, message);
  }
}

const LOST = `The server stopped ${MAX_LOST} times while running this request.`;

const isTemporary = (error: unknown): boolean => error instanceof ApiError && TRY_LATER.has(error.code);

const delayOf = ({ retryAfterMs = MIN_DELAY_MS }: ApiError): number =>
  Math.min(MAX_DELAY_MS, Math.max(MIN_DELAY_MS, retryAfterMs));

/** Returns the result of a line that could not be started. */
const failure = ({ batch }: ClaimedLine, error: ApiError): LineResult =>
  resultOf(batch, refusal(error, errorFormatOfEndpoint(batch.endpoint)));
