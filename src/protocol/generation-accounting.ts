// Counts, bills, logs and traces one generation from admission to its end. Event-loop thread only.
//
//   GenerationAccounting   settles the reservation; writes the usage record, the log entry, the metrics and log fields
//   RunTally               sums up tokens and times; the other parts read the result
//   RunText                keeps text for the request log
//   RunTrace               writes trace spans
import { performance } from 'node:perf_hooks';
import type { PreparedGeneration } from '../generation/provider.js';
import type { Counted, EndReason, GenerationEvent, GenerationRequest, Message } from '../generation/types.js';
import type { ApiError } from '../shared/errors.js';
import type { RequestEntry, RequestText } from '../shared/request-entry.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import { wallClock } from '../shared/wall-clock.js';
import { outcomeOfError } from '../telemetry/outcome.js';
import type { RequestTrace, SpanAttributes } from '../telemetry/request-trace.js';
import type { CancelStage, GenerationMeter } from '../telemetry/types.js';
import type { AdmittedGeneration } from './admit.js';
import { setHeaders } from './caller.js';
import { allPlaces } from './foreign-thinking.js';
import type { Usage } from './usage.js';

export type RunEvent = Exclude<GenerationEvent, { type: 'failed' }>;
type OutputEvent = Exclude<RunEvent, { type: 'started' | 'finished' | 'prompt' | 'tokens' | 'thought' }>;
type StartedEvent = Extract<RunEvent, { type: 'started' }>;
type FinishedEvent = Extract<RunEvent, { type: 'finished' }>;

export type RunEnd =
  | { status: 'completed'; reason: EndReason } // end reason of the choice that ended last
  | { status: 'cancelled' } // the client no longer needs the output
  | { status: 'failed'; error: ApiError }
  | { status: 'refused'; error: ApiError } // the provider rejected the request
  | { status: 'abandoned' }; // never started, because the consumer failed

