// A generation as its trace tells it: what was asked for and what came of it, in the names of OpenTelemetry's conventions
// for generative AI, and its way through the engine by the engine's own times. No text. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import type { GenerationRequest } from '../generation/types.js';
import type { RequestTrace, TraceFacts } from '../telemetry/request-trace.js';
import type { AdmittedGeneration } from './admit.js';
import type { RunEnd } from './run-entry.js';
import type { RunEvent, RunTally } from './run-tally.js';

type Started = Extract<RunEvent, { type: 'started' }>;
type Finished = Extract<RunEvent, { type: 'finished' }>;

/** The conventions' names of why a choice ended; all others are early ends. */
const REASONS: Readonly<Partial<Record<Finished['reason'], string>>> = {
  end_of_turn: 'stop',
  stop_string: 'stop',
  tool_calls: 'tool_calls',
};

interface StartedAt {
  readonly at: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

export class RunTrace {
  readonly #submittedAt = performance.now();
  #started: StartedAt | null = null;
  #firstAt: number | null = null;

  private constructor(private readonly trace: RequestTrace) {}

  /** Null: it is not recorded. */
  static of({
    caller: { trace },
    request,
    asked,
    model,
  }: Pick<AdmittedGeneration, 'caller' | 'request' | 'asked' | 'model'>): RunTrace | null {
    if (trace === null || trace === undefined) return null;
    const operation = request.raw === undefined ? 'chat' : 'text_completion';
    trace.named(`${operation} ${asked}`);
    trace.set({
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': 'monolith',
      'gen_ai.request.model': asked,
      'gen_ai.response.model': model,
      ...askedFor(request),
    });
    return new RunTrace(trace);
  }

  /** The tower computes between waits, which are shown in one. */
  started({ queueMs, towerMs = 0, promptTokens, cachedTokens }: Started): void {
    const left = this.#submittedAt + queueMs;
    const at = left + towerMs;
    this.#started = { at, promptTokens, cachedTokens };
    this.trace.stretch('queue', this.#submittedAt, left);
    if (towerMs > 0) this.trace.stretch('tower', left, at);
  }

  choiceFinished({ choice, reason, completionTokens, timings }: Finished): void {
    if (this.#started === null) return;
    const first = this.#first(this.#started, timings.prefillMs);
    const finish = REASONS[reason] ?? 'length';
    this.trace.stretch('decode', first, first + timings.decodeMs, {
      'gen_ai.usage.output_tokens': completionTokens,
      'monolith.choice': choice,
      'monolith.finish_reason': reason,
    });
    this.trace.append('gen_ai.response.finish_reasons', finish);
  }

  close(end: RunEnd, tally: RunTally): void {
    if (end.status === 'abandoned') return;
    const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = tally.usage;
    if (end.status !== 'completed') this.#brokeOff('error' in end ? end.error.code : null, tally);
    if (end.status === 'refused' || tally.startedAt === null) return;
    this.trace.add('gen_ai.usage.input_tokens', promptTokens);
    this.trace.add('gen_ai.usage.output_tokens', completionTokens);
    this.trace.add('gen_ai.usage.cache_read.input_tokens', cachedTokens);
    if (reasoningTokens > 0) this.trace.add('gen_ai.usage.reasoning.output_tokens', reasoningTokens);
  }

  /** Choices share one prefill: its end, which the first of them to end tells. */
  #first(started: StartedAt, prefillMs: number): number {
    if (this.#firstAt !== null) return this.#firstAt;
    const { at, promptTokens, cachedTokens } = started;
    this.#firstAt = at + prefillMs;
    this.trace.stretch('prefill', at, this.#firstAt, {
      'gen_ai.usage.input_tokens': promptTokens,
      'gen_ai.usage.cache_read.input_tokens': cachedTokens,
    });
    return this.#firstAt;
  }

  /** Where it was when it ended early. */
  #brokeOff(error: string | null, { stage, firstTokenAt }: RunTally): void {
    const now = performance.now();
    if (stage === 'decode' && this.#started !== null) {
      const first = this.#first(this.#started, Math.max(0, (firstTokenAt ?? now) - this.#started.at));
      this.trace.stretch('decode', first, now, {}, error);
    } else {
      this.trace.stretch(stage, this.#started?.at ?? this.#submittedAt, now, {}, error);
    }
  }
}

function askedFor(request: GenerationRequest): TraceFacts {
  const { sampling, format, tools } = request;
  return {
    'gen_ai.request.max_tokens': request.maxTokens,
    'gen_ai.request.choice.count': request.n === 1 ? null : request.n,
    'gen_ai.request.temperature': sampling.temperature,
    'gen_ai.request.top_p': sampling.topP,
    'gen_ai.request.top_k': sampling.topK,
    'gen_ai.request.frequency_penalty': sampling.frequencyPenalty,
    'gen_ai.request.presence_penalty': sampling.presencePenalty,
    // A span's whole numbers have 53 bits here; a seed has 64.
    'gen_ai.request.seed':
      sampling.seed === undefined || sampling.seed > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(sampling.seed),
    'gen_ai.output.type': format.type === 'json_object' || format.type === 'json_schema' ? 'json' : 'text',
    'monolith.format': format.type === 'text' ? null : format.type,
    'monolith.tools': tools.length === 0 ? null : tools.length,
  };
}
