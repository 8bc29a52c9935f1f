// Prompt log probabilities in vLLM's format: one list entry per token. The first is null. Each other entry maps token
// IDs to log probabilities, for the actual token and for the most likely tokens at its position. No side effects.
import type { PromptLogprob } from '../generation/types.js';
import { JsonList } from '../http/json-text.js';

/** Impossible tokens have a log probability of minus infinity, which JSON cannot represent. */
const LOWEST_LOGPROB = -9999;

export const finiteLogprob = (logprob: number): number =>
  Number.isFinite(logprob) ? Math.max(logprob, LOWEST_LOGPROB) : LOWEST_LOGPROB;

/** Writes the list incrementally, because it may have millions of entries. */
export class PromptLogprobWriter {
  readonly list = new JsonList();

  /**
   * `most`: number of most likely tokens per entry. The actual token is always included, but its rank is known only if
   * it is among the most likely ones.
   */
  constructor(private readonly most: number) {
    this.list.add('null');
  }

  // The JSON text is concatenated by hand, because it is expensive to build and serialize objects with IDs as keys.
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
