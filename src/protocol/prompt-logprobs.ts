// Log-probabilities of a prompt as vLLM tells them: a list over its tokens, null for the first, else by token id what the
// token's was and those of the likeliest in its place. Pure.
import type { PromptLogprob } from '../generation/types.js';

/** Tokens that cannot occur have a log probability of minus infinity, which JSON lacks. */
const LOWEST_LOGPROB = -9999;

export const finiteLogprob = (logprob: number): number => (Number.isFinite(logprob) ? Math.max(logprob, LOWEST_LOGPROB) : LOWEST_LOGPROB);

interface WirePromptLogprob { logprob: number; rank: number | null; decoded_token: string }

/** `most`: so many of the likeliest are told; the token's own always is. Its rank is known only among them. */
export function wirePromptLogprobs(entries: readonly PromptLogprob[], most: number): (Record<string, WirePromptLogprob> | null)[] {
  return [null, ...entries.map((entry) => {
    const top = entry.top.slice(0, most);
    const told: Record<string, WirePromptLogprob> = {};
    const rank = top.findIndex(({ id }) => id === entry.id);
    told[entry.id] = { logprob: finiteLogprob(entry.logprob), rank: rank === -1 ? null : rank + 1, decoded_token: entry.token };
    for (const [index, { id, logprob, token }] of top.entries()) told[id] = { logprob: finiteLogprob(logprob), rank: index + 1, decoded_token: token };
    return told;
  })];
}
