// Requests to upstreams in the responses format, and their responses, streamed or not. Upstreams do not store
// responses: this server stores response chains and sends them in full. Event-loop thread only.
import { apiError } from '../../../shared/errors.js';
import type { Content, GenerationRequest, Message, OutputFormat } from '../../types.js';
import type { AnswerEvents } from '../answer-events.js';
import { notUnderstood, type UpstreamFault } from '../fault.js';
import {
  argumentsIn,
  batchesIn,
  bearer,
  given,
  listIn,
  numberIn,
  objectIn,
  placeIn,
  textIn,
  type AnswerReader,
  type Asked,
  type Body,
  type Json,
  type UpstreamApi,
} from './api.js';
import { imageData, LEVELS } from './chat-request.js';
import { refuseOwnArithmetic, refuseTemplateVariables, textWithLogprobs } from './chat-parts.js';
import { withThoughts } from './turn-parts.js';

export const responses: UpstreamApi = {
  path: '/responses',
  takesBack: 'reasoning',
  body,
  holds,
  headers: bearer,
  reader: (answer, fault) => new ResponsesReader(answer, fault),
};

function body(asked: Asked): Body {
  const { request, cap, upstream } = asked;
  refuseOwnArithmetic(request);
  refuseTemplateVariables(request);
  if (request.n > 1)
    throw apiError(
      'unsupported_value',
      'n must be 1: the upstream server for this model returns a single choice.',
      'n',
    );
  if (request.stop.length > 0)
    throw apiError(
      'unsupported_parameter',
      'stop: the upstream server for this model does not support stop strings.',
      'stop',
    );
  const { sampling, effort, tools } = request;
  return given({
    input: request.messages.flatMap(itemsOf),
    stream: true,
    store: false,
    max_output_tokens: cap ?? undefined,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
    top_logprobs: request.topLogprobs ?? undefined,
    include: includeOf(asked),
    reasoning:
      effort === null || upstream.thinking === 'none'
        ? undefined
        : { effort: LEVELS[effort === 'enabled' ? 'medium' : effort] },
    text: formatOf(request.format, upstream.structured_outputs),
    ...(tools.length === 0 ? {} : toolFields(request)),
  });
}

/** Requests encrypted reasoning: with `store: false`, the upstream can read back only reasoning in encrypted form. */
function includeOf({ request: { topLogprobs }, upstream, encryptsReasoning }: Asked): string[] | undefined {
  const names = [
    ...(upstream.thinking === 'none' || !encryptsReasoning ? [] : ['reasoning.encrypted_content']),
    ...(topLogprobs === null ? [] : ['message.output_text.logprobs']),
  ];
  return names.length === 0 ? undefined : names;
}

function holds(format: OutputFormat, held: Asked['upstream']['structured_outputs']): boolean {
  return (
    format.type === 'text' ||
    (formatOf(format, held) !== undefined && !(format.type === 'json_schema' && held === 'json_object'))
  );
}

function formatOf(format: OutputFormat, held: Asked['upstream']['structured_outputs']): object | undefined {
  if (held === 'none' || (format.type !== 'json_object' && format.type !== 'json_schema')) return undefined;
  if (format.type === 'json_object' || held === 'json_object') return { format: { type: 'json_object' } };
  return {
    format: { type: 'json_schema', name: format.name ?? 'answer', schema: format.schema, strict: format.strict },
  };
}

function toolFields({ tools, toolChoice: { mode, allowed }, parallelToolCalls }: GenerationRequest): Body {
  const shown = allowed === null ? tools : tools.filter(({ name }) => allowed.includes(name));
  return {
    tools: shown.map(({ name, description, parameters, strict }) =>
      given({
        type: 'function',
        name,
        description: description ?? undefined,
        parameters: parameters ?? { type: 'object', properties: {} },
        strict,
      }),
    ),
    tool_choice: mode === 'required' && shown.length === 1 ? { type: 'function', name: shown[0]!.name } : mode,
    parallel_tool_calls: parallelToolCalls,
  };
}

