// Runs one generation from its reservation to its last event. The API format supplies a sink; this file does not depend
// on any format's JSON. Event-loop thread only.
//
//   admit.ts ─► start ─► events ─► settle (generation-accounting.ts)
//               503
import { apiError, toApiError, type ApiError } from '../shared/errors.js';
import type { RunningGeneration } from '../generation/provider.js';
import type { GenerationEvent } from '../generation/types.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import type { AdmittedGeneration } from './admit.js';
import { GenerationAccounting } from './generation-accounting.js';
import type { RunEnd } from './run-end.js';
import type { RunEvent } from './run-tally.js';
import { finallyLeftOut, nameUnsent, renameLeftOut } from './foreign-thinking.js';
import type { Usage } from './usage.js';
import { WrittenCalls } from './written-calls.js';

type StartedEvent = Extract<RunEvent, { type: 'started' }>;

/**
 * Receives the events of one run. If a method throws an ApiError, the run ends with that error; any other exception
 * ends the run with an internal error.
 */
export interface RunSink {
  event(event: RunEvent): void;
  /** Called after the last choice's `finished` event, once the reservation has been settled. */
  complete(usage: Usage): void;
  /** Called instead of complete(). No calls follow. */
  failed(error: unknown): void;
}

/** A running generation. It forwards events to the sink and ends exactly once. */
export class GenerationRun {
  readonly #accounting: GenerationAccounting;
  readonly #written: WrittenCalls | null;
  #running: RunningGeneration | null = null;
  #leave: () => void = () => undefined;

  /** `stream`: whether the client requested a stream, for the usage record. */
  constructor(
    private readonly admitted: AdmittedGeneration,
    private readonly sink: RunSink,
    stream: boolean,
  ) {
    this.#accounting = new GenerationAccounting(admitted, stream);
    this.#written = admitted.replays === null ? null : new WrittenCalls(admitted, admitted.replays);
    admitted.run = this;
  }

  get ended(): boolean {
    return this.#accounting.closed;
  }

  /** The usage so far. */
  get usage(): Usage {
    return this.#accounting.tally.usage;
  }

  /** Throws ApiError if the provider rejects the request, in which case it does not count toward any limit. */
  start(): void {
    if (this.ended) return; // it was ended before it started
    try {
      this.#running = this.admitted.prepared.start(
        (event) => this.#onEvent(event),
        this.admitted.storedAs ?? undefined,
      );
    } catch (error) {
      this.#end({ status: 'refused', error: toApiError(error) });
      throw error;
    }
    // The messages can be much larger than the prompt built from them, so they are freed now.
    this.admitted.request = { ...this.admitted.request, messages: [], raw: undefined };
    this.#leave = this.admitted.generations.add(this.admitted.caller.identity, this);
  }

  /** Ends the run with an error and reports it to the client. The sink receives nothing after that. */
  stop(error: unknown): void {
    if (this.ended) return;
    this.#running?.cancel();
    this.#end({ status: 'failed', error: toApiError(error) });
    this.sink.failed(error);
  }

  /** Ends the run after its consumer has failed. A run that has not started is refunded; a running one is cancelled. */
  abandon(): void {
    if (this.#running === null) this.#end({ status: 'abandoned' });
    else this.cancel();
  }

  /** Cancels the run because its output is no longer needed. The sink receives nothing more. */
  cancel(): void {
    if (this.ended) return;
    this.#running?.cancel();
    this.#end({ status: 'cancelled' });
  }

  /**
   * The usage record as it would be if the process ended now. Null if there is nothing to bill yet, and after the run
   * has ended.
   */
  soFar(): FinishedUsage | null {
    return this.#accounting.soFar();
  }

  /** An internal error must end only this response, not the process. */
  #onEvent(event: GenerationEvent): void {
    if (this.ended) return;
    try {
      if (event.type === 'failed') this.stop(failureError(event));
      else if (event.type === 'written') this.#written?.record(event);
      else this.#take(this.#written !== null && event.type === 'call_started' ? this.#written.named(event) : event);
    } catch (error) {
      this.#running?.cancel();
      this.stop(error);
    }
  }

  #take(given: RunEvent): void {
    const event = given.type === 'started' ? this.#started(given) : given;
    this.#accounting.take(event);
    if (event.type === 'started') this.admitted.diagnostics?.started(event.cachedTokens);
    this.sink.event(event);
    if (event.type !== 'finished' || this.ended) return;
    this.#accounting.choiceFinished(event);
    if (this.#accounting.tally.choicesLeft > 0) return;
    this.#end({ status: 'completed', reason: event.reason });
    try {
      this.sink.complete(this.usage);
    } catch (error) {
      this.sink.failed(error);
    }
  }

  /** The list of omitted reasoning is updated, because a fallback or a retry may omit different blocks. */
  #started(event: StartedEvent): StartedEvent {
    const { request, caller } = this.admitted;
    const leftOut = finallyLeftOut(request, event.leftOut);
    if (event.leftOut !== undefined) renameLeftOut(caller, request.leftOut, leftOut);
    nameUnsent(caller, request, event.ignored);
    return leftOut.length === 0 && event.leftOut === undefined ? event : { ...event, leftOut };
  }

  #end(end: RunEnd): void {
    this.#leave();
    this.#accounting.close(end);
  }
}

function failureError(event: Extract<GenerationEvent, { type: 'failed' }>): ApiError {
  if (event.code === 'upstream') return event.error;
  const { code, retryAfterMs } = event;
  switch (code) {
    case 'queue_timeout':
      return apiError('capacity_exhausted', 'The request waited too long in the queue.', null, { retryAfterMs });
    case 'engine_error':
      return apiError('model_error', 'The model failed to handle this request.', null);
    case 'shutdown':
      return apiError('shutting_down', 'The server is shutting down.', null);
  }
}
