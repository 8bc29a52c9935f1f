// Encodes generation events as llama-server's JSON, streamed or not. Pure: one encoder per request.
import { performance } from 'node:perf_hooks';
import type { GenerationEvent } from '../../generation/types.js';
import type { Usage } from '../usage.js';

type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;

function stopType({ reason }: FinishedEvent): 'eos' | 'word' | 'limit' {
  if (reason === 'stop_string') return 'word';
  return reason === 'end_of_turn' ? 'eos' : 'limit';
}

export class InfillEncoder {
  readonly #startedAt = performance.now();
  #firstTokenAt: number | null = null;
  #ids: number[] = [];
  #hasNewLine = false;
  #finished: FinishedEvent | null = null;

  constructor(
    private readonly model: string,
    private readonly returnsTokens: boolean,
  ) {}

  tokens(ids: readonly number[]): void {
    this.#firstTokenAt ??= performance.now();
    if (this.returnsTokens) this.#ids.push(...ids);
  }

  text(text: string): void {
    this.#firstTokenAt ??= performance.now();
    this.#hasNewLine ||= text.includes('\n');
  }

  finished(event: FinishedEvent): void {
    this.#finished = event;
  }

  /** Returns a chunk of a streamed response. */
  delta(content: string): object {
    const tokens = this.#ids;
    this.#ids = [];
    return { index: 0, content, tokens, stop: false, id_slot: -1 };
  }

  /**
   * Returns the complete response, or the last chunk of a stream, whose `content` is empty. Must be called after the
   * last event.
   */
  end(content: string, { promptTokens, cachedTokens, completionTokens }: Usage): object {
    const event = this.#finished;
    if (event === null) throw new Error('the response ended, but its choice did not');
    const now = performance.now();
    const firstAt = this.#firstTokenAt ?? now;
    return {
      index: 0,
      content,
      tokens: this.#ids,
      id_slot: -1,
      stop: true,
      model: this.model,
      tokens_predicted: completionTokens,
      tokens_evaluated: promptTokens,
      tokens_cached: promptTokens + completionTokens,
      has_new_line: this.#hasNewLine,
      truncated: false,
      stop_type: stopType(event),
      stopping_word: event.stopString ?? '',
      timings: {
        cache_n: cachedTokens,
        ...timing('prompt', promptTokens - cachedTokens, firstAt - this.#startedAt),
        ...timing('predicted', completionTokens, now - firstAt),
      },
    };
  }
}

const timing = (name: string, count: number, ms: number): Record<string, number> => ({
  [`${name}_n`]: count,
  [`${name}_ms`]: ms,
  [`${name}_per_token_ms`]: count === 0 ? 0 : ms / count,
  [`${name}_per_second`]: ms === 0 ? 0 : (count * 1_000) / ms,
});