/** Accounts for one generation exactly once, however it ends. */
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
    this.#parameters = parametersOf(admitted.request);
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
    if (event.type !== 'started') return;
    if (event.leftOut !== undefined && event.leftOut.length > 0)
      this.#leftOut = allPlaces(event.leftOut.map(({ path }) => path));
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
  choiceFinished(event: FinishedEvent): void {
    const { meter, prepared } = this.admitted;
    // All choices share one prefill, so it is recorded once.
    if (this.tally.choicesLeft === prepared.n - 1) meter.prefilled(event.timings.prefillMs);
    meter.choiceFinished(event);
    this.#trace?.choiceFinished(event);
  }

  /**
   * The usage record as it would be if the process ended now. Null while nothing is billable and after the run has
   * ended.
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

  // Records are kept until they are stored. They are built without spreads, which would make V8 use a large hash table
  // for each record.

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
    const { status, outcome, code } = logResult(end, usage.completionTokens);
    const entry: RequestEntry = {
      requestId: caller.requestId,
      organizationId: caller.identity.organizationId,
      keyId: caller.identity.keyId,
      model,
      endpoint: caller.endpoint,
      stream: this.stream,
      status,
      outcome,
      code,
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
      text: this.#text?.text ?? null,
    };
    return towerMs === null ? entry : { ...entry, towerMs };
  }

  #loggedParameters(estimated: boolean): NonNullable<RequestEntry['parameters']> {
    if (!estimated && this.#leftOut === '') return this.#parameters;
    return {
      ...this.#parameters,
      ...(this.#leftOut === '' ? {} : { ignored_content: this.#leftOut }),
      ...(estimated ? { usage_estimated: true } : {}),
    };
  }
}

/** A run's result as the request log reports it. */
function logResult(end: RunEnd, completionTokens: number): Pick<RequestEntry, 'status' | 'outcome' | 'code'> {
  if (end.status === 'completed') return { status: 200, outcome: 'completed', code: null };
  if (end.status === 'cancelled') return { status: null, outcome: 'cancelled', code: null };
  if (end.status === 'abandoned') return { status: 500, outcome: 'failed', code: 'internal_error' };
  const { status, code } = end.error;
  return { status, outcome: outcomeOfError(status, completionTokens), code };
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
  const { sampling, tools } = request;
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

/** Counts for one choice so far. */
interface ChoiceTally {
  tokens: number;
  reasoningTokens: number;
  lastTokenAt: number;
}

/** Sums up tokens and times from the events. */
export class RunTally {
  /** A performance.now() time. Null: that stage has not been reached. */
  startedAt: number | null = null;
  firstTokenAt: number | null = null;
  /** Milliseconds spent in the engine's queue. */
  queueMs: number | null = null;
  /** Milliseconds that the vision encoder spent on the request's images. Null: no images were encoded. */
  towerMs: number | null = null;
  /** Whether the usage remains an estimate even after the end. */
  estimated = false;
  choicesLeft: number;
  #promptTokens: number; // an estimate until the run starts, if it was one at admission
  #cachedTokens = 0;
  #completionTokens = 0;
  #reasoningTokens = 0;
  readonly #choices: ChoiceTally[];

  /**
   * `receivedAt`: performance.now() when the request arrived. Each time is passed to the meter as soon as it is known.
   */
  constructor(
    { promptTokens, n }: Pick<PreparedGeneration, 'promptTokens' | 'n'>,
    private readonly meter: GenerationMeter,
    private readonly receivedAt: number,
  ) {
    this.#promptTokens = promptTokens.tokens;
    this.choicesLeft = n;
    this.#choices = Array.from({ length: n }, () => ({ tokens: 0, reasoningTokens: 0, lastTokenAt: 0 }));
  }

  take(event: RunEvent): void {
    switch (event.type) {
      case 'started':
        this.startedAt = performance.now();
        this.queueMs = Math.round(event.queueMs);
        if (event.towerMs !== undefined) this.towerMs = Math.round(event.towerMs);
        this.#promptTokens = event.promptTokens;
        this.#cachedTokens = event.cachedTokens;
        this.meter.started(event);
        return;
      case 'prompt':
      case 'tokens':
      case 'thought':
        return;
      case 'finished':
        this.choicesLeft--;
        if (event.counted !== undefined) this.#recount(event, event.counted);
        this.#count(event.choice, event.completionTokens, event.reasoningTokens);
        return;
      default:
        if (event.tokens > 0) this.#output(event);
    }
  }

  get completionTokens(): number {
    return this.#completionTokens;
  }

  get usage(): Usage {
    return {
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      completionTokens: this.#completionTokens,
      reasoningTokens: this.#reasoningTokens,
    };
  }

  /** The times of arrival, start and first token, and the current time as the end. */
  times(): Pick<FinishedUsage, 'receivedAt' | 'startedAt' | 'firstTokenAt' | 'endedAt'> {
    const wall = wallClock();
    const at = (moment: number): number => Math.round(wall(moment));
    const { startedAt, firstTokenAt } = this;
    return {
      receivedAt: at(this.receivedAt),
      startedAt: startedAt === null ? null : at(startedAt),
      firstTokenAt: firstTokenAt === null ? null : at(firstTokenAt),
      endedAt: at(performance.now()),
    };
  }

  /** The stage reported if the run is cancelled now. */
  get stage(): CancelStage {
    if (this.startedAt === null) return 'queue';
    return this.firstTokenAt === null ? 'prefill' : 'decode';
  }

  #output(event: OutputEvent): void {
    const { choice, tokens } = event;
    const now = performance.now();
    if (this.firstTokenAt === null) {
      this.firstTokenAt = now;
      this.meter.firstToken(now - this.receivedAt);
    }
    const counted = this.#choice(choice);
    if (counted.lastTokenAt > 0) this.meter.laterTokens(tokens, now - counted.lastTokenAt);
    counted.lastTokenAt = now;
    this.#count(
      choice,
      counted.tokens + tokens,
      counted.reasoningTokens + (event.type === 'text' && event.section === 'reasoning' ? tokens : 0),
    );
  }

  /** Replaces the estimated counts for the choice and the prompt. */
  #recount(
    { choice: index, completionTokens, reasoningTokens }: FinishedEvent,
    { promptTokens, cachedTokens, estimated }: Counted,
  ): void {
    const choice = this.#choice(index);
    this.#promptTokens = promptTokens;
    this.#cachedTokens = cachedTokens;
    this.estimated ||= estimated;
    this.#completionTokens -= Math.max(0, choice.tokens - completionTokens);
    this.#reasoningTokens -= Math.max(0, choice.reasoningTokens - reasoningTokens);
    choice.tokens = Math.min(choice.tokens, completionTokens);
    choice.reasoningTokens = Math.min(choice.reasoningTokens, reasoningTokens);
  }

  /**
   * Raises the choice's counts to these totals, because the final event may report more tokens than the earlier events
   * did. Counts never decrease.
   */
  #count(index: number, tokens: number, reasoningTokens: number): void {
    const choice = this.#choice(index);
    const more = Math.max(0, tokens - choice.tokens);
    const reasoned = Math.max(0, reasoningTokens - choice.reasoningTokens);
    choice.tokens += more;
    choice.reasoningTokens += reasoned;
    this.#completionTokens += more;
    this.#reasoningTokens += reasoned;
  }

  #choice(index: number): ChoiceTally {
    const choice = this.#choices[index];
    if (choice === undefined) throw new Error(`received an event for choice ${index}, which was not requested`);
    return choice;
  }
}

