// Accounts for one generation from its admission to its end, exactly once whatever the outcome: it settles the
// reservation and writes the usage record, the request-log entry, the metrics and the log fields. Event-loop thread
// only.
import { performance } from 'node:perf_hooks';
import type { ApiError } from '../shared/errors.js';
import type { Message } from '../generation/types.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import type { AdmittedGeneration } from './admit.js';
import { setHeaders } from './caller.js';
import { parametersOf, runEntry, type RequestParameters, type RunEnd } from './run-entry.js';
import { RunTally, type RunEvent } from './run-tally.js';
import { RunText } from './run-text.js';
import { RunTrace } from './run-trace.js';

export class RunAccount {
  readonly tally: RunTally;
  readonly #images: number;
  readonly #parameters: RequestParameters;
  readonly #text: RunText | null;
  readonly #trace: RunTrace | null;
  #closed = false;

  /** `stream`: whether the client requested a stream. */
  constructor(
    private readonly admitted: Omit<AdmittedGeneration, 'run'>,
    private readonly stream: boolean,
  ) {
    this.tally = new RunTally(admitted.prepared, admitted.meter, admitted.caller.receivedAt);
    this.#images = countImages(admitted.request.messages);
    this.#parameters = parametersOf(admitted.request);
    this.#text =
      admitted.caller.identity.keepsText === true
        ? new RunText(admitted.requests.textCharacters, admitted.request.messages)
        : null;
    this.#trace = RunTrace.of(admitted);
  }

  get closed(): boolean {
    return this.#closed;
  }

  take(event: RunEvent): void {
    this.tally.take(event);
    this.#text?.take(event);
    if (event.type !== 'started') return;
    this.#trace?.started(event);
    const { promptTokens, cachedTokens, queueMs, towerMs } = event;
    this.admitted.caller.annotate({
      prompt_tokens: promptTokens,
      cached_tokens: cachedTokens,
      queue_ms: Math.round(queueMs),
      ...(towerMs === undefined ? {} : { tower_ms: Math.round(towerMs) }),
    });
  }

  /**
   * Called after the sink has accepted the end of a choice. If the sink throws instead, the generation counts as
   * failed.
   */
  choiceFinished(event: Extract<RunEvent, { type: 'finished' }>): void {
    const { meter, prepared } = this.admitted;
    // All choices share one prefill, so it is recorded once.
    if (this.tally.choicesLeft === prepared.n - 1) meter.prefilled(event.timings.prefillMs);
    meter.choiceFinished(event);
    this.#trace?.choiceFinished(event);
  }

  /** The usage record as if the process ended now. Null while nothing is billable and after the run has ended. */
  soFar(): FinishedUsage | null {
    if (this.#closed || this.tally.completionTokens === 0) return null;
    return this.#record('failed', null, 'internal_error');
  }

  close(end: RunEnd): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#measure(end);
    this.#trace?.close(end, this.tally);
    // A generation that failed before its first token does not count toward the limits.
    if (
      end.status === 'completed' ||
      end.status === 'cancelled' ||
      (end.status === 'failed' && this.tally.completionTokens > 0)
    )
      this.#settle(end);
    else this.#refund(end);
    const { admitted, tally, stream } = this;
    admitted.requests.add(
      runEntry({
        admitted,
        tally,
        end,
        stream,
        images: this.#images,
        parameters: this.#parameters,
        text: this.#text?.text ?? null,
      }),
    );
    if (end.status !== 'failed' && end.status !== 'refused') return;
    // Updates the rate-limit headers, if headers can still be sent.
    const { caller, reservation } = this.admitted;
    setHeaders(caller, reservation.headers(caller.errorFormat));
  }

  #measure(end: RunEnd): void {
    const { meter, caller } = this.admitted;
    switch (end.status) {
      case 'completed':
        return meter.completed(performance.now() - caller.receivedAt);
      case 'cancelled':
        return meter.cancelled(this.tally.stage);
      case 'failed':
        return meter.failed(end.error.code);
      case 'refused':
      case 'abandoned': // nothing was generated
    }
  }

  #settle(end: Extract<RunEnd, { status: FinishedUsage['status'] }>): void {
    const { caller, reservation, usage } = this.admitted;
    const { promptTokens, completionTokens } = this.tally.usage;
    const reason = end.status === 'completed' ? end.reason : null;
    reservation.settle(promptTokens + completionTokens);
    usage.finished(this.#record(end.status, reason, end.status === 'failed' ? end.error.code : null));
    if (this.tally.estimated) caller.annotate({ usage_estimated: true });
    caller.annotate({
      completion_tokens: completionTokens,
      ...(end.status === 'failed' ? {} : { finish: reason ?? end.status }),
    });
  }

  #refund(end: RunEnd): void {
    const {
      caller: { identity, endpoint },
      model,
      reservation,
      usage,
    } = this.admitted;
    reservation.refund();
    if (!('error' in end)) return;
    const { status, code } = end.error;
    usage.rejected({ organizationId: identity.organizationId, keyId: identity.keyId, model, endpoint, status, code });
  }

  #record(
    status: FinishedUsage['status'],
    finishReason: string | null,
    errorCode: ApiError['code'] | null,
  ): FinishedUsage {
    const {
      caller: { identity, requestId, endpoint },
      model,
    } = this.admitted;
    const { usage } = this.tally;
    return {
      requestId,
      organizationId: identity.organizationId,
      keyId: identity.keyId,
      model,
      endpoint,
      stream: this.stream,
      status,
      ...this.tally.times(),
      inputTokens: usage.promptTokens,
      cachedTokens: usage.cachedTokens,
      outputTokens: usage.completionTokens,
      reasoningTokens: usage.reasoningTokens,
      images: this.#images,
      finishReason,
      errorCode,
    };
  }
}

function countImages(messages: readonly Message[]): number {
  let images = 0;
  for (const { content } of messages) {
    if (content === null || typeof content === 'string') continue;
    for (const part of content) if (part.type === 'image') images++;
  }
  return images;
}