function itemsOf(message: Message): object[] {
  switch (message.role) {
    case 'system':
      return [{ type: 'message', role: 'system', content: message.content }];
    case 'user':
      return [{ type: 'message', role: 'user', content: partsOf(message.content) }];
    case 'assistant':
      return withThoughts(message, {
        text: (text) => [
          { type: 'message', role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] },
        ],
        call: ({ id, name, arguments: text }) => ({ type: 'function_call', call_id: id, name, arguments: text }),
      });
    case 'tool':
      return [{ type: 'function_call_output', call_id: message.toolCallId, output: partsOf(message.content) }];
  }
}

function partsOf(content: Content): string | object[] {
  if (typeof content === 'string') return content;
  return content.map((part) => {
    if (part.type === 'text') return { type: 'input_text', text: part.text };
    const { mime, data } = imageData(part);
    return {
      type: 'input_image',
      image_url: `data:${mime};base64,${data}`,
      detail: part.detail === 'low' || part.detail === 'high' ? part.detail : 'auto',
    };
  });
}

/** Maximum number of item indexes and IDs per response. */
const MAX_ITEMS = 8_192;

/** The state of one output item. */
interface Item {
  readonly number: number;
  callId: string; // ID of a call's item
  name: string; // tool name of a call
  isOpen: boolean; // the call was emitted with arguments
  hasUnread: boolean; // arguments arrived before the name
  isComplete: boolean;
  readonly texts: Set<number>; // content parts from which something was emitted
  readonly thoughts: Set<number>; // the same for reasoning parts
  thoughtsOf: 'content' | 'summary' | null; // the list that contains the reasoning parts
}

/** An item without content is only a reference by ID, and the upstream stores no items. */
const canBeReadBack = (item: Json): boolean =>
  textIn(item['encrypted_content']) !== '' || listIn(item['content']).length > 0;

class ResponsesReader implements AnswerReader {
  readonly #items = new Map<number | string, Item>();
  #numbers = 0;
  #calls = 0; // number of emitted calls
  #hasText = false;
  #hasThoughts = false;

  constructor(
    private readonly answer: AnswerEvents,
    private readonly fault: (error: unknown) => UpstreamFault,
  ) {}