type Section = RequestText['answer'][number]['section'];
interface Piece {
  choice: number;
  section: Section;
  text: string;
}

/**
 * The text of the prompt and the output, up to a maximum number of characters, for organizations that store text in the
 * request log.
 */
export class RunText {
  readonly #prompt: { role: string; text: string }[] = [];
  readonly #pieces: Piece[] = [];
  #room: number;
  #cut = false;

  /** If the messages do not fit, the most recent text is kept. */
  constructor(characters: number, messages: readonly Message[]) {
    this.#room = characters;
    let room = characters;
    for (const message of [...messages].reverse()) {
      const text = textOf(message);
      if (text.length > room) this.#cut = true;
      // The text is copied, because a slice would keep the whole source string alive.
      if (room > 0)
        this.#prompt.unshift({
          role: message.role,
          text: text.length > room ? Buffer.from(text.slice(text.length - room)).toString() : text,
        });
      room = Math.max(0, room - text.length);
    }
  }

  get text(): RequestText {
    return { prompt: this.#prompt, answer: this.#pieces, cut: this.#cut };
  }

  take(event: RunEvent): void {
    switch (event.type) {
      case 'text':
        return this.#add(event.choice, event.section, event.text, false);
      case 'call_started':
        return this.#add(event.choice, 'call', `${event.name} `, true);
      case 'call_arguments':
        return this.#add(event.choice, 'call', event.text, false);
      default:
    }
  }

  #add(choice: number, section: Section, text: string, restart: boolean): void {
    const fits = text.length > this.#room ? text.slice(0, this.#room) : text;
    if (fits.length < text.length) this.#cut = true;
    if (fits === '') return;
    this.#room -= fits.length;
    const last = this.#pieces.findLast((piece) => piece.choice === choice);
    if (!restart && last?.section === section) last.text += fits;
    else this.#pieces.push({ choice, section, text: fits });
  }
}

function textOf({ content, ...message }: Message): string {
  const said =
    content === null
      ? ''
      : typeof content === 'string'
        ? content
        : content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('');
  const calls =
    'toolCalls' in message ? (message.toolCalls ?? []).map(({ name, arguments: given }) => `${name} ${given}`) : [];
  return [said, ...calls].filter((text) => text !== '').join('\n');
}

/** The OpenTelemetry names for end reasons. All other reasons count as early ends. */
const REASONS: Readonly<Partial<Record<EndReason, string>>> = {
  end_of_turn: 'stop',
  stop_string: 'stop',
  tool_calls: 'tool_calls',
};

interface StartedAt {
  readonly at: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/**
 * The parameters and results of a generation, under the names of the OpenTelemetry conventions for generative AI, and
 * its stages as timed by the engine's own clock. Contains no text.
 */
class RunTrace {
  readonly #submittedAt = performance.now();
  #started: StartedAt | null = null;
  #firstAt: number | null = null;

