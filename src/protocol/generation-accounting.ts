// Counts, bills, logs and traces one generation from admission to its end. Event-loop thread only.
//
//   GenerationAccounting   settles the reservation; writes the usage record, the log entry, the metrics and log fields
//   RunTally               sums up tokens and times; the other parts read the result (run-tally.ts)
//   RunText                keeps text for the request log (run-text.ts)
//   RunTrace               writes trace spans (run-trace.ts)
import { performance } from 'node:perf_hooks';
import type { EndReason, GenerationRequest, Message } from '../generation/types.js';
import type { ApiError } from '../shared/errors.js';
import { bounded, ENTRY_TEXT } from '../shared/request-entry.js';
import type { RequestEntry } from '../shared/request-entry.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import { outcomeOfError } from '../telemetry/outcome.js';
import type { AdmittedGeneration } from './admit.js';
import { setHeaders } from './caller.js';
import { allPlaces } from './foreign-thinking.js';
import { loggedDiagnosis } from './prompt-cache/cache-diagnostics.js';
import type { RunEnd } from './run-end.js';
import { RunTally, type FinishedEvent, type RunEvent } from './run-tally.js';
import { RunText } from './run-text.js';
import { RunTrace } from './run-trace.js';

const ROUND_EVENTS: ReadonlySet<RunEvent['type']> = new Set(['continued', 'search_finished', 'mcp_finished']);

/** Accounts for one generation exactly once, regardless of how it ends. */
export class GenerationAccounting {
  readonly tally: RunTally;
  readonly #images: number;
  readonly #parameters: NonNullable<RequestEntry['parameters']>;
  readonly #text: RunText | null;
  readonly #trace: RunTrace | null;
  #leftOut = '';
  #closed = false;

  /** `stream`: whether the client requested a stream. */
  constructor(
    private readonly admitted: Omit<AdmittedGeneration, 'run'>,
    private readonly stream: boolean,
  ) {
    this.tally = new RunTally(admitted.prepared, admitted.meter, admitted.caller.receivedAt);
    this.#images = countImages(admitted.request.messages);
    const { batchId } = admitted.caller;
    const parameters = parametersOf(admitted.request);
    this.#parameters = batchId === undefined ? parameters : { ...parameters, batch: batchId };
    this.#text =
      admitted.caller.identity.keepsText === true
        ? new RunText(admitted.requests.textCharacters, admitted.request.messages)
        : null;
    const { trace } = admitted.caller;
    this.#trace = trace === null || trace === undefined ? null : new RunTrace(trace, admitted);
  }

  get closed(): boolean {
    return this.#closed;
  }

  take(event: RunEvent): void {
    this.tally.take(event);
    this.#text?.take(event);
    this.#trace?.take(event);
    if (ROUND_EVENTS.has(event.type)) this.#annotateRounds();
    if (event.type !== 'started') return;
    if (event.leftOut !== undefined && event.leftOut.length > 0)
      this.#leftOut = allPlaces(event.leftOut.map(({ path }) => path));
    const { promptTokens, cachedTokens, queueMs, towerMs } = event;
    this.admitted.caller.annotate({
      prompt_tokens: promptTokens,
      cached_tokens: cachedTokens,
      queue_ms: Math.round(queueMs),
      ...(towerMs === undefined ? {} : { tower_ms: Math.round(towerMs) }),
    });
  }

