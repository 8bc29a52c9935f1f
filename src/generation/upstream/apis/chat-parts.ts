// Parts shared by the chat completions and completions formats: sampling, log probabilities, usage and end reasons.
// No side effects.
import type { Upstream } from '../../../config/upstream.js';
import { apiError } from '../../../shared/errors.js';
import type { EndReason, GenerationRequest, TokenLogprob } from '../../types.js';
import type { AnswerEvents, ReportedUsage } from '../answer-events.js';
import { notUnderstood } from '../fault.js';
import { listIn, numberIn, objectIn, textIn, type Body, type Json } from './api.js';

/** Sends only the requested fields. For all other fields, the upstream uses its own defaults. */
export function samplingFields({ sampling, stop, n, ...request }: GenerationRequest): Body {
  return {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
    seed: sampling.seed === undefined ? undefined : Number(BigInt.asIntN(53, sampling.seed)),
    logit_bias:
      sampling.logitBias === undefined || sampling.logitBias.length === 0
        ? undefined
        : Object.fromEntries(sampling.logitBias.map(({ token, bias }) => [token, bias])),
    stop: stop.length === 0 ? undefined : stop,
    n: n === 1 ? undefined : n,
    min_tokens: request.minTokens === undefined || request.minTokens === 0 ? undefined : request.minTokens,
    stop_token_ids:
      request.stopTokens === undefined || request.stopTokens.length === 0 ? undefined : request.stopTokens,
    ignore_eos: request.ignoreEos ? true : undefined,
  };
}

/**
 * Requests the usage at the end of the stream and, from upstreams that support it, continuously. Such streams start
 * with the exact prompt token count, and are counted correctly even if they are cut off.
 */
export function streamOptions(held: Upstream['structured_outputs']): Body {
  return { include_usage: true, ...(held === 'vllm' || held === 'monolith' ? { continuous_usage_stats: true } : {}) };
}

/** Throws ApiError for features that require the model's own logits or tokens. */
export function refuseOwnArithmetic(request: GenerationRequest): void {
  if (request.promptLogprobs != null)
    throw apiError('unsupported_feature', 'prompt_logprobs is not supported for upstream models.', 'prompt_logprobs');
  if (request.returnTokens === true)
    throw apiError('unsupported_feature', 'return_token_ids is not supported for upstream models.', 'return_token_ids');
}

/** Throws ApiError for template variables, which only the chat completions format can pass on. */
export function refuseTemplateVariables({ templateVariables }: GenerationRequest): void {
  if (templateVariables === undefined) return;
  throw apiError(
    'unsupported_parameter',
    'chat_template_kwargs: the upstream server for this model does not support template variables.',
    'chat_template_kwargs',
  );
}

export function usageIn(value: unknown): ReportedUsage {
  const usage = objectIn(value);
  const details = objectIn(usage['completion_tokens_details']);
  return {
    promptTokens: numberIn(usage['prompt_tokens']),
    completionTokens: numberIn(usage['completion_tokens']),
    cachedTokens:
      numberIn(objectIn(usage['prompt_tokens_details'])['cached_tokens']) ?? numberIn(usage['prompt_cache_hit_tokens']),
    reasoningTokens: numberIn(details['reasoning_tokens']) ?? numberIn(usage['reasoning_tokens']),
    acceptedPrediction: numberIn(details['accepted_prediction_tokens']),
    rejectedPrediction: numberIn(details['rejected_prediction_tokens']),
  };
}

/** Whether a `finish_reason` means that the choice has ended. Some upstreams send "" before that. */
export const isEnd = (reason: unknown): boolean => reason != null && reason !== '';

/**
 * Returns how a choice ended. vLLM and Monolith report the stop string or token, or null, in `stop_reason`; SGLang does
 * so in `matched_stop`. For other upstreams, `stopString` is undefined, because a stop string may have ended the
 * choice.
 */
export function endOf(choice: Json, stop: readonly string[]): { reason: EndReason; stopString?: string | null } {
  const met = choice['stop_reason'] === undefined ? choice['matched_stop'] : choice['stop_reason'];
  switch (textIn(choice['finish_reason']).toLowerCase()) {
    case 'stop':
    case 'eos':
    case 'eos_token':
    case 'end_turn':
    case 'stop_sequence':
      if (met === undefined) return { reason: 'end_of_turn' };
      return typeof met === 'string' && stop.includes(met)
        ? { reason: 'stop_string', stopString: met }
        : { reason: 'end_of_turn', stopString: null };
    case 'tool_calls':
    case 'tool_use':
    case 'function_call':
      return { reason: 'tool_calls' };
    case 'length':
    case 'max_tokens':
    case 'model_length':
    case 'content_filter':
      return { reason: 'max_tokens' };
    case 'repetition':
      return { reason: 'repetition' };
    default:
      throw notUnderstood('with an unknown finish_reason');
  }
}

/** Content as a single part or a list of parts, with text or reasoning (Mistral's reasoning models, some gateways). */
export function partsIn(content: object): { content: string; reasoning: string } {
  const all = { content: '', reasoning: '' };
  for (const entry of Array.isArray(content) ? (content as unknown[]) : [content]) {
    if (typeof entry === 'string') {
      all.content += entry;
      continue;
    }
    const part = objectIn(entry);
    switch (part['type']) {
      case 'thinking':
      case 'reasoning': {
        const inner = part['thinking'] ?? part['reasoning'] ?? part['text'];
        all.reasoning += typeof inner === 'object' && inner !== null ? partsIn(inner).content : textIn(inner);
        break;
      }
      default:
        // The part types that contain text: text, output_text, refusal, and parts without a type.
        all.content += textIn(part['text']) || textIn(part['refusal']);
    }
  }
  return all;
}

/** Emits a choice's text with its log probabilities, one batch of them per event. */
export function* textWithLogprobs(
  answer: AnswerEvents,
  index: number,
  text: string,
  batches: Iterable<readonly unknown[]>,
): Generator<void, void> {
  let rest = text;
  for (const batch of batches) {
    answer.text(index, 'content', rest, batch.map(logprobOf));
    rest = '';
    yield;
  }
  answer.text(index, 'content', rest);
}

const logprobOf = (value: unknown): TokenLogprob => {
  const entry = objectIn(value);
  return { ...one(entry), top: listIn(entry['top_logprobs']).map((other) => one(objectIn(other))) };
};

function one(entry: Json): { token: string; bytes: number[]; logprob: number } {
  const token = textIn(entry['token']);
  const bytes = listIn(entry['bytes']).filter((byte): byte is number => typeof byte === 'number');
  return {
    token,
    bytes: bytes.length > 0 ? bytes : [...Buffer.from(token)],
    logprob: numberIn(entry['logprob']) ?? -9999,
  };
}