  constructor(
    private readonly trace: RequestTrace,
    { request, asked, model }: Pick<AdmittedGeneration, 'request' | 'asked' | 'model'>,
  ) {
    const operation = request.raw === undefined ? 'chat' : 'text_completion';
    trace.named(`${operation} ${asked}`);
    trace.set({
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': 'monolith',
      'gen_ai.request.model': asked,
      'gen_ai.response.model': model,
      ...requestAttributes(request),
    });
  }

  /** The vision encoder runs between several waits, which are recorded together as one span. */
  started({ queueMs, towerMs = 0, promptTokens, cachedTokens }: StartedEvent): void {
    const left = this.#submittedAt + queueMs;
    const at = left + towerMs;
    this.#started = { at, promptTokens, cachedTokens };
    this.trace.recordSpan('queue', this.#submittedAt, left);
    if (towerMs > 0) this.trace.recordSpan('tower', left, at);
  }

  choiceFinished({ choice, reason, completionTokens, timings }: FinishedEvent): void {
    if (this.#started === null) return;
    const first = this.#first(this.#started, timings.prefillMs);
    const finish = REASONS[reason] ?? 'length';
    this.trace.recordSpan('decode', first, first + timings.decodeMs, {
      'gen_ai.usage.output_tokens': completionTokens,
      'monolith.choice': choice,
      'monolith.finish_reason': reason,
    });
    this.trace.append('gen_ai.response.finish_reasons', finish);
  }

  close(end: RunEnd, tally: RunTally): void {
    if (end.status === 'abandoned') return;
    const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = tally.usage;
    if (end.status !== 'completed') this.#endEarly('error' in end ? end.error.code : null, tally);
    if (end.status === 'refused' || tally.startedAt === null) return;
    this.trace.add('gen_ai.usage.input_tokens', promptTokens);
    this.trace.add('gen_ai.usage.output_tokens', completionTokens);
    this.trace.add('gen_ai.usage.cache_read.input_tokens', cachedTokens);
    if (reasoningTokens > 0) this.trace.add('gen_ai.usage.reasoning.output_tokens', reasoningTokens);
  }

  /** All choices share one prefill. The first choice to end determines when it ended. */
  #first(started: StartedAt, prefillMs: number): number {
    if (this.#firstAt !== null) return this.#firstAt;
    const { at, promptTokens, cachedTokens } = started;
    this.#firstAt = at + prefillMs;
    this.trace.recordSpan('prefill', at, this.#firstAt, {
      'gen_ai.usage.input_tokens': promptTokens,
      'gen_ai.usage.cache_read.input_tokens': cachedTokens,
    });
    return this.#firstAt;
  }

  /** Ends the spans of the stage in which the run ended early. */
  #endEarly(error: string | null, { stage, firstTokenAt }: RunTally): void {
    const now = performance.now();
    if (stage === 'decode' && this.#started !== null) {
      const first = this.#first(this.#started, Math.max(0, (firstTokenAt ?? now) - this.#started.at));
      this.trace.recordSpan('decode', first, now, {}, error);
    } else {
      this.trace.recordSpan(stage, this.#started?.at ?? this.#submittedAt, now, {}, error);
    }
  }
}

function requestAttributes(request: GenerationRequest): SpanAttributes {
  const { sampling, format, tools } = request;
  return {
    'gen_ai.request.max_tokens': request.maxTokens,
    'gen_ai.request.choice.count': request.n === 1 ? null : request.n,
    'gen_ai.request.temperature': sampling.temperature,
    'gen_ai.request.top_p': sampling.topP,
    'gen_ai.request.top_k': sampling.topK,
    'gen_ai.request.frequency_penalty': sampling.frequencyPenalty,
    'gen_ai.request.presence_penalty': sampling.presencePenalty,
    // Integer span attributes are limited to 53 bits here, but a seed has up to 64.
    'gen_ai.request.seed':
      sampling.seed === undefined || sampling.seed > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(sampling.seed),
    'gen_ai.output.type': format.type === 'json_object' || format.type === 'json_schema' ? 'json' : 'text',
    'monolith.format': format.type === 'text' ? null : format.type,
    'monolith.tools': tools.length === 0 ? null : tools.length,
  };
}
