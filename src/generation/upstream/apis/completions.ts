// Prompts as they stand, in the completions form: for models without a chat template, and for /v1/completions of all that
// have it. Event-loop thread only.
import { apiError } from '../../../errors.js';
import type { GenerationRequest, Logprob, RawPrompt, TokenLogprob } from '../../types.js';
import type { AnswerEvents } from '../answer-events.js';
import type { UpstreamFault } from '../fault.js';
import { bearer, given, listIn, numberIn, objectIn, parsed, placeIn, textIn, type AnswerReader, type Asked, type Body, type Json, type UpstreamApi } from './api.js';
import { endOf, refuseOwnArithmetic, samplingFields, streamOptions, usageIn } from './chat-parts.js';

export const completions: UpstreamApi = {
  path: '/completions', body, holds: ({ type }) => type === 'text', headers: bearer,
  reader: (answer, fault) => new CompletionReader(answer, fault),
};

function body({ request, cap, upstream }: Asked): Body {
  refuseOwnArithmetic(request);
  const raw = request.raw ?? refuseMessages(request);
  if (request.format.type !== 'text') throw apiError('unsupported_feature', 'The server this model runs on is asked for plain completions, which no form binds.', 'response_format');
  return given({
    prompt: raw.kind === 'text' ? raw.text : raw.tokens, suffix: raw.kind === 'text' ? raw.suffix ?? undefined : undefined,
    add_special_tokens: raw.kind === 'text' && !raw.addSpecial ? false : undefined,
    stream: true, stream_options: streamOptions(upstream.structured_outputs),
    ...samplingFields(request), [upstream.cap_field === 'max_completion_tokens' ? 'max_tokens' : upstream.cap_field]: cap ?? undefined,
    logprobs: request.topLogprobs ?? undefined,
  });
}

function refuseMessages({ promptParam }: GenerationRequest): RawPrompt {
  throw apiError('unsupported_feature', 'This model runs elsewhere and takes plain prompts only (POST /v1/completions), no conversation.', promptParam);
}

class CompletionReader implements AnswerReader {
  constructor(private readonly answer: AnswerEvents, private readonly fault: (error: unknown) => UpstreamFault) {}

  event(_name: string | null, data: string): void {
    if (data === '[DONE]') this.answer.finish();
    else this.#piece(parsed(data));
  }

  whole(answer: unknown): void {
    this.#piece(objectIn(answer));
    this.answer.finish();
  }

  end(): void {
    this.answer.finish();
  }

  #piece(piece: Json): void {
    if (piece['error'] != null) throw this.fault(piece['error']);
    if (piece['usage'] != null) this.answer.usage(usageIn(piece['usage']));
    for (const entry of listIn(piece['choices'])) {
      const choice = objectIn(entry);
      const index = placeIn(choice['index']);
      this.answer.text(index, 'content', textIn(choice['text']), logprobsIn(choice['logprobs']));
      if (choice['finish_reason'] == null) continue;
      const { reason, stopString } = endOf(choice, this.answer.stop);
      this.answer.ended(index, reason, stopString);
    }
  }
}

/** Lists side by side, one entry a token. */
function logprobsIn(value: unknown): TokenLogprob[] | null {
  const { tokens, token_logprobs: numbers, top_logprobs: tops } = objectIn(value);
  const list = listIn(tokens).map((token, at): TokenLogprob => ({
    ...spelled(textIn(token), listIn(numbers)[at]),
    top: Object.entries(objectIn(listIn(tops)[at])).map(([other, number]) => spelled(other, number)),
  }));
  return list.length === 0 ? null : list;
}

const spelled = (token: string, logprob: unknown): Logprob => ({ token, bytes: [...Buffer.from(token)], logprob: numberIn(logprob) ?? -9999 });
