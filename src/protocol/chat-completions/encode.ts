// Encodes generation events as chat completions JSON, streamed or not. Pure: one encoder per request receives the
// events in order and throws if they are out of order (event-order.ts).
import { CustomInputReader } from '../../generation/custom-tools.js';
import type { GenerationEvent, Logprob, TokenLogprob } from '../../generation/types.js';
import { JsonList, JsonText } from '../../http/json-text.js';
import { GrowingText } from '../../shared/growing-text.js';
import type { Usage } from '../usage.js';
import { finiteLogprob, PromptLogprobWriter } from '../prompt-logprobs.js';
import { EventOrder, type ChoiceEvent } from './event-order.js';

/**
 * Each client reads only one of these two fields, because vLLM renamed `reasoning_content` to `reasoning` in version
 * 0.16.
 */
export const REASONING_FIELDS = {
  both: ['reasoning_content', 'reasoning'],
  reasoning_content: ['reasoning_content'],
  reasoning: ['reasoning'],
} as const;
export type ReasoningField = keyof typeof REASONING_FIELDS;

export interface ChatEnvelope {
  id: string;
  created: number; // seconds
  model: string; // the model name from the request
  fingerprint: string;
  n: number;
  wantLogprobs: boolean;
  /** The names of the response fields for reasoning. Empty if reasoning is not sent. */
  reasoningFields: readonly string[];
  metadata: Record<string, string> | null;
  newCallId: (key?: string) => string;
  /** Names of the custom tools. Their input is free text. */
  customTools: ReadonlySet<string>;
  /** Whether a tool call is sent as `function_call`, OpenAI's deprecated form, because the request has `functions`. */
  callsFunctions: boolean;
  /**
   * The prompt's token IDs, which are sent in addition to the output's token IDs. Null if token IDs were not requested.
   */
  promptIds: readonly number[] | null;
  /** Number of most likely tokens to report per prompt token; null if not requested. */
  promptLogprobs: number | null;
}

export type EvaluationEvent = Extract<GenerationEvent, { type: 'prompt' | 'tokens' }>;

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;
type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;

/** Encodes a non-streamed response or a stream. */
export interface ChatEncoder {
  /** Throws if the event is out of order. */
  event(event: ChoiceEvent): void;
  evaluation(event: EvaluationEvent): void;
}

/** Sent as the last event of every stream. */
const DONE = '[DONE]';

type FinishReason = 'stop' | 'length' | 'tool_calls' | 'function_call';

function finishReason({ reason, calls }: FinishedEvent, { callsFunctions }: ChatEnvelope): FinishReason {
  const called = callsFunctions ? 'function_call' : 'tool_calls';
  switch (reason) {
    case 'tool_calls':
      return called;
    case 'end_of_turn':
    case 'stop_string':
      return calls > 0 ? called : 'stop';
    case 'malformed_call':
    case 'max_tokens':
    case 'context_full':
    case 'time_limit':
    case 'repetition':
      return 'length';
  }
}

function wireLogprob({ token, logprob, bytes }: Logprob): { token: string; logprob: number; bytes: number[] } {
  return { token, logprob: finiteLogprob(logprob), bytes };
}

function wireTokenLogprob(entry: TokenLogprob): object {
  return { ...wireLogprob(entry), top_logprobs: entry.top.map(wireLogprob) };
}

export function wireUsage(usage: Usage): object {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens,
      audio_tokens: 0,
      accepted_prediction_tokens: usage.prediction?.accepted ?? 0,
      rejected_prediction_tokens: usage.prediction?.rejected ?? 0,
    },
  };
}

interface CollectedChoice {
  content: GrowingText;
  reasoning: GrowingText;
  calls: { id: string; name: string; arguments: GrowingText; custom: CustomInputReader | null }[];
  logprobs: JsonList; // stored as text, because many alternatives make long responses large
  ids: number[];
  finish: FinishReason | null;
  stop: string | null; // the stop string that ended the choice
}

/** Collects a non-streamed response. */
export class ChatCollector implements ChatEncoder {
  readonly #order: EventOrder;
  readonly #choices: CollectedChoice[];
  readonly #prompt: PromptLogprobWriter | null;

