// Compares a prompt with an earlier response's prompt, position by position, and determines why the prefix cache did
// not cover all of it. No side effects.
import type { Miss } from '../../engine/kv-tier/messages.js';
import type { FromDisk } from '../../generation/provider.js';
import type { PromptPart, PromptParts } from './prompt-parts.js';
import type { KeptPrompt } from './prompt-memory.js';

/**
 * If the result is `match` or `differs`, `matched` is the number of leading positions of the earlier prompt that this
 * prompt repeats. `missed` is the number of positions after them, up to the generation prompt, which no continuation
 * repeats. If the result is `evicted`, `missed` is the number of matched positions that were no longer in the cache.
 *
 * match: this prompt repeats the earlier one. evicted: this prompt repeats the earlier one, but part of it was no
 * longer in the cache. differs: this prompt does not repeat the earlier one; `changed` is empty if the template
 * rendered the same request differently. unavailable: the model's token IDs are not available.
 */
export type CacheDiagnosis =
  | { readonly result: 'not_found' | 'unavailable' }
  | { readonly result: 'match' | 'evicted'; readonly matched: number; readonly missed: number }
  | {
      readonly result: 'differs';
      readonly matched: number;
      readonly missed: number;
      readonly changed: ReadonlySet<PromptPart>;
    };

/**
 * The number of cached prompt tokens by tier of the prefix cache. Available only if the server keeps KV pages on disk.
 */
export interface CacheTiers {
  readonly memoryTokens: number;
  readonly diskTokens: number;
  /**
   * Why the first missing page of the compared prefix was not on disk. Null if the prefix was not evicted, or if the
   * reason is unknown.
   */
  readonly miss: Miss | null;
}

export interface ComparedPrompt {
  readonly keys: Int32Array;
  readonly parts: PromptParts;
  /** Number of prompt tokens that the cache provided. */
  readonly cachedTokens: number;
  /** The length of a cached prefix is a multiple of this many tokens. */
  readonly granularity: number;
}

export function diagnose(earlier: KeptPrompt, prompt: ComparedPrompt): CacheDiagnosis {
  const changed = prompt.parts.changedSince(earlier.parts);
  const reusable = earlier.history;
  if (changed.has('model')) return { result: 'differs', matched: 0, missed: reusable, changed };
  const matched = commonPrefix(earlier.keys, prompt.keys, reusable);
  if (matched < Math.min(reusable, prompt.keys.length))
    return { result: 'differs', matched, missed: reusable - matched, changed };
  // The last token is always computed because its logits are needed, so it is not expected to be cached.
  const cacheable = Math.min(matched, prompt.keys.length - 1);
  const expected = cacheable - (cacheable % prompt.granularity);
  if (prompt.cachedTokens >= expected) return { result: 'match', matched, missed: 0 };
  return { result: 'evicted', matched, missed: expected - prompt.cachedTokens };
}

/** `fromDisk`: the part of the prompt that was read from disk. Absent if the server keeps no KV pages on disk. */
export function tiersOf(
  diagnosis: CacheDiagnosis,
  cachedTokens: number,
  fromDisk: FromDisk | undefined,
): CacheTiers | null {
  if (fromDisk === undefined) return null;
  const diskTokens = Math.min(fromDisk.tokens, cachedTokens);
  const { miss } = fromDisk;
  return {
    memoryTokens: cachedTokens - diskTokens,
    diskTokens,
    // Reported only if part of the compared prefix was evicted. Otherwise, pages are missing because new text has never
    // been stored, which is unrelated to the compared prefix.
    miss: diagnosis.result === 'evicted' && miss?.reason !== 'in memory' ? miss : null,
  };
}

/** The `cache` field of the prompt-cache diagnostics in responses. */
export interface WireTiers {
  memory_tokens: number;
  disk_tokens: number;
  disk_miss: { reason: string; at: number | null } | null;
}

export const wireTiers = ({ memoryTokens, diskTokens, miss }: CacheTiers): WireTiers => ({
  memory_tokens: memoryTokens,
  disk_tokens: diskTokens,
  disk_miss: miss === null ? null : { reason: miss.reason.replaceAll(' ', '_'), at: miss.at },
});

export function commonPrefix(a: Int32Array, b: Int32Array, most: number): number {
  const end = Math.min(a.length, b.length, most);
  let at = 0;
  while (at < end && a[at] === b[at]) at++;
  return at;
}
