// The `diagnostics` object of a message. No side effects.
import { firstOf } from '../prompt-cache/cache-diagnostics.js';
import { wireTiers, type CacheDiagnosis, type CacheTiers, type WireTiers } from '../prompt-cache/diagnose.js';
import type { PromptPart } from '../prompt-cache/prompt-parts.js';

type Reason =
  | {
      type: 'model_changed' | 'system_changed' | 'tools_changed' | 'messages_changed';
      cache_missed_input_tokens: number;
    }
  | { type: 'previous_message_not_found' | 'unavailable' };

/** The request parts for which the format defines a reason, in Anthropic's order. */
const REASONS = {
  model: 'model_changed',
  system: 'system_changed',
  tools: 'tools_changed',
  messages: 'messages_changed',
} as const satisfies Partial<Record<PromptPart, Reason['type']>>;
const ORDER = Object.keys(REASONS) as (keyof typeof REASONS)[];

export interface MessageDiagnostics {
  cache_miss_reason: Reason;
  /** Present only if the server keeps KV pages on disk. */
  cache?: WireTiers;
  /** Present only if the prompt contains such items. */
  replayed_items?: readonly string[];
}

/**
 * Returns null if the prompts do not differ. The Messages format defines no reason for a prefix that was evicted from
 * the cache. In this case, the reason is `unavailable` if `tiers` can explain the miss; otherwise, the result is null.
 * `replayed`: the prompt items that consist of the tokens that the model generated.
 */
export function wireDiagnostics(
  diagnosis: CacheDiagnosis | null,
  tiers: CacheTiers | null,
  replayed: readonly string[],
): MessageDiagnostics | null {
  const reason = missReason(diagnosis, tiers);
  if (reason === null) return null;
  return {
    ...reason,
    ...(tiers === null ? {} : { cache: wireTiers(tiers) }),
    ...(replayed.length === 0 ? {} : { replayed_items: replayed }),
  };
}

function missReason(diagnosis: CacheDiagnosis | null, tiers: CacheTiers | null): { cache_miss_reason: Reason } | null {
  switch (diagnosis?.result) {
    case undefined:
    case 'match':
      return null;
    case 'evicted':
      return tiers === null ? null : { cache_miss_reason: { type: 'unavailable' } };
    case 'not_found':
      return { cache_miss_reason: { type: 'previous_message_not_found' } };
    case 'unavailable':
      return { cache_miss_reason: { type: 'unavailable' } };
    case 'differs': {
      const part = firstOf(diagnosis.changed, ORDER) as keyof typeof REASONS | null;
      return {
        cache_miss_reason:
          part === null
            ? { type: 'unavailable' }
            : { type: REASONS[part], cache_missed_input_tokens: diagnosis.missed },
      };
    }
  }
}
