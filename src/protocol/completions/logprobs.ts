// Log-probabilities in the format before conversations: four lists over the tokens of a text. Pure.
import type { Logprob, PromptLogprob, SpelledToken, TokenLogprob } from '../../generation/types.js';
import { finiteLogprob } from '../prompt-logprobs.js';

export interface LegacyLogprobs {
  tokens: string[];
  /** Null: the first token of a prompt, which nothing comes before. */
  token_logprobs: (number | null)[];
  /** The likeliest and the token itself, by their texts. */
  top_logprobs: (Record<string, number> | null)[];
  /** Where each token's text begins in the choice's text, in UTF-16 units. */
  text_offset: number[];
}

export const noLogprobs = (): LegacyLogprobs => ({ tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] });

/** Bytes that are no characters by themselves are spelled out. */
function spelling({ token, bytes }: Pick<Logprob, 'token' | 'bytes'>): string {
  if (!token.includes('\uFFFD')) return token;
  return `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
}

/** Appends tokens of one text; `most`: so many of the likeliest are told. */
export class LogprobWriter {
  #offset = 0;

  constructor(private readonly most: number) {}

  /** The first token of a prompt. */
  first(token: SpelledToken, into: LegacyLogprobs): void {
    this.#add(token, null, null, into);
  }

  add(entry: TokenLogprob | PromptLogprob, into: LegacyLogprobs): void {
    const top: Record<string, number> = {};
    for (const candidate of entry.top.slice(0, this.most)) top[spelling(candidate)] ??= finiteLogprob(candidate.logprob);
    top[spelling(entry)] ??= finiteLogprob(entry.logprob);
    this.#add(entry, finiteLogprob(entry.logprob), top, into);
  }

  #add(token: Pick<Logprob, 'token' | 'bytes'>, logprob: number | null, top: Record<string, number> | null, into: LegacyLogprobs): void {
    into.tokens.push(spelling(token));
    into.token_logprobs.push(logprob);
    into.top_logprobs.push(top);
    into.text_offset.push(this.#offset);
    this.#offset += token.token.length;
  }
}
