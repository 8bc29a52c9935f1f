// Trace spans of one generation. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import type { EndReason, GenerationRequest } from '../generation/types.js';
import type { RequestTrace, SpanAttributes } from '../telemetry/request-trace.js';
import type { AdmittedGeneration } from './admit.js';
import type { RunEnd } from './run-end.js';
import type { ContinuedEvent, FinishedEvent, RunEvent, RunTally, StartedEvent } from './run-tally.js';

/** OpenTelemetry's names for end reasons. End reasons that are not listed here are reported as early ends. */
const REASONS: Readonly<Partial<Record<EndReason, string>>> = {
  end_of_turn: 'stop',
  stop_string: 'stop',
  tool_calls: 'tool_calls',
};

const operationOf = ({ raw, pooling }: GenerationRequest): string =>
  pooling !== undefined
    ? pooling.task === 'embedding'
      ? 'embeddings'
      : 'rerank'
    : raw === undefined
      ? 'chat'
      : 'text_completion';

interface StartedAt {
  readonly at: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/**
 * The parameters and results of a generation, under the names of the OpenTelemetry conventions for generative AI, and
 * its stages as timed by the engine's clock. Contains no text.
 */
export class RunTrace {
  readonly #submittedAt = performance.now();
  #started: StartedAt | null = null;
  #firstAt: number | null = null;
  /** When the tool call or listing that runs on this server started. */
  #calledAt = 0;
  /** Totals of the earlier rounds, which ended with calls of tools that this server runs. */
  readonly #earlier = { prefillMs: 0, decodeMs: 0, completionTokens: 0 };

  constructor(
    private readonly trace: RequestTrace,
    { request, asked, model }: Pick<AdmittedGeneration, 'request' | 'asked' | 'model'>,
  ) {
    const operation = operationOf(request);
    trace.named(`${operation} ${asked}`);
    trace.set({
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': 'monolith',
      'gen_ai.request.model': asked,
      'gen_ai.response.model': model,
      ...requestAttributes(request),
    });
  }

  take(event: RunEvent): void {
    switch (event.type) {
      case 'started':
        return this.#start(event);
      case 'search_started':
      case 'mcp_listing_started':
      case 'mcp_started':
        this.#calledAt = performance.now();
        return;
      case 'mcp_listing_finished': {
        const error = 'error' in event.listing ? 'failed' : null;
        this.trace.recordSpan('mcp list', this.#calledAt, performance.now(), {}, error);
        return;
      }
      case 'mcp_finished':
        this.trace.recordSpan('mcp call', this.#calledAt, performance.now(), {}, event.outcome.error?.type ?? null);
        return;
      case 'search_finished': {
        const { outcome } = event;
        const [results, error] = 'error' in outcome ? [null, outcome.error] : [outcome.results.length, null];
        const attributes = { 'monolith.search.results': results };
        this.trace.recordSpan('web search', this.#calledAt, performance.now(), attributes, error);
        return;
      }
      case 'continued':
        return this.#continue(event);
      default:
    }
  }

  /** All waits in the queue are recorded as one span, although the vision encoder runs between them. */
  #start({ queueMs, towerMs = 0, promptTokens, cachedTokens }: StartedEvent): void {
    const left = this.#submittedAt + queueMs;
    const at = left + towerMs;
    this.#started = { at, promptTokens, cachedTokens };
    this.trace.recordSpan('queue', this.#submittedAt, left);
    if (towerMs > 0) this.trace.recordSpan('tower', left, at);
  }

  /** Records the remaining spans of the last round, and starts the spans of the next one. */
  #continue({ promptTokens, cachedTokens, queueMs, before: { completionTokens, timings } }: ContinuedEvent): void {
    if (this.#started !== null) {
      const first = this.#first(this.#started, timings.prefillMs);
      this.trace.recordSpan('decode', first, first + timings.decodeMs, {
        'gen_ai.usage.output_tokens': completionTokens,
      });
    }
    this.#earlier.prefillMs += timings.prefillMs;
    this.#earlier.decodeMs += timings.decodeMs;
    this.#earlier.completionTokens += completionTokens;
    const at = performance.now();
    this.trace.recordSpan('queue', at - queueMs, at);
    this.#started = { at, promptTokens, cachedTokens };
    this.#firstAt = null;
  }

  choiceFinished({ choice, reason, completionTokens, timings }: FinishedEvent): void {
    if (this.#started === null) return;
    const first = this.#first(this.#started, timings.prefillMs - this.#earlier.prefillMs);
    const finish = REASONS[reason] ?? 'length';
    this.trace.recordSpan('decode', first, first + timings.decodeMs - this.#earlier.decodeMs, {
      'gen_ai.usage.output_tokens': completionTokens - this.#earlier.completionTokens,
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

  /** All choices share one prefill. The end of the prefill is computed from the first choice that ends. */
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

  /** Ends the spans of the stage during which the run ended early. */
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
    // Integer span attributes have at most 53 bits, but a seed has up to 64.
    'gen_ai.request.seed':
      sampling.seed === undefined || sampling.seed > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(sampling.seed),
    'gen_ai.output.type': format.type === 'json_object' || format.type === 'json_schema' ? 'json' : 'text',
    'monolith.format': format.type === 'text' ? null : format.type,
    'monolith.tools': tools.length === 0 ? null : tools.length,
  };
}
