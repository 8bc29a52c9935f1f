// Generation events → the chat completions wire form, whole and streamed (contract sections 7 and 8). Pure:
// one encoder per request, told the events in order.
import type { EndReason, GenerationEvent, Logprob, TokenLogprob } from '../../generation/types.js';
import type { Usage } from '../generation-run.js';

export interface ChatEnvelope {
  id: string;
  created: number;              // seconds
  model: string;                // the name asked for
  fingerprint: string;
  n: number;
  wantLogprobs: boolean;
  includeReasoning: boolean;
  metadata: Record<string, string> | null;
}

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;
type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;

const FINISH_REASONS: Record<EndReason, 'stop' | 'length' | 'tool_calls'> = {
  end_of_turn: 'stop', stop_string: 'stop', tool_calls: 'tool_calls', malformed_call: 'length', max_tokens: 'length', context_full: 'length', time_limit: 'length',
};

/** Tokens that cannot occur have a log probability of minus infinity, which JSON lacks. */
const LOWEST_LOGPROB = -9999;

function wireLogprob({ token, logprob, bytes }: Logprob): { token: string; logprob: number; bytes: number[] } {
  return { token, logprob: Number.isFinite(logprob) ? Math.max(logprob, LOWEST_LOGPROB) : LOWEST_LOGPROB, bytes };
}

function wireTokenLogprob(entry: TokenLogprob): object {
  return { ...wireLogprob(entry), top_logprobs: entry.top.map(wireLogprob) };
}

function wireUsage(usage: Usage): object {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0,
    },
  };
}

/** Collects a whole answer. */
export class ChatCollector {
  readonly #choices: { content: string; reasoning: string; logprobs: object[]; finish: 'stop' | 'length' | 'tool_calls' | null }[];

  constructor(private readonly envelope: ChatEnvelope) {
    this.#choices = Array.from({ length: envelope.n }, () => ({ content: '', reasoning: '', logprobs: [], finish: null }));
  }

  text(event: TextEvent): void {
    const choice = this.#choices[event.choice];
    if (choice === undefined) return;
    if (event.section === 'reasoning') choice.reasoning += event.text;
    else choice.content += event.text;
    if (event.logprobs !== null) for (const entry of event.logprobs) choice.logprobs.push(wireTokenLogprob(entry));
  }

  finished(event: FinishedEvent): void {
    const choice = this.#choices[event.choice];
    if (choice !== undefined) choice.finish = FINISH_REASONS[event.reason];
  }

  body(usage: Usage): object {
    const { id, created, model, fingerprint, wantLogprobs, includeReasoning, metadata } = this.envelope;
    return {
      id, object: 'chat.completion', created, model, system_fingerprint: fingerprint, service_tier: 'default',
      choices: this.#choices.map((choice, index) => ({
        index,
        message: {
          role: 'assistant', content: choice.content,
          ...(choice.reasoning !== '' && includeReasoning ? { reasoning_content: choice.reasoning } : {}),
          refusal: null, annotations: [],
        },
        logprobs: wantLogprobs ? { content: choice.logprobs, refusal: null } : null,
        finish_reason: choice.finish,
      })),
      usage: wireUsage(usage),
      ...(metadata === null ? {} : { metadata }),
    };
  }
}

/**
 * Builds the chunks of a stream. Text chunks are the hot path: everything that does not change is
 * serialized once, so a token costs one JSON.stringify of its text.
 */
export class ChatStreamEncoder {
  readonly #head: string;       // up to and including `"choices":`
  readonly #tail: string;
  readonly #opened: boolean[];

  constructor(private readonly envelope: ChatEnvelope, private readonly includeUsage: boolean) {
    const { id, created, model, fingerprint } = envelope;
    const fixed = JSON.stringify({ id, object: 'chat.completion.chunk', created, model, system_fingerprint: fingerprint, service_tier: 'default' });
    this.#head = `${fixed.slice(0, -1)},"choices":`;
    this.#tail = includeUsage ? ',"usage":null}' : '}';
    this.#opened = new Array<boolean>(envelope.n).fill(false);
  }

  #chunk(index: number, delta: string, logprobs = 'null', finish = 'null'): string {
    return `${this.#head}[{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}}]${this.#tail}`;
  }

  /** The first chunk of a choice, with its role; nothing if it was opened before. */
  *#open(index: number): Generator<string> {
    if (this.#opened[index] !== false) return;
    this.#opened[index] = true;
    yield this.#chunk(index, '{"role":"assistant","content":""}');
  }

  /** The first chunk of every choice. */
  *opening(): Generator<string> {
    for (let index = 0; index < this.envelope.n; index++) yield* this.#open(index);
  }

  *text(event: TextEvent): Generator<string> {
    yield* this.#open(event.choice);
    if (event.section === 'reasoning') {
      if (event.text !== '' && this.envelope.includeReasoning) {
        yield this.#chunk(event.choice, `{"reasoning_content":${JSON.stringify(event.text)}}`);
      }
      return;
    }
    const hasLogprobs = event.logprobs !== null && event.logprobs.length > 0;
    if (event.text === '' && !hasLogprobs) return;
    const logprobs = hasLogprobs ? JSON.stringify({ content: event.logprobs!.map(wireTokenLogprob), refusal: null }) : 'null';
    yield this.#chunk(event.choice, `{"content":${JSON.stringify(event.text)}}`, logprobs);
  }

  *finished(event: FinishedEvent): Generator<string> {
    yield* this.#open(event.choice);
    yield this.#chunk(event.choice, '{}', 'null', `"${FINISH_REASONS[event.reason]}"`);
  }

  /** After the last choice: the usage chunk if it was asked for. */
  *usage(usage: Usage): Generator<string> {
    if (this.includeUsage) yield `${this.#head}[],"usage":${JSON.stringify(wireUsage(usage))}}`;
  }
}

/** What ends every stream. */
export const DONE = '[DONE]';