  #annotateRounds(): void {
    const { promptTokens, cachedTokens, webSearches = 0 } = this.tally.usage;
    const { mcpCalls } = this.tally;
    this.admitted.caller.annotate({
      prompt_tokens: promptTokens,
      cached_tokens: cachedTokens,
      web_searches: webSearches,
      ...(mcpCalls === 0 ? {} : { mcp_calls: mcpCalls }),
    });
  }

  /**
   * Called after the sink has accepted the end of a choice. If the sink throws instead, the generation counts as
   * failed.
   */
  choiceFinished(event: FinishedEvent): void {
    const { meter, prepared } = this.admitted;
    // Recorded only once, because all choices share one prefill.
    if (this.tally.choicesLeft === prepared.n - 1) meter.prefilled(event.timings.prefillMs);
    meter.choiceFinished(event);
    this.#trace?.choiceFinished(event);
  }

  /**
   * The usage record as it would be if the process ended now. Null if there is nothing to bill yet, and after the run
   * has ended.
   */
  soFar(): FinishedUsage | null {
    if (this.#closed || this.tally.completionTokens === 0) return null;
    return this.#usageRecord('failed', null, 'internal_error');
  }

  close(end: RunEnd): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#measure(end);
    this.#trace?.close(end, this.tally);
    // A generation that fails before its first token does not count toward the limits.
    if (
      end.status === 'completed' ||
      end.status === 'cancelled' ||
      (end.status === 'failed' && this.tally.completionTokens > 0)
    )
      this.#settle(end);
    else this.#refund(end);
    this.admitted.requests.add(this.#logEntry(end));
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
    usage.finished(this.#usageRecord(end.status, reason, end.status === 'failed' ? end.error.code : null));
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

  // Records stay in memory until they are stored. They are built without spreads, which would make V8 use a large hash
  // table for each record.

  #usageRecord(
    status: FinishedUsage['status'],
    finishReason: EndReason | null,
    errorCode: ApiError['code'] | null,
  ): FinishedUsage {
    const { caller, model } = this.admitted;
    const { requestId, endpoint } = caller;
    const { organizationId, keyId } = caller.identity;
    const { usage } = this.tally;
    const { receivedAt, startedAt, firstTokenAt, endedAt } = this.tally.times();
    return {
      requestId,
      organizationId,
      keyId,
      model,
      endpoint,
      stream: this.stream,
      status,
      receivedAt,
      startedAt,
      firstTokenAt,
      endedAt,
      inputTokens: usage.promptTokens,
      cachedTokens: usage.cachedTokens,
      outputTokens: usage.completionTokens,
      reasoningTokens: usage.reasoningTokens,
      images: this.#images,
      finishReason,
      errorCode,
    };
  }

  #logEntry(end: RunEnd): RequestEntry {
    const { caller, model } = this.admitted;
    const { usage, queueMs, towerMs, estimated } = this.tally;
    const { receivedAt, startedAt, firstTokenAt, endedAt } = this.tally.times();
    const { status, outcome, code, message, param } = logResult(end, usage.completionTokens);
    const entry: RequestEntry = {
      requestId: caller.requestId,
      organizationId: caller.identity.organizationId,
      keyId: caller.identity.keyId,
      model,
      askedModel: bounded(this.admitted.asked, ENTRY_TEXT.model),
      method: caller.method ?? null,
      endpoint: caller.endpoint,
      stream: this.stream,
      status,
      outcome,
      code,
      message,
      param,
      client: caller.client ?? null,
      traceId: caller.trace?.id ?? null,
      finishReason: end.status === 'completed' ? end.reason : null,
      receivedAt,
      startedAt,
      firstTokenAt,
      endedAt,
      queueMs,
      inputTokens: usage.promptTokens,
      cachedTokens: usage.cachedTokens,
      outputTokens: usage.completionTokens,
      reasoningTokens: usage.reasoningTokens,
      images: this.#images,
      parameters: this.#loggedParameters(estimated),
      text: this.#loggedText(),
    };
    return towerMs === null ? entry : { ...entry, towerMs };
  }

  #loggedText(): RequestEntry['text'] {
    const text = this.#text?.text ?? null;
    const difference = this.admitted.diagnostics?.difference ?? null;
    return text === null || difference === null ? text : { ...text, difference };
  }

  #loggedParameters(estimated: boolean): NonNullable<RequestEntry['parameters']> {
    const { diagnosis = null, tiers = null } = this.admitted.diagnostics ?? {};
    if (!estimated && this.#leftOut === '' && diagnosis === null) return this.#parameters;
    return {
      ...this.#parameters,
      ...(diagnosis === null ? {} : loggedDiagnosis(diagnosis, tiers)),
      ...(this.#leftOut === '' ? {} : { ignored_content: this.#leftOut }),
      ...(estimated ? { usage_estimated: true } : {}),
    };
  }
}

type LogResult = Pick<RequestEntry, 'status' | 'outcome' | 'code'> & { message: string | null; param: string | null };

/** A run's result in the form used by the request log. */
function logResult(end: RunEnd, completionTokens: number): LogResult {
  const none = { code: null, message: null, param: null };
  if (end.status === 'completed') return { ...none, status: 200, outcome: 'completed' };
  if (end.status === 'cancelled') return { ...none, status: null, outcome: 'cancelled' };
  if (end.status === 'abandoned') return { ...none, status: 500, outcome: 'failed', code: 'internal_error' };
  const { status, code, message, param } = end.error;
  return {
    status,
    outcome: outcomeOfError(status, completionTokens),
    code,
    message: bounded(message, ENTRY_TEXT.message),
    param: param === null ? null : bounded(param, ENTRY_TEXT.param),
  };
}

function countImages(messages: readonly Message[]): number {
  let images = 0;
  for (const { content } of messages) {
    if (content === null || typeof content === 'string') continue;
    for (const part of content) if (part.type === 'image') images++;
  }
  return images;
}

/** The request's parameters other than its text. Parameters left at the model's defaults are omitted. */
function parametersOf(request: GenerationRequest): NonNullable<RequestEntry['parameters']> {
  const { sampling, tools, pooling } = request;
  if (pooling !== undefined) {
    const { inputs, dimensions } = pooling;
    return dimensions === null ? { inputs } : { inputs, dimensions };
  }
  if (request.decisions !== undefined) {
    const { questions } = request.decisions;
    return { messages: request.messages.length - questions, questions };
  }
  const asked: Record<string, string | number | boolean> = { messages: request.messages.length };
  const put = (name: string, value: string | number | boolean | null | undefined): void => {
    if (value !== null && value !== undefined) asked[name] = value;
  };
  put('max_tokens', request.maxTokens);
  if (request.n !== 1) asked['n'] = request.n;
  put('temperature', sampling.temperature);
  put('top_p', sampling.topP);
  put('top_k', sampling.topK);
  put('min_p', sampling.minP);
  put('repetition_penalty', sampling.repetitionPenalty);
  put('frequency_penalty', sampling.frequencyPenalty);
  put('presence_penalty', sampling.presencePenalty);
  put('seed', sampling.seed?.toString());
  put('logit_bias', sampling.logitBias?.length);
  if (request.stop.length > 0) asked['stop'] = request.stop.length;
  put('top_logprobs', request.topLogprobs);
  put('effort', request.effort);
  put('reasoning_budget', request.reasoningBudget);
  if (tools.length > 0) {
    asked['tools'] = tools.length;
    asked['tool_choice'] = request.toolChoice.mode;
    asked['parallel_tool_calls'] = request.parallelToolCalls;
  }
  if (request.format.type !== 'text') asked['format'] = request.format.type;
  if (request.truncation === 'auto') asked['truncation'] = 'auto';
  if (request.continueFinal) asked['continue_final'] = true;
  return asked;
}
