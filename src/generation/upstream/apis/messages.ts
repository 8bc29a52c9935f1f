// Requests to upstreams in the messages format, and their responses, streamed or not. Event-loop thread only.
import { parseExact, withMembers } from '../../../shared/exact-json.js';
import { GrowingText } from '../../../shared/growing-text.js';
import { apiError } from '../../../shared/errors.js';
import type { Content, GenerationRequest, Message, OutputFormat, ReasoningEffort } from '../../types.js';
import type { AnswerEvents } from '../answer-events.js';
import { notUnderstood, type UpstreamFault } from '../fault.js';
import {
  argumentsIn,
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
import { imageData } from './chat-request.js';
import { isEnd, refuseOwnArithmetic, refuseTemplateVariables } from './chat-parts.js';
import { withThoughts } from './turn-parts.js';

export const messages: UpstreamApi = {
  path: '/messages',
  takesBack: 'thinking',
  thinks: ({ request, cap, maxOutputTokens, upstream }) =>
    upstream.thinking !== 'none' && thinkingOf(request, capOf(cap, maxOutputTokens))?.type === 'enabled',
  body,
  holds,
  headers: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
  reader: (answer, fault) => new MessagesReader(answer, fault),
};

/** Thinking budget in tokens for each effort, because this format has no effort levels. */
const BUDGETS: Readonly<Record<Exclude<ReasoningEffort, 'none'>, number>> = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 32_768,
  max: 49_152,
};
const MIN_BUDGET = 1_024;

function body({ request, cap, maxOutputTokens, upstream }: Asked): Body {
  refuseOwnArithmetic(request);
  refuseTemplateVariables(request);
  if (request.n > 1)
    throw apiError(
      'unsupported_value',
      'n must be 1: the upstream server for this model returns a single choice.',
      'n',
    );
  if (request.topLogprobs !== null)
    throw apiError(
      'unsupported_feature',
      'logprobs: the upstream server for this model does not return log-probabilities.',
      'logprobs',
    );
  const { sampling, stop, tools } = request;
  // An output limit is mandatory in this format.
  const max = capOf(cap, maxOutputTokens);
  const { system, turns } = turnsOf(request.messages);
  const thinking = upstream.thinking === 'none' ? undefined : thinkingOf(request, max);
  // If thinking is enabled, the API rejects sampling parameters.
  const samples = thinking?.type !== 'enabled';
  return given({
    messages: turns,
    system: system === '' ? undefined : system,
    max_tokens: max,
    stream: true,
    temperature: sampling.temperature === undefined || !samples ? undefined : Math.min(1, sampling.temperature),
    top_p: samples ? sampling.topP : undefined,
    top_k: sampling.topK === 0 || !samples ? undefined : sampling.topK,
    stop_sequences: stop.length === 0 ? undefined : stop,
    thinking,
    ...(tools.length === 0 ? {} : { tools: toolsOf(request), tool_choice: choiceOf(request) }),
    output_config:
      request.format.type === 'json_schema' && holds(request.format, upstream.structured_outputs)
        ? { format: { type: 'json_schema', schema: request.format.schema } }
        : undefined,
  });
}

const DEFAULT_CAP = 8_192;
const capOf = (cap: number | null, maxOutputTokens: number): number => cap ?? Math.min(maxOutputTokens, DEFAULT_CAP);

/** This format supports only JSON schemas. */
function holds({ type }: OutputFormat, held: Asked['upstream']['structured_outputs']): boolean {
  return type === 'text' || (type === 'json_schema' && held !== 'none' && held !== 'json_object');
}

function thinkingOf(
  { effort, reasoningBudget, toolChoice }: GenerationRequest,
  max: number,
): { type: 'enabled' | 'disabled'; budget_tokens?: number } | undefined {
  if (effort === null && reasoningBudget === null) return undefined;
  // If thinking is enabled, the API also rejects a required tool choice.
  if ((effort === 'none' && reasoningBudget === null) || toolChoice.mode === 'required') return { type: 'disabled' };
  const wanted =
    reasoningBudget ?? BUDGETS[effort === 'enabled' || effort === null || effort === 'none' ? 'medium' : effort];
  const budget = Math.min(Math.max(MIN_BUDGET, wanted), max - 1);
  return budget < MIN_BUDGET ? { type: 'disabled' } : { type: 'enabled', budget_tokens: budget };
}

