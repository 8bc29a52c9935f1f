// Sends raw prompts in the completions format: for models without a chat template, and for /v1/completions with any
// upstream that supports it. Event-loop thread only.
import { filesText } from '../../files-text.js';
import { apiError } from '../../../shared/errors.js';
import type { GenerationRequest, Logprob, RawPrompt, TokenLogprob } from '../../types.js';
import type { AnswerEvents } from '../answer-events.js';
import type { UpstreamFault } from '../fault.js';
import {
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
import { endOf, isEnd, refuseOwnArithmetic, samplingFields, streamOptions, usageIn } from './chat-parts.js';

export const completions: UpstreamApi = {
  path: '/completions',
  takesBack: 'text',
  body,
  holds: ({ type }) => type === 'text',
  headers: bearer,
  reader: (answer, fault) => new CompletionReader(answer, fault),
};

function body({ request, cap, upstream }: Asked): Body {
  refuseOwnArithmetic(request);
  const raw = request.raw ?? refuseMessages(request);
  if (request.format.type !== 'text')
    throw apiError(
      'unsupported_feature',
      "This upstream's Completions API does not support structured output.",
      'response_format',
    );
  return given({
    prompt: raw.kind === 'text' ? filesText(raw.files) + raw.text : raw.tokens,
    suffix: raw.kind === 'text' ? (raw.suffix ?? undefined) : undefined,
    add_special_tokens: raw.kind === 'text' && !raw.addSpecial ? false : undefined,
    stream: true,
    stream_options: streamOptions(upstream.structured_outputs),
    ...samplingFields(request),
    [upstream.cap_field === 'max_completion_tokens' ? 'max_tokens' : upstream.cap_field]: cap ?? undefined,
    logprobs: request.topLogprobs ?? undefined,
  });
}

function refuseMessages({ promptParam }: GenerationRequest): RawPrompt {
  throw apiError(
    'unsupported_feature',
    'This upstream model supports raw prompts only (POST /v1/completions), not conversations.',
    promptParam,
  );
}

class CompletionReader implements AnswerReader {
  constructor(
    private readonly answer: AnswerEvents,
    private readonly fault: (error: unknown) => UpstreamFault,
  ) {}

  *event(_name: string | null, event: Json): Generator<void, void> {
    yield* this.#piece(event);
  }

  done(): void {
    this.answer.finish();
  }

  *whole(answer: unknown): Generator<void, void> {
    yield* this.#piece(objectIn(answer));
    this.answer.finish();
  }

  end(): void {
    this.answer.finish();
  }

  *#piece(piece: Json): Generator<void, void> {
    if (piece['error'] != null) throw this.fault(piece['error']);
    if (piece['usage'] != null) this.answer.usage(usageIn(piece['usage']));
    for (const entry of listIn(piece['choices'])) {
      const choice = objectIn(entry);
      const index = placeIn(choice['index']);
      const ends = isEnd(choice['finish_reason']);
      if (ends && this.answer.hasEnded(index)) continue;
      let rest = textIn(choice['text']);
      for (const batch of logprobsIn(choice['logprobs'])) {
        this.answer.text(index, 'content', rest, batch);
        rest = '';
        yield;
      }
      this.answer.text(index, 'content', rest);
      if (!ends) continue;
      const { reason, stopString } = endOf(choice, this.answer.stop);
      this.answer.ended(index, reason, stopString);
    }
  }
}

/** Maximum number of log probabilities per event. */
const BATCH = 256;

/** The log probabilities are parallel lists with one entry per token. */
function* logprobsIn(value: unknown): Generator<TokenLogprob[]> {
  const { tokens, token_logprobs: numbers, top_logprobs: tops } = objectIn(value);
  const ownNumbers = entriesIn(numbers),
    alternatives = entriesIn(tops);
  let batch: TokenLogprob[] = [];
  for (const token of entriesIn(tokens)) {
    batch.push({
      ...spelled(textIn(token), ownNumbers.next().value),
      top: Object.entries(objectIn(alternatives.next().value)).map(([other, number]) => spelled(other, number)),
    });
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

function* entriesIn(list: unknown): Generator<unknown, undefined> {
  for (const batch of batchesIn(list)) yield* batch;
}

const spelled = (token: string, logprob: unknown): Logprob => ({
  token,
  bytes: [...Buffer.from(token)],
  logprob: numberIn(logprob) ?? -9999,
});
