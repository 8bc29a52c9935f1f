// POST /responses, streamed. Later turns send the conversation history, or the ID of the previous stored response.

import { withTarget, wordsOf } from './dialect.js';
import type { Answer, DialectRules, Question, WireError } from './dialect.js';

interface WireResponse {
  id?: string;
  status?: string;
  incomplete_details?: { reason?: string } | null;
  error?: WireError | null;
  usage?: {
    input_tokens?: number;
    output_tokens?: number;
    input_tokens_details?: { cached_tokens?: number } | null;
  } | null;
}

interface WireEvent {
  type?: string;
  delta?: unknown;
  response?: WireResponse;
  error?: WireError;
  message?: string;
}

function inputOf({ before, turn, stored }: Question): unknown[] {
  const items: unknown[] = [];
  if (stored?.previous == null) {
    for (const { user: said, answer } of before)
      items.push({ role: 'user', content: said }, { role: 'assistant', content: answer });
  }
  items.push({ role: 'user', content: turn.text });
  return items;
}

function takeResponse(
  answer: Answer,
  { id, status, incomplete_details: incomplete, usage, error }: WireResponse,
): void {
  answer.id = id ?? answer.id;
  answer.finish = incomplete?.reason ?? status ?? answer.finish;
  answer.promptTokens = usage?.input_tokens ?? answer.promptTokens;
  answer.outputTokens = usage?.output_tokens ?? answer.outputTokens;
  answer.cachedTokens = usage?.input_tokens_details?.cached_tokens ?? answer.cachedTokens;
  if (error != null) answer.error = wordsOf(error);
}

export const responses: DialectRules = {
  path: '/responses',
  body(target, question) {
    const { system, turn, stored } = question;
    return withTarget(target, {
      input: inputOf(question),
      max_output_tokens: turn.maxTokens,
      store: stored !== null,
      ...(system === null ? {} : { instructions: system }),
      ...(stored?.previous == null ? {} : { previous_response_id: stored.previous }),
      ...(turn.schema === null
        ? {}
        : { text: { format: { type: 'json_schema', name: 'answer', schema: turn.schema, strict: true } } }),
    });
  },
  take(answer, data) {
    if (data === '[DONE]') return false;
    const event = JSON.parse(data) as WireEvent;
    switch (event.type) {
      case 'response.output_text.delta':
        if (typeof event.delta !== 'string' || event.delta === '') return false;
        answer.text += event.delta;
        return true;
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
      case 'response.function_call_arguments.delta':
        return event.delta !== '';
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        answer.ended = true;
        if (event.response !== undefined) takeResponse(answer, event.response);
        if (event.type === 'response.failed') answer.error ??= 'the response failed';
        return false;
      case 'error':
        answer.error = wordsOf(event.error ?? event.message ?? 'an error without a message');
        return false;
      default:
        return false;
    }
  },
};
