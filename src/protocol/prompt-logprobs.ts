// Log-probabilities of a prompt as vLLM tells them: a list over its tokens, null for the first, else by token id what the
// token's was and those of the likeliest in its place. Pure.
import type { PromptLogprob } from '../generation/types.js';
import { JsonList } from '../http/json-text.js';

/** Tokens that cannot occur have a log probability of minus infinity, which JSON lacks. */
const LOWEST_LOGPROB = -9999;

export const finiteLogprob = (logprob: number): number =>
  Number.isFinite(logprob) ? Math.max(logprob, LOWEST_LOGPROB) : LOWEST_LOGPROB;

/** The list, as it grows: an answer may have millions of them. */
export class PromptLogprobWriter {
  readonly list = new JsonList();

  /** `most`: so many of the likeliest are told; the token's own always is. Its rank is known only among them. */
  constructor(private readonly most: number) {
    this.list.add('null');
  }

  // Put together by hand: an object with ids for names is dear to make, and to make text of.
  add(entry: PromptLogprob): void {
    const top = entry.top.slice(0, this.most);
    const own = top.some(({ id }) => id === entry.id) ? '' : wireEntry(entry, null);
    const others = top.map((one, index) => wireEntry(one, index + 1)).join(',');
    this.list.add(`{${own}${own === '' || others === '' ? '' : ','}${others}}`);
  }
}

const wireEntry = (
  { id, logprob, token }: Pick<PromptLogprob, 'id' | 'logprob' | 'token'>,
  rank: number | null,
): string => `"${id}":{"logprob":${finiteLogprob(logprob)},"rank":${rank},"decoded_token":${JSON.stringify(token)}}`;