  constructor(private readonly envelope: ChatEnvelope) {
    const { n, promptLogprobs } = envelope;
    this.#order = new EventOrder(n);
    this.#choices = Array.from({ length: n }, () => ({
      content: new GrowingText(),
      reasoning: new GrowingText(),
      calls: [],
      logprobs: new JsonList(),
      ids: [],
      finish: null,
      stop: null,
    }));
    this.#prompt = promptLogprobs === null ? null : new PromptLogprobWriter(promptLogprobs);
  }

  /** Number of characters of log probabilities that are held in memory. */
  get size(): number {
    return this.#choices.reduce((sum, { logprobs }) => sum + logprobs.size, this.#prompt?.list.size ?? 0);
  }

  evaluation(event: EvaluationEvent): void {
    if (event.type === 'prompt') for (const entry of event.logprobs) this.#prompt?.add(entry);
    else this.#choices[event.choice]?.ids.push(...event.ids);
  }

  event(event: ChoiceEvent): void {
    this.#order.take(event);
    const choice = this.#choices[event.choice] as CollectedChoice; // the order check rejects any other index
    switch (event.type) {
      case 'text':
        (event.section === 'reasoning' ? choice.reasoning : choice.content).add(event.text);
        if (event.logprobs !== null)
          for (const entry of event.logprobs) choice.logprobs.add(JSON.stringify(wireTokenLogprob(entry)));
        break;
      case 'call_started':
        choice.calls.push({
          id: this.envelope.newCallId(event.key),
          name: event.name,
          arguments: new GrowingText(),
          custom: this.envelope.customTools.has(event.name) ? new CustomInputReader() : null,
        });
        break;
      case 'call_arguments': {
        const call = choice.calls[event.index] as CollectedChoice['calls'][number];
        call.arguments.add(call.custom === null ? event.text : call.custom.add(event.text));
        break;
      }
      case 'call_finished': {
        const call = choice.calls[event.index] as CollectedChoice['calls'][number];
        if (call.custom !== null) call.arguments.add(call.custom.end(event.complete));
        break;
      }
      case 'finished':
        choice.finish = finishReason(event, this.envelope);
        choice.stop = event.stopString;
    }
  }

  /** Returns the complete response. Must be called after the last event. `metadata`: included unless it is null. */
  body(usage: Usage, metadata = this.envelope.metadata): JsonText {
    this.#order.complete();
    const { id, created, model, fingerprint, promptIds } = this.envelope;
    const head = JSON.stringify({
      id,
      object: 'chat.completion',
      created,
      model,
      system_fingerprint: fingerprint,
      service_tier: 'default',
    });
    const body = new JsonText().add(`${head.slice(0, -1)},"choices":[`);
    for (const [index, choice] of this.#choices.entries()) this.#choice(choice, index, body);
    body.add(`],"usage":${JSON.stringify(wireUsage(usage))}`);
    if (promptIds !== null) body.add(`,"prompt_token_ids":${JSON.stringify(promptIds)}`);
    if (this.#prompt !== null) this.#prompt.list.into(body.add(',"prompt_logprobs":'));
    return body.add(metadata === null ? '}' : `,"metadata":${JSON.stringify(metadata)}}`);
  }

  #callFields(calls: CollectedChoice['calls']): object {
    // A response in the deprecated form has at most one call per choice, because the parser disables parallel calls for
    // `functions`.
    if (this.envelope.callsFunctions)
      return { function_call: { name: calls[0]!.name, arguments: calls[0]!.arguments.toString() } };
    return {
      tool_calls: calls.map(({ id, name, arguments: text, custom }) =>
        custom === null
          ? { id, type: 'function', function: { name, arguments: text.toString() } }
          : { id, type: 'custom', custom: { name, input: text.toString() } },
      ),
    };
  }

  #choice(
    { content, reasoning, calls, logprobs, ids, finish, stop }: CollectedChoice,
    index: number,
    body: JsonText,
  ): void {
    const { wantLogprobs, reasoningFields, promptIds } = this.envelope;
    const thoughts = reasoning.toString();
    const message = {
      role: 'assistant',
      content: content.length === 0 && calls.length > 0 ? null : content.toString(),
      ...(thoughts === '' ? {} : Object.fromEntries(reasoningFields.map((name) => [name, thoughts]))),
      ...(calls.length > 0 ? this.#callFields(calls) : {}),
      refusal: null,
      annotations: [],
    };
    body.add(`${index === 0 ? '' : ','}{"index":${index},"message":${JSON.stringify(message)},"logprobs":`);
    if (wantLogprobs) {
      logprobs.into(body.add('{"content":'));
      body.add(',"refusal":null}');
    } else {
      body.add('null');
    }
    body.add(
      `,"finish_reason":${JSON.stringify(finish)},"stop_reason":${JSON.stringify(stop)}${promptIds === null ? '' : `,"token_ids":${JSON.stringify(ids)}`}}`,
    );
  }
}

