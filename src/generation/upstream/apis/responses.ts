// Servers of the responses form: requests to them and their answers, streamed or whole. Nothing is stored there: chains are
// kept here and sent whole. Event-loop thread only.
import { apiError } from '../../../errors.js';
import type { Content, GenerationRequest, Message, OutputFormat } from '../../types.js';
import type { AnswerEvents } from '../answer-events.js';
import { notUnderstood, type UpstreamFault } from '../fault.js';
import { bearer, given, listIn, numberIn, objectIn, parsed, placeIn, textIn, type AnswerReader, type Asked, type Body, type Json, type UpstreamApi } from './api.js';
import { imageData, LEVELS } from './chat-request.js';
import { logprobOf, refuseOwnArithmetic } from './chat-parts.js';

export const responses: UpstreamApi = {
  path: '/responses', body, holds, headers: bearer,
  reader: (answer, fault) => new ResponsesReader(answer, fault),
};

function body({ request, cap, upstream }: Asked): Body {
  refuseOwnArithmetic(request);
  if (request.n > 1) throw apiError('unsupported_value', 'n: the server this model runs on gives one answer at a time.', 'n');
  if (request.stop.length > 0) throw apiError('unsupported_parameter', 'stop: the server this model runs on knows no stop strings.', 'stop');
  const { sampling, effort, tools } = request;
  return given({
    input: request.messages.flatMap(itemsOf), stream: true, store: false, max_output_tokens: cap ?? undefined,
    temperature: sampling.temperature, top_p: sampling.topP, frequency_penalty: sampling.frequencyPenalty, presence_penalty: sampling.presencePenalty,
    top_logprobs: request.topLogprobs ?? undefined, include: request.topLogprobs === null ? undefined : ['message.output_text.logprobs'],
    reasoning: effort === null || upstream.thinking === 'none' ? undefined : { effort: LEVELS[effort === 'enabled' ? 'medium' : effort] },
    text: formatOf(request.format, upstream.structured_outputs),
    ...(tools.length === 0 ? {} : toolFields(request)),
  });
}

function holds(format: OutputFormat, held: Asked['upstream']['structured_outputs']): boolean {
  return format.type === 'text' || (formatOf(format, held) !== undefined && !(format.type === 'json_schema' && held === 'json_object'));
}

function formatOf(format: OutputFormat, held: Asked['upstream']['structured_outputs']): object | undefined {
  if (held === 'none' || (format.type !== 'json_object' && format.type !== 'json_schema')) return undefined;
  if (format.type === 'json_object' || held === 'json_object') return { format: { type: 'json_object' } };
  return { format: { type: 'json_schema', name: format.name ?? 'answer', schema: format.schema, strict: format.strict } };
}

function toolFields({ tools, toolChoice: { mode, allowed }, parallelToolCalls }: GenerationRequest): Body {
  const shown = allowed === null ? tools : tools.filter(({ name }) => allowed.includes(name));
  return {
    tools: shown.map(({ name, description, parameters, strict }) => given({ type: 'function', name, description: description ?? undefined, parameters: parameters ?? { type: 'object', properties: {} }, strict })),
    tool_choice: mode === 'required' && shown.length === 1 ? { type: 'function', name: shown[0]!.name } : mode,
    parallel_tool_calls: parallelToolCalls,
  };
}

function itemsOf(message: Message): object[] {
  switch (message.role) {
    case 'system': return [{ type: 'message', role: 'system', content: message.content }];
    case 'user': return [{ type: 'message', role: 'user', content: partsOf(message.content) }];
    // Earlier thinking stays behind: what seals it is not known.
    case 'assistant': return [
      ...(message.content === null || message.content === '' ? [] : [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: message.content, annotations: [] }] }]),
      ...(message.toolCalls ?? []).map(({ id, name, arguments: text }) => ({ type: 'function_call', call_id: id, name, arguments: text })),
    ];
    case 'tool': return [{ type: 'function_call_output', call_id: message.toolCallId, output: partsOf(message.content) }];
  }
}

function partsOf(content: Content): string | object[] {
  if (typeof content === 'string') return content;
  return content.map((part) => {
    if (part.type === 'text') return { type: 'input_text', text: part.text };
    const { mime, data } = imageData(part);
    return { type: 'input_image', image_url: `data:${mime};base64,${data}`, detail: part.detail === 'low' || part.detail === 'high' ? part.detail : 'auto' };
  });
}

class ResponsesReader implements AnswerReader {
  #calls = 0;

  constructor(private readonly answer: AnswerEvents, private readonly fault: (error: unknown) => UpstreamFault) {}

  event(_name: string | null, data: string): void {
    if (data === '[DONE]') return;
    const event = parsed(data);
    const index = placeIn(event['output_index']);
    switch (event['type']) {
      case 'response.output_item.added': {
        const item = objectIn(event['item']);
        if (item['type'] === 'function_call') this.#call(index, item);
        return;
      }
      case 'response.output_text.delta': {
        const logprobs = listIn(event['logprobs']);
        return this.answer.text(0, 'content', textIn(event['delta']), logprobs.length === 0 ? null : logprobs.map(logprobOf));
      }
      case 'response.refusal.delta': return this.answer.text(0, 'content', textIn(event['delta']));
      case 'response.reasoning_text.delta': case 'response.reasoning.delta': case 'response.reasoning_summary_text.delta':
        return this.answer.text(0, 'reasoning', textIn(event['delta']));
      case 'response.function_call_arguments.delta': return this.answer.callArguments(0, index, textIn(event['delta']));
      case 'response.completed': case 'response.incomplete': return this.#ended(objectIn(event['response']));
      case 'response.failed': throw this.fault(objectIn(event['response'])['error']);
      case 'error': throw this.fault(event['error'] ?? event);
      default:             // ends of items and parts, and what is to come
    }
  }

  whole(answer: unknown): void {
    const response = objectIn(answer);
    if (response['status'] === 'failed') throw this.fault(response['error']);
    for (const [index, entry] of listIn(response['output']).entries()) {
      const item = objectIn(entry);
      const texts = (field: string): string => listIn(item[field]).map((part) => textIn(objectIn(part)['text'])).join('');
      if (item['type'] === 'function_call') this.#call(index, item);
      else if (item['type'] === 'message') this.answer.text(0, 'content', texts('content'));
      else if (item['type'] === 'reasoning') this.answer.text(0, 'reasoning', texts('content') || texts('summary'));
    }
    this.#ended(response);
  }

  end(): void {
    this.answer.finish();
  }

  #call(index: number, item: Json): void {
    this.#calls++;
    this.answer.call(0, index, textIn(item['name']));
    this.answer.callArguments(0, index, textIn(item['arguments']));
  }

  #ended(response: Json): void {
    const usage = objectIn(response['usage']);
    this.answer.usage({
      promptTokens: numberIn(usage['input_tokens']), completionTokens: numberIn(usage['output_tokens']),
      cachedTokens: numberIn(objectIn(usage['input_tokens_details'])['cached_tokens']), reasoningTokens: numberIn(objectIn(usage['output_tokens_details'])['reasoning_tokens']),
    });
    if (response['status'] === 'incomplete') this.answer.ended(0, 'max_tokens');
    else if (response['status'] === 'completed') this.answer.ended(0, this.#calls > 0 ? 'tool_calls' : 'end_of_turn');
    else throw notUnderstood('with an end of no known kind');
    this.answer.finish();
  }
}