function toolsOf({ tools, toolChoice: { allowed } }: GenerationRequest): object[] {
  return tools
    .filter(({ name }) => allowed === null || allowed.includes(name))
    .map(({ name, description, parameters }) =>
      given({ name, description: description ?? undefined, input_schema: { type: 'object', ...(parameters ?? {}) } }),
    );
}

function choiceOf({ toolChoice: { mode, allowed }, parallelToolCalls }: GenerationRequest): object {
  const one = parallelToolCalls || mode === 'none' ? {} : { disable_parallel_tool_use: true };
  if (mode === 'required')
    return { ...(allowed?.length === 1 ? { type: 'tool', name: allowed[0] } : { type: 'any' }), ...one };
  return { type: mode, ...one };
}

/** Roles must alternate, so consecutive messages with the same role become one message with several parts. */
function turnsOf(list: readonly Message[]): {
  system: string;
  turns: { role: 'user' | 'assistant'; content: object[] }[];
} {
  const system: string[] = [];
  const turns: { role: 'user' | 'assistant'; content: object[] }[] = [];
  for (const message of list) {
    if (message.role === 'system') {
      // System messages that are not at the start of the conversation are sent with the user role.
      if (turns.length === 0) system.push(message.content);
      else add('user', [{ type: 'text', text: message.content }]);
    } else {
      add(message.role === 'assistant' ? 'assistant' : 'user', partsOf(message));
    }
  }
  return { system: system.join('\n\n'), turns };

  function add(role: 'user' | 'assistant', parts: object[]): void {
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...parts);
    else if (parts.length > 0) turns.push({ role, content: parts });
  }
}

function partsOf(message: Exclude<Message, { role: 'system' }>): object[] {
  switch (message.role) {
    case 'user':
      return contentOf(message.content);
    case 'assistant':
      return withThoughts(message, {
        text: (text) => (text.trim() === '' ? [] : [{ type: 'text', text }]),
        call: ({ id, name, arguments: text }) => ({ type: 'tool_use', id: idOf(id), name, input: inputOf(text) }),
      });
    case 'tool':
      return [
        given({
          type: 'tool_result',
          tool_use_id: idOf(message.toolCallId),
          content: contentOf(message.content),
          is_error: message.failed === true ? true : undefined,
        }),
      ];
  }
}

/** The format allows only these characters in IDs. */
const idOf = (id: string): string => id.replace(/[^A-Za-z0-9_-]/g, '_');

function inputOf(text: string): object {
  try {
    return objectIn(parseExact(text));
  } catch {
    return {};
  }
}

function contentOf(content: Content): object[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return content.flatMap((part): object[] => {
    if (part.type === 'text') return part.text === '' ? [] : [{ type: 'text', text: part.text }];
    const { mime, data } = imageData(part);
    return [{ type: 'image', source: { type: 'base64', media_type: mime, data } }];
  });
}

class MessagesReader implements AnswerReader {
  /** Types of the open blocks, by index. */
  readonly #blocks = new Map<number, string>();
  #thought: { index: number; block: Json; text: GrowingText } | null = null; // the open thinking block

  constructor(
    private readonly answer: AnswerEvents,
    private readonly fault: (error: unknown) => UpstreamFault,
  ) {}

