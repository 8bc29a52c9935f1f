// One generation from its place in the limits to its last event. A format gives a sink; nothing here knows how events look
// on the wire. Event-loop thread only.
//
//   admit.ts ─► start ─► events ─► settle (run-account.ts)
//               503
import { apiError, toApiError, type ApiError } from '../shared/errors.js';
import type { RunningGeneration } from '../generation/provider.js';
import type { GenerationEvent } from '../generation/types.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import type { AdmittedGeneration } from './admit.js';
import { RunAccount } from './run-account.js';
import type { RunEnd } from './run-entry.js';
import type { RunEvent } from './run-tally.js';
import type { Usage } from './usage.js';

/** Takes the events of one run. What it throws ends the run: an ApiError as that error, anything else as an internal failure. */
export interface RunSink {
  event(event: RunEvent): void;
  /** After the last choice's `finished`; the accounts are settled. */
  complete(usage: Usage): void;
  /** Instead of complete(). Nothing follows. */
  failed(error: unknown): void;
}

/** One generation under way: hands events on and ends exactly once. */
export class GenerationRun {
  readonly #account: RunAccount;
  #running: RunningGeneration | null = null;
  #leave: () => void = () => undefined;

  /** `stream`: the answer is wanted piece by piece, for the record of usage. */
  constructor(
    private readonly admitted: AdmittedGeneration,
    private readonly sink: RunSink,
    stream: boolean,
  ) {
    this.#account = new RunAccount(admitted, stream);
    admitted.run = this;
  }

  get ended(): boolean {
    return this.#account.closed;
  }

  /** As far as it has come. */
  get usage(): Usage {
    return this.#account.tally.usage;
  }

  /** Throws ApiError if the provider does not take the request; nothing was counted then. */
  start(): void {
    if (this.ended) return; // given up before it began
    try {
      this.#running = this.admitted.prepared.start((event) => this.#onEvent(event));
    } catch (error) {
      this.#end({ status: 'refused', error: toApiError(error) });
      throw error;
    }
    // A conversation of any length may have become a prompt of a few thousand tokens: nothing of it lives on meanwhile.
    this.admitted.request = { ...this.admitted.request, messages: [], raw: undefined };
    this.#leave = this.admitted.generations.add(this.admitted.caller.identity, this);
  }

  /** Ends it with an error that the client is told. The sink hears nothing more. */
  stop(error: unknown): void {
    if (this.ended) return;
    this.#running?.cancel();
    this.#end({ status: 'failed', error: toApiError(error) });
    this.sink.failed(error);
  }

  /** Whoever was to answer has failed: as if it had never begun, if it has not. */
  abandon(): void {
    if (this.#running === null) this.#end({ status: 'abandoned' });
    else this.cancel();
  }

  /** Nobody wants the rest: stops it as soon as can be. The sink hears nothing more. */
  cancel(): void {
    if (this.ended) return;
    this.#running?.cancel();
    this.#end({ status: 'cancelled' });
  }

  /** The record of it if the process ended now; null as long as nothing counts, and once it has ended. */
  soFar(): FinishedUsage | null {
    return this.#account.soFar();
  }

  /** A failure of our own must end this answer alone, not the process. */
  #onEvent(event: GenerationEvent): void {
    if (this.ended) return;
    try {
      if (event.type === 'failed') this.stop(failureError(event));
      else this.#take(event);
    } catch (error) {
      this.#running?.cancel();
      this.stop(error);
    }
  }

  #take(event: RunEvent): void {
    this.#account.take(event);
    this.sink.event(event);
    if (event.type !== 'finished' || this.ended) return;
    this.#account.choiceFinished(event);
    if (this.#account.tally.choicesLeft > 0) return;
    this.#end({ status: 'completed', reason: event.reason });
    try {
      this.sink.complete(this.usage);
    } catch (error) {
      this.sink.failed(error);
    }
  }

  #end(end: RunEnd): void {
    this.#leave();
    this.#account.close(end);
  }
}

function failureError(event: Extract<GenerationEvent, { type: 'failed' }>): ApiError {
  if (event.code === 'upstream') return event.error;
  const { code, retryAfterMs } = event;
  switch (code) {
    case 'queue_timeout':
      return apiError('capacity_exhausted', 'The request waited too long in the queue.', null, { retryAfterMs });
    case 'engine_error':
      return apiError('model_error', 'The model failed on this request.', null);
    case 'shutdown':
      return apiError('shutting_down', 'The server is shutting down.', null);
  }
}