/**
 * Builds the data of a stream's events and passes it to `send`. Text events are the hot path: all constant parts are
 * serialized once in advance, so each token costs one JSON.stringify of its text.
 */
export class ChatStreamEncoder implements ChatEncoder {
  readonly #order: EventOrder;
  readonly #fixed: string; // the beginning of every chunk
  readonly #head: string; // up to and including `"choices":`
  readonly #choiceHeads: string[]; // follows `#head`, up to and including `"delta":`
  // the part of a chunk after the delta if the chunk contains nothing else; null if chunks always have more fields
  readonly #plainEnd: string | null;
  readonly #ids: number[][]; // token IDs that have not been sent yet, by choice
  readonly #custom: (CustomInputReader | null)[]; // the reader of the open custom tool call, by choice
  #isFirst = true;

  constructor(
    private readonly envelope: ChatEnvelope,
    private readonly usage: StreamUsage,
    private readonly send: (data: string) => void,
  ) {
    const { id, created, model, fingerprint, n } = envelope;
    this.#order = new EventOrder(n);
    this.#fixed = JSON.stringify({
      id,
      object: 'chat.completion.chunk',
      created,
      model,
      system_fingerprint: fingerprint,
      service_tier: 'default',
    }).slice(0, -1);
    this.#head = `${this.#fixed},"choices":`;
    this.#choiceHeads = Array.from({ length: n }, (_, index) => `${this.#head}[{"index":${index},"delta":`);
    this.#ids = Array.from({ length: n }, () => []);
    this.#custom = Array.from({ length: n }, () => null);
    this.#plainEnd =
      envelope.promptIds !== null || usage.soFar !== null
        ? null
        : `,"logprobs":null,"finish_reason":null}]${this.#usage()}`;
  }

  evaluation(event: EvaluationEvent): void {
    if (event.type === 'tokens') this.#ids[event.choice]?.push(...event.ids);
  }

  event(event: ChoiceEvent): void {
    const { choice } = event;
    const isFirst = this.#order.take(event);
    const head = this.#choiceHeads[choice] as string; // the order check rejects any other index
    if (isFirst) this.#begin(head);
    switch (event.type) {
      case 'text':
        this.#text(event, head);
        break;
      case 'call_started': {
        if (this.envelope.callsFunctions) {
          this.send(
            `${head}{"function_call":${JSON.stringify({ name: event.name, arguments: '' })}}${this.#end(choice)}`,
          );
          break;
        }
        // Only this chunk contains the call's id, type and name, because the openai client rejects chunks that repeat
        // them.
        const isCustom = this.envelope.customTools.has(event.name);
        this.#custom[choice] = isCustom ? new CustomInputReader() : null;
        const call = {
          index: event.index,
          id: this.envelope.newCallId(event.key),
          ...(isCustom
            ? { type: 'custom', custom: { name: event.name, input: '' } }
            : { type: 'function', function: { name: event.name, arguments: '' } }),
        };
        this.send(`${head}{"tool_calls":[${JSON.stringify(call)}]}${this.#end(choice)}`);
        break;
      }
      case 'call_arguments': {
        const custom = this.#custom[choice] ?? null;
        if (custom !== null) this.#input(event, custom.add(event.text));
        else if (event.text !== '' && this.envelope.callsFunctions)
          this.send(`${head}{"function_call":{"arguments":${JSON.stringify(event.text)}}}${this.#end(choice)}`);
        else if (event.text !== '')
          this.send(
            `${head}{"tool_calls":[{"index":${event.index},"function":{"arguments":${JSON.stringify(event.text)}}}]}${this.#end(choice)}`,
          );
        break;
      }
      case 'call_finished':
        this.#input(event, this.#custom[choice]?.end(event.complete) ?? '');
        break;
      case 'finished':
        this.send(
          `${head}{}${this.#end(choice, 'null', `"${finishReason(event, this.envelope)}","stop_reason":${JSON.stringify(event.stopString)}`)}`,
        );
    }
  }

  /** Sends a delta of a custom tool's input. */
  #input({ choice, index }: { choice: number; index: number }, text: string): void {
    if (text === '') return;
    this.send(
      `${this.#choiceHeads[choice]}{"tool_calls":[{"index":${index},"custom":{"input":${JSON.stringify(text)}}}]}${this.#end(choice)}`,
    );
  }

  /** Sends a choice's first chunk. The first chunk of the response also contains the prompt's token IDs. */
  #begin(head: string): void {
    const { promptIds } = this.envelope;
    const delta = '{"role":"assistant","content":""}';
    if (promptIds === null || !this.#isFirst)
      return this.send(`${head}${delta},"logprobs":null,"finish_reason":null}]${this.#usage()}`);
    this.#isFirst = false;
    this.send(
      `${this.#fixed},"prompt_token_ids":${JSON.stringify(promptIds)}${head.slice(this.#fixed.length)}${delta},"logprobs":null,"finish_reason":null}]${this.#usage()}`,
    );
  }

  #text(event: TextEvent, head: string): void {
    const { text, logprobs, choice } = event;
    if (event.section === 'reasoning') {
      if (text === '' || this.envelope.reasoningFields.length === 0) return;
      const json = JSON.stringify(text);
      let fields = '';
      for (const name of this.envelope.reasoningFields) fields += `${fields === '' ? '' : ','}"${name}":${json}`;
      this.send(`${head}{${fields}}${this.#end(choice)}`);
    } else if (logprobs !== null && logprobs.length > 0) {
      const content = JSON.stringify(logprobs.map(wireTokenLogprob));
      this.send(
        `${head}{"content":${JSON.stringify(text)}}${this.#end(choice, `{"content":${content},"refusal":null}`)}`,
      );
    } else if (text !== '') {
      this.send(`${head}{"content":${JSON.stringify(text)}}${this.#end(choice)}`);
    }
  }

  /** Returns the part of a chunk that follows the delta. */
  #end(choice: number, logprobs = 'null', finish = 'null'): string {
    if (this.#plainEnd !== null && logprobs === 'null' && finish === 'null') return this.#plainEnd;
    const ids =
      this.envelope.promptIds === null ? '' : `,"token_ids":${JSON.stringify(this.#ids[choice]?.splice(0) ?? [])}`;
    return `,"logprobs":${logprobs},"finish_reason":${finish}${ids}}]${this.#usage()}`;
  }

  #usage(): string {
    const { soFar, atEnd } = this.usage;
    if (soFar !== null) return `,"usage":${JSON.stringify(wireUsage(soFar()))}}`;
    return atEnd ? ',"usage":null}' : '}';
  }

  /** Must be called after the last event. Sends the usage, if requested, and then the end marker. */
  complete(usage: Usage): void {
    this.#order.complete();
    if (this.usage.atEnd) this.send(`${this.#head}[],"usage":${JSON.stringify(wireUsage(usage))}}`);
    this.send(DONE);
  }
}

/** Usage reporting in a stream. */
export interface StreamUsage {
  /** Whether the usage is reported in a separate chunk at the end of the stream. */
  readonly atEnd: boolean;
  /** Returns the usage so far, which every chunk reports. Null if not requested. */
  readonly soFar: (() => Usage) | null;
}
