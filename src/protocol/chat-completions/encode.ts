// Generation events → the chat completions wire form, whole and streamed (contract sections 7 and 8). Pure:
// one encoder per request, told the events in order; a wrong order throws (event-order.ts).
import type { GenerationEvent, Logprob, TokenLogprob } from '../../generation/types.js';
import type { Usage } from '../usage.js';
import { EventOrder, type ChoiceEvent } from './event-order.js';

export interface ChatEnvelope {
  id: string;
  created: number;              // seconds
  model: string;                // the name asked for
  fingerprint: string;
  n: number;
  wantLogprobs: boolean;
  includeReasoning: boolean;
  metadata: Record<string, string> | null;
  newCallId: () => string;
}

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;
type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;

/** A whole answer or a stream of one. */
export interface ChatEncoder {
  /** Throws if the event may not come now. */
  event(event: ChoiceEvent): void;
}

/** What ends every stream. */
const DONE = '[DONE]';

function finishReason({ reason, calls }: FinishedEvent): 'stop' | 'length' | 'tool_calls' {
  switch (reason) {
    case 'tool_calls': return 'tool_calls';
    case 'end_of_turn':
    case 'stop_string': return calls > 0 ? 'tool_calls' : 'stop';
    case 'malformed_call':
    case 'max_tokens':
    case 'context_full':
    case 'time_limit':
    case 'repetition': return 'length';
  }
}

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

interface CollectedChoice {
  content: string;
  reasoning: string;
  calls: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  logprobs: object[];
  finish: ReturnType<typeof finishReason> | null;
}

/** Collects a whole answer. */
export class ChatCollector implements ChatEncoder {
  readonly #order: EventOrder;
  readonly #choices: CollectedChoice[];

  constructor(private readonly envelope: ChatEnvelope) {
    this.#order = new EventOrder(envelope.n);
    this.#choices = Array.from({ length: envelope.n }, () => ({ content: '', reasoning: '', calls: [], logprobs: [], finish: null }));
  }

  event(event: ChoiceEvent): void {
    this.#order.take(event);
    const choice = this.#choices[event.choice] as CollectedChoice;   // the order knows no other
    switch (event.type) {
      case 'text':
        if (event.section === 'reasoning') choice.reasoning += event.text;
        else choice.content += event.text;
        if (event.logprobs !== null) for (const entry of event.logprobs) choice.logprobs.push(wireTokenLogprob(entry));
        break;
      case 'call_started':
        choice.calls.push({ id: this.envelope.newCallId(), type: 'function', function: { name: event.name, arguments: '' } });
        break;
      case 'call_arguments':
        (choice.calls[event.index] as CollectedChoice['calls'][number]).function.arguments += event.text;
        break;
      case 'call_finished':
        break;
      case 'finished':
        choice.finish = finishReason(event);
    }
  }

  /** After the last event. */
  body(usage: Usage): object {
    this.#order.complete();
    const { id, created, model, fingerprint, wantLogprobs, includeReasoning, metadata } = this.envelope;
    return {
      id, object: 'chat.completion', created, model, system_fingerprint: fingerprint, service_tier: 'default',
      choices: this.#choices.map((choice, index) => ({
        index,
        message: {
          role: 'assistant', content: choice.content === '' && choice.calls.length > 0 ? null : choice.content,
          ...(choice.reasoning !== '' && includeReasoning ? { reasoning_content: choice.reasoning } : {}),
          ...(choice.calls.length > 0 ? { tool_calls: choice.calls } : {}),
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
 * Makes the data of a stream's events and gives it to `send`. Text is the hot path: everything that does
 * not change is serialized once, so a token costs one JSON.stringify of its text.
 */
export class ChatStreamEncoder implements ChatEncoder {
  readonly #order: EventOrder;
  readonly #head: string;            // up to and including `"choices":`
  readonly #choiceHeads: string[];   // on from there, up to and including `"delta":`
  readonly #plainEnd: string;        // what follows the delta where there is nothing more to say
  readonly #tail: string;

  constructor(private readonly envelope: ChatEnvelope, private readonly includeUsage: boolean, private readonly send: (data: string) => void) {
    const { id, created, model, fingerprint, n } = envelope;
    this.#order = new EventOrder(n);
    const fixed = JSON.stringify({ id, object: 'chat.completion.chunk', created, model, system_fingerprint: fingerprint, service_tier: 'default' });
    this.#head = `${fixed.slice(0, -1)},"choices":`;
    this.#choiceHeads = Array.from({ length: n }, (_, index) => `${this.#head}[{"index":${index},"delta":`);
    this.#tail = includeUsage ? '}],"usage":null}' : '}]}';
    this.#plainEnd = `,"logprobs":null,"finish_reason":null${this.#tail}`;
  }

  event(event: ChoiceEvent): void {
    const isFirst = this.#order.take(event);
    const head = this.#choiceHeads[event.choice] as string;   // the order knows no other
    if (isFirst) this.send(`${head}{"role":"assistant","content":""}${this.#plainEnd}`);
    switch (event.type) {
      case 'text':
        this.#text(event, head);
        break;
      case 'call_started': {
        // The only piece with id, type and name: the openai client refuses to see them twice.
        const call = { index: event.index, id: this.envelope.newCallId(), type: 'function', function: { name: event.name, arguments: '' } };
        this.send(`${head}{"tool_calls":[${JSON.stringify(call)}]}${this.#plainEnd}`);
        break;
      }
      case 'call_arguments':
        if (event.text === '') break;
        this.send(`${head}{"tool_calls":[{"index":${event.index},"function":{"arguments":${JSON.stringify(event.text)}}}]}${this.#plainEnd}`);
        break;
      case 'call_finished':
        break;
      case 'finished':
        this.send(`${head}{},"logprobs":null,"finish_reason":"${finishReason(event)}"${this.#tail}`);
    }
  }

  #text(event: TextEvent, head: string): void {
    const { text, logprobs } = event;
    if (event.section === 'reasoning') {
      if (text !== '' && this.envelope.includeReasoning) this.send(`${head}{"reasoning_content":${JSON.stringify(text)}}${this.#plainEnd}`);
    } else if (logprobs !== null && logprobs.length > 0) {
      const content = JSON.stringify(logprobs.map(wireTokenLogprob));
      this.send(`${head}{"content":${JSON.stringify(text)}},"logprobs":{"content":${content},"refusal":null},"finish_reason":null${this.#tail}`);
    } else if (text !== '') {
      this.send(`${head}{"content":${JSON.stringify(text)}}${this.#plainEnd}`);
    }
  }

  /** After the last event: the usage if it was asked for, and the mark that ends every stream. */
  complete(usage: Usage): void {
    this.#order.complete();
    if (this.includeUsage) this.send(`${this.#head}[],"usage":${JSON.stringify(wireUsage(usage))}}`);
    this.send(DONE);
  }
}
