// The `prompt_cache_diagnostics` of a response. No side effects.
import { firstOf } from '../prompt-cache/cache-diagnostics.js';
import { wireTiers, type CacheDiagnosis, type CacheTiers, type WireTiers } from '../prompt-cache/diagnose.js';
import type { PromptPart } from '../prompt-cache/prompt-parts.js';

/** The reason for each part of the prompt. Changes of other parts are reported as changes of the input. */
const REASONS = {
  model: 'model_changed',
  tools: 'tools_changed',
  format: 'text_format_changed',
  effort: 'reasoning_effort_changed',
  verbosity: 'verbosity_changed',
  compaction: 'context_compacted',
} as const satisfies Partial<Record<PromptPart, string>>;
const ORDER = Object.keys(REASONS) as (keyof typeof REASONS)[];

export type PromptCacheDiagnostics = ComparisonResult & {
  /** Present only if the server keeps KV pages on disk. */
  cache?: WireTiers;
  /** Present only if the prompt contains such items. */
  replayed_items?: readonly string[];
};
type ComparisonResult =
  | {
      type: 'cache_miss';
      reason: (typeof REASONS)[keyof typeof REASONS] | 'input_changed';
      cache_missed_tokens: number;
      comparison_reusable_tokens: number;
    }
  | { type: 'cache_hit' | 'comparison_response_not_found' | 'unavailable' };

/** `replayed`: the prompt items that consist of the tokens that the model generated. */
export const wireDiagnostics = (
  diagnosis: CacheDiagnosis,
  tiers: CacheTiers | null,
  replayed: readonly string[],
): PromptCacheDiagnostics => ({
  ...comparisonResult(diagnosis),
  ...(tiers === null ? {} : { cache: wireTiers(tiers) }),
  ...(replayed.length === 0 ? {} : { replayed_items: replayed }),
});

/** The format defines no reason for an evicted prefix, so `unavailable` is reported. */
function comparisonResult(diagnosis: CacheDiagnosis): ComparisonResult {
  switch (diagnosis.result) {
    case 'match':
      return { type: 'cache_hit' };
    case 'not_found':
      return { type: 'comparison_response_not_found' };
    case 'evicted':
    case 'unavailable':
      return { type: 'unavailable' };
    case 'differs': {
      const { matched, missed, changed } = diagnosis;
      const part = firstOf(changed, ORDER) as keyof typeof REASONS | null;
      return {
        type: 'cache_miss',
        reason: part === null ? 'input_changed' : REASONS[part],
        cache_missed_tokens: missed,
        comparison_reusable_tokens: matched + missed,
      };
    }
  }
}
