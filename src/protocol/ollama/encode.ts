// Encodes generation events as the JSON of Ollama's chat and generate responses. A stream is one JSON object per line;
// a non-streamed response is one object with the same fields. Pure: one encoder per request receives the events in
// order and throws if they are out of order (event-order.ts).
import type { GenerationEvent, Logprob, TokenLogprob } from '../../generation/types.js';
import { GrowingText } from '../../shared/growing-text.js';
import { EventOrder, type ChoiceEvent } from '../chat-completions/event-order.js';
import { finiteLogprob } from '../prompt-logprobs.js';
import type { Usage } from '../usage.js';

export type OllamaKind = 'chat' | 'generate';

export interface OllamaEnvelope {
  kind: OllamaKind;
  /** The model name in the request. */
  model: string;
  newCallId: (key?: string) => string;
  /** performance.now() when the request arrived. */
  receivedAt: number;
  /** Milliseconds from arrival until the request was admitted. Includes loading the model. */
  loadMs: number;
}

type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;

/** One part of a response, as JSON text. Calls are text, because their arguments are sent as the model wrote them. */
interface Part {
  content: string;
  thinking: string;
  calls: readonly string[];
  logprobs: readonly TokenLogprob[];
}

/** Ollama reports `length` for every response that was cut off, regardless of the reason. */
const doneReason = ({ reason }: FinishedEvent): 'stop' | 'length' =>
  reason === 'end_of_turn' || reason === 'stop_string' || reason === 'tool_calls' ? 'stop' : 'length';

const nanoseconds = (ms: number): number => Math.max(0, Math.round(ms * 1e6));

const wireLogprob = ({ token, logprob, bytes }: Logprob): object => ({ token, logprob: finiteLogprob(logprob), bytes });
const wireTokenLogprob = (entry: TokenLogprob): object => ({
  ...wireLogprob(entry),
  top_logprobs: entry.top.map(wireLogprob),
});

/** The members of an object without its braces. */
const members = (object: object): string => JSON.stringify(object).slice(1, -1);

function partMembers(kind: OllamaKind, { content, thinking, calls, logprobs }: Part): string {
  const thought = thinking === '' ? {} : { thinking };
  const list = logprobs.length === 0 ? '' : `,${members({ logprobs: logprobs.map(wireTokenLogprob) })}`;
  if (kind === 'generate') return `${members({ response: content, ...thought })}${list}`;
  const called = calls.length === 0 ? '' : `,"tool_calls":[${calls.join(',')}]`;
  return `"message":{${members({ role: 'assistant', content, ...thought })}${called}}${list}`;
}

/** The response to a request without a prompt, which only loads the model. */
export const loadedAnswer = (kind: OllamaKind, model: string): object => ({
  model,
  created_at: new Date().toISOString(),
  ...(kind === 'chat' ? { message: { role: 'assistant', content: '' } } : { response: '' }),
  done: true,
  done_reason: 'load',
});

/** Converts events to parts of a response, and the end of a choice to the response's final members. */
abstract class OllamaEncoder {
  readonly #order = new EventOrder(1);
  #call: { key: string | undefined; name: string; arguments: GrowingText } | null = null;
  #calls = 0;
  #finished: FinishedEvent | null = null;

  constructor(protected readonly envelope: OllamaEnvelope) {}

  /** Throws if the event is out of order. */
  event(event: ChoiceEvent): void {
    this.#order.take(event);
    switch (event.type) {
      case 'text': {
        const text = event.section === 'content' ? { content: event.text } : { thinking: event.text };
        if (event.text !== '' || event.logprobs !== null)
          this.part({ content: '', thinking: '', ...text, calls: [], logprobs: event.logprobs ?? [] });
        return;
      }
      case 'call_started':
        this.#call = { key: event.key, name: event.name, arguments: new GrowingText() };
        return;
      case 'call_arguments':
        this.#call?.arguments.add(event.text);
        return;
      case 'call_finished':
        // A call that was cut off has no complete object as its arguments, so `done_reason` alone reports it.
        if (event.complete && this.#call !== null)
          this.part({ content: '', thinking: '', calls: [this.#callText(this.#call)], logprobs: [] });
        this.#call = null;
        return;
      case 'finished':
        this.#finished = event;
        return;
      default:
    }
  }

  protected abstract part(part: Part): void;

  protected head(): string {
    return members({ model: this.envelope.model, created_at: new Date().toISOString() });
  }

  protected end(usage: Usage): string {
    const finished = this.#finished;
    if (finished === null) throw new Error('the response ended without a finished event');
    const { timings } = finished;
    return members({
      done: true,
      done_reason: doneReason(finished),
      total_duration: nanoseconds(performance.now() - this.envelope.receivedAt),
      load_duration: nanoseconds(this.envelope.loadMs),
      prompt_eval_count: usage.promptTokens,
      prompt_eval_duration: nanoseconds(timings.prefillMs),
      eval_count: usage.completionTokens,
      eval_duration: nanoseconds(timings.decodeMs),
    });
  }

  /** Line breaks in JSON occur only between its tokens, where they can be replaced by spaces. */
  #callText({
    key,
    name,
    arguments: written,
  }: {
    key: string | undefined;
    name: string;
    arguments: GrowingText;
  }): string {
    const text = written
      .toString()
      .trim()
      .replace(/[\r\n]+/g, ' ');
    const head = members({ index: this.#calls++, name });
    return `{${members({ id: this.envelope.newCallId(key) })},"function":{${head},"arguments":${text === '' ? '{}' : text}}}`;
  }
}

/** Collects a non-streamed response. */
export class OllamaCollector extends OllamaEncoder {
  readonly #content = new GrowingText();
  readonly #thinking = new GrowingText();
  readonly #calls: string[] = [];
  readonly #logprobs: TokenLogprob[] = [];

  protected part({ content, thinking, calls, logprobs }: Part): void {
    this.#content.add(content);
    this.#thinking.add(thinking);
    this.#calls.push(...calls);
    for (const one of logprobs) this.#logprobs.push(one);
  }

  /** The body as JSON text. */
  body(usage: Usage): string {
    const whole = {
      content: this.#content.toString(),
      thinking: this.#thinking.toString(),
      calls: this.#calls,
      logprobs: this.#logprobs,
    };
    return `{${this.head()},${partMembers(this.envelope.kind, whole)},${this.end(usage)}}`;
  }
}

/** Writes a stream, one line per event. */
export class OllamaStreamEncoder extends OllamaEncoder {
  constructor(
    envelope: OllamaEnvelope,
    private readonly send: (line: string) => void,
  ) {
    super(envelope);
  }

  protected part(part: Part): void {
    this.send(`{${this.head()},${partMembers(this.envelope.kind, part)},"done":false}`);
  }

  complete(usage: Usage): void {
    const nothing = { content: '', thinking: '', calls: [], logprobs: [] };
    this.send(`{${this.head()},${partMembers(this.envelope.kind, nothing)},${this.end(usage)}}`);
  }
}