  *event(_name: string | null, event: Json): Generator<void, void> {
    switch (event['type']) {
      case 'message_start':
        return this.#usage(objectIn(event['message'])['usage']);
      case 'content_block_start':
        return this.#block(placeIn(event['index']), objectIn(event['content_block']));
      case 'content_block_delta':
        return this.#delta(placeIn(event['index']), objectIn(event['delta']));
      case 'content_block_stop':
        if (this.#thought?.index === placeIn(event['index'])) this.#endThought();
        return;
      case 'message_delta': {
        this.#usage(event['usage']);
        const { stop_reason: reason, stop_sequence: met } = objectIn(event['delta']);
        if (isEnd(reason)) this.#ended(reason, met);
        return;
      }
      case 'message_stop':
        return this.answer.finish();
      case 'error':
        throw this.fault(statusOf(event['error']));
      default: // ping and future event types
    }
  }

  /** `[DONE]` is not part of this format, but some gateways send it. */
  done(): void {
    this.answer.finish();
  }

  *whole(answer: unknown): Generator<void, void> {
    const message = objectIn(answer);
    if (message['type'] === 'error') throw this.fault(statusOf(message['error']));
    this.#usage(message['usage']);
    const { content } = message;
    if (typeof content === 'string') this.answer.text(0, 'content', content);
    for (const [index, entry] of listIn(content).entries()) this.#block(index, objectIn(entry));
    this.#endThought();
    this.#ended(message['stop_reason'], message['stop_sequence']);
    this.answer.finish();
  }

  end(): void {
    this.answer.finish();
  }

  /** Reads the start of a block, or a complete block of a non-streamed response. */
  #block(index: number, block: Json): void {
    const type = textIn(block['type']);
    this.#endThought();
    this.#blocks.set(index, type);
    if (type === 'thinking' || type === 'redacted_thinking') this.#thought = { index, block, text: new GrowingText() };
    if (type === 'text') this.answer.text(0, 'content', textIn(block['text']));
    else if (type === 'thinking') this.answer.text(0, 'reasoning', textIn(block['thinking']));
    else if (type === 'tool_use') {
      this.answer.call(0, index, textIn(block['name']));
      const input = argumentsIn(block['input']);
      if (!/^\s*\{\s*\}\s*$/.test(input)) this.answer.callArguments(0, index, input);
    }
  }

  #delta(index: number, delta: Json): void {
    const type = this.#blocks.get(index);
    if (type === undefined) throw notUnderstood('with a delta for a block that is not open');
    switch (delta['type']) {
      case 'text_delta':
        return this.answer.text(0, 'content', textIn(delta['text']));
      case 'thinking_delta':
        if (this.#thought?.index === index) this.#thought.text.add(textIn(delta['thinking']));
        return this.answer.text(0, 'reasoning', textIn(delta['thinking']));
      case 'signature_delta':
        if (this.#thought?.index === index)
          this.#thought.block = withMembers(this.#thought.block, { signature: delta['signature'] });
        return;
      case 'input_json_delta':
        if (type === 'tool_use') this.answer.callArguments(0, index, textIn(delta['partial_json']));
        return;
      default: // citations
    }
  }

  /** Emits the block exactly as it must be sent back to the upstream. */
  #endThought(): void {
    const thought = this.#thought;
    if (thought === null) return;
    this.#thought = null;
    const more = thought.text.toString();
    const { block } = thought;
    this.answer.thought(0, more === '' ? block : withMembers(block, { thinking: textIn(block['thinking']) + more }));
  }

  #ended(reason: unknown, met: unknown): void {
    if (this.answer.hasEnded(0)) return; // sent twice, the second time with the usage
    this.#endThought();
    switch (reason) {
      case 'end_turn':
      case 'pause_turn':
        return this.answer.ended(0, 'end_of_turn', null);
      case 'tool_use':
        return this.answer.ended(0, 'tool_calls');
      case 'stop_sequence':
        return this.answer.ended(0, 'stop_string', textIn(met));
      case 'max_tokens':
      case 'refusal':
        return this.answer.ended(0, 'max_tokens');
      case 'model_context_window_exceeded':
        return this.answer.ended(0, 'context_full');
      default:
        throw notUnderstood('with an unknown stop_reason');
    }
  }

  /** Tokens read from and written to a cache are reported separately from the other input tokens. */
  #usage(value: unknown): void {
    const usage = objectIn(value);
    const input = numberIn(usage['input_tokens']);
    const cached = numberIn(usage['cache_read_input_tokens']) ?? 0;
    this.answer.usage({
      ...(input === undefined
        ? {}
        : {
            promptTokens: input + cached + (numberIn(usage['cache_creation_input_tokens']) ?? 0),
            cachedTokens: cached,
          }),
      completionTokens: numberIn(usage['output_tokens']),
      reasoningTokens: numberIn(objectIn(usage['output_tokens_details'])['thinking_tokens']),
    });
  }
}

/** Errors within a stream have types but no HTTP status. */
function statusOf(error: unknown): unknown {
  const { type, message } = objectIn(error);
  const status =
    {
      overloaded_error: 529,
      rate_limit_error: 429,
      invalid_request_error: 400,
      authentication_error: 401,
      permission_error: 403,
      not_found_error: 404,
      request_too_large: 413,
    }[textIn(type)] ?? 500;
  return { code: status, message };
}