  /** Upstreams send an item's text and arguments as deltas, or only at the end of the part, item or response. */
  *event(_name: string | null, event: Json): Generator<void, void> {
    const at = placeIn(event['content_index']);
    switch (event['type']) {
      case 'response.output_item.added':
        return this.#added(event);
      case 'response.output_text.delta':
        return yield* this.#text(this.#itemOf(event), at, textIn(event['delta']), event['logprobs']);
      case 'response.refusal.delta':
        return yield* this.#text(this.#itemOf(event), at, textIn(event['delta']), null);
      case 'response.reasoning_text.delta':
      case 'response.reasoning.delta':
        return this.#thought(this.#itemOf(event), 'content', at, textIn(event['delta']));
      case 'response.reasoning_summary_text.delta':
        return this.#thought(this.#itemOf(event), 'summary', placeIn(event['summary_index']), textIn(event['delta']));
      case 'response.function_call_arguments.delta':
        return this.#arguments(this.#itemOf(event, 'part'), textIn(event['delta']));
      case 'response.output_text.done':
        return yield* this.#wholeText(this.#itemOf(event), at, event);
      case 'response.refusal.done':
        return yield* this.#wholeText(this.#itemOf(event), at, { text: event['refusal'] });
      case 'response.content_part.done':
        return yield* this.#part(this.#itemOf(event), at, objectIn(event['part']));
      case 'response.reasoning_text.done':
      case 'response.reasoning.done':
        return this.#wholeThought(this.#itemOf(event), 'content', at, textIn(event['text']));
      case 'response.reasoning_summary_text.done':
        return this.#wholeThought(
          this.#itemOf(event),
          'summary',
          placeIn(event['summary_index']),
          textIn(event['text']),
        );
      case 'response.function_call_arguments.done':
        return this.#wholeCall(this.#itemOf(event, 'part'), event);
      case 'response.output_item.done':
        return yield* this.#wholeItem(
          this.#itemOf(event, objectIn(event['item'])['type'] === 'function_call' ? 'part' : null),
          objectIn(event['item']),
        );
      case 'response.completed':
        return yield* this.#ended(objectIn(event['response']), 'completed');
      case 'response.incomplete':
        return yield* this.#ended(objectIn(event['response']), 'incomplete');
      case 'response.failed':
        throw this.fault(objectIn(event['response'])['error']);
      case 'error':
        throw this.fault(event['error'] ?? event);
      default: // starts of parts, and future event types
    }
  }

  /** `[DONE]` is not part of this format, but some upstreams send it. */
  done(): void {}

  *whole(answer: unknown): Generator<void, void> {
    const response = objectIn(answer);
    if (response['status'] === 'failed') throw this.fault(response['error']);
    yield* this.#ended(response, null);
  }

  end(): void {
    this.answer.finish();
  }

  /**
   * Finds an event's item. Indexes and IDs are unreliable: some upstreams omit the index or the ID, number all items 0,
   * or change IDs.
   */
  #itemOf(event: Json, call: 'added' | 'part' | null = null): Item {
    const index = numberIn(event['output_index']);
    return this.#item(
      index === undefined ? null : placeIn(index),
      textIn(event['item_id']) || textIn(objectIn(event['item'])['id']),
      call,
    );
  }

  #item(index: number | null, id: string, call: 'added' | 'part' | null): Item {
    const byPlace = index === null ? undefined : this.#items.get(index);
    // A call added at another call's index is a new call. A delta with a new ID belongs to the call that has no
    // arguments yet.
    const isOther =
      call !== null &&
      byPlace !== undefined &&
      byPlace.callId !== '' &&
      id !== '' &&
      (call === 'added' || byPlace.isOpen || byPlace.isComplete);
    const known = (id === '' ? undefined : this.#items.get(id)) ?? (isOther ? undefined : byPlace);
    if (known === undefined && this.#items.size >= MAX_ITEMS) throw notUnderstood('with too many items');
    const item = known ?? {
      number: this.#numbers++,
      callId: '',
      name: '',
      isOpen: false,
      hasUnread: false,
      isComplete: false,
      texts: new Set<number>(),
      thoughts: new Set<number>(),
      thoughtsOf: null,
    };
    if (index !== null) this.#items.set(index, item);
    if (id !== '') this.#items.set(id, item);
    return item;
  }

  #added(event: Json): void {
    const reported = objectIn(event['item']);
    const isCall = reported['type'] === 'function_call';
    const item = this.#itemOf(event, isCall ? 'added' : null);
    if (!isCall) return;
    item.callId = textIn(reported['id']);
    item.name = textIn(reported['name']);
    this.#arguments(item, argumentsIn(reported['arguments']));
  }

  *#text(item: Item, at: number, text: string, logprobs: unknown): Generator<void, void> {
    if (text !== '') {
      item.texts.add(at);
      this.#hasText = true;
    }
    yield* textWithLogprobs(this.answer, 0, text, batchesIn(logprobs));
  }

  *#wholeText(item: Item, at: number, { text, logprobs }: Json): Generator<void, void> {
    if (!item.texts.has(at)) yield* this.#text(item, at, textIn(text), logprobs);
  }

  *#part(item: Item, at: number, part: Json): Generator<void, void> {
    switch (part['type']) {
      case 'output_text':
      case 'text':
        return yield* this.#wholeText(item, at, part);
      case 'refusal':
        return yield* this.#wholeText(item, at, { text: part['refusal'] });
      case 'reasoning_text':
        return this.#wholeThought(item, 'content', at, textIn(part['text']));
      default:
    }
  }

  #thought(item: Item, where: 'content' | 'summary', at: number, text: string): void {
    if (text === '') return;
    item.thoughts.add(at);
    item.thoughtsOf ??= where;
    this.#hasThoughts = true;
    this.answer.text(0, 'reasoning', text);
  }

  #wholeThought(item: Item, where: 'content' | 'summary', at: number, text: string): void {
    if (item.thoughtsOf === null || (item.thoughtsOf === where && !item.thoughts.has(at)))
      this.#thought(item, where, at, text);
  }

  /** A call is emitted together with its first arguments, because only one call may be open at a time. */
  #arguments(item: Item, text: string): void {
    if (text === '' || item.isComplete) return;
    if (!item.isOpen) {
      if (item.name === '') {
        item.hasUnread = true; // they arrive again in full, together with the name
        return;
      }
      this.#open(item);
    }
    this.answer.callArguments(0, item.number, text);
  }

  #open(item: Item): void {
    item.isOpen = true;
    this.#calls++;
    this.answer.call(0, item.number, item.name);
  }

  #wholeCall(item: Item, reported: Json): void {
    if (item.isComplete) return;
    if (textIn(reported['name']) !== '') item.name = textIn(reported['name']);
    if (item.name === '') return;
    if (!item.isOpen) {
      this.#open(item);
      this.answer.callArguments(0, item.number, argumentsIn(reported['arguments']));
    }
    item.isComplete = true;
  }

  /** Emits the parts of an item that have not been emitted yet. */
  *#wholeItem(item: Item, reported: Json): Generator<void, void> {
    const content = reported['content'];
    switch (reported['type']) {
      case 'function_call':
        return this.#wholeCall(item, reported);
      case 'message':
        if (typeof content === 'string') return yield* this.#wholeText(item, 0, { text: content });
        for (const [at, part] of listIn(content).entries()) yield* this.#part(item, at, objectIn(part));
        return;
      case 'reasoning':
        for (const where of ['content', 'summary'] as const) {
          for (const [at, part] of listIn(reported[where]).entries())
            this.#wholeThought(item, where, at, textIn(objectIn(part)['text']));
        }
        if (!item.isComplete && canBeReadBack(reported)) this.answer.thought(0, reported);
        item.isComplete = true;
        return;
      default:
    }
  }

  /** Emits the items in the final list that no event has contained: all items of one kind, or additional calls. */
  *#missing(items: readonly Json[]): Generator<void, void> {
    const isCall = (reported: Json): boolean => reported['type'] === 'function_call';
    const hasText = this.#hasText,
      hasThoughts = this.#hasThoughts,
      hasCalls = this.#calls >= items.filter(isCall).length;
    for (const [index, reported] of items.entries()) {
      if (
        isCall(reported)
          ? hasCalls
          : reported['type'] === 'message'
            ? hasText
            : reported['type'] === 'reasoning'
              ? hasThoughts
              : true
      )
        continue;
      yield* this.#wholeItem(this.#item(index, textIn(reported['id']), isCall(reported) ? 'part' : null), reported);
    }
  }

  /** `by`: the end reported by the event type; null if the response object reports it. */
  *#ended(response: Json, by: 'completed' | 'incomplete' | null): Generator<void, void> {
    if (this.answer.hasEnded(0)) return; // sent twice
    yield* this.#missing(listIn(response['output']).map(objectIn));
    if (this.#calls === 0 && [...this.#items.values()].some(({ hasUnread }) => hasUnread))
      throw notUnderstood('with arguments of a tool call without a name');
    const usage = objectIn(response['usage']);
    this.answer.usage({
      promptTokens: numberIn(usage['input_tokens']),
      completionTokens: numberIn(usage['output_tokens']),
      cachedTokens: numberIn(objectIn(usage['input_tokens_details'])['cached_tokens']),
      reasoningTokens: numberIn(objectIn(usage['output_tokens_details'])['reasoning_tokens']),
    });
    const status = response['status'] ?? by;
    if (status === 'incomplete') this.answer.ended(0, 'max_tokens');
    else if (status === 'completed') this.answer.ended(0, this.#calls > 0 ? 'tool_calls' : 'end_of_turn');
    else throw notUnderstood('with an unknown final status');
    this.answer.finish();
  }
}
