// Sums up counters per API key. No side effects.

import type { KeyCounts } from '../../shared/live-collected.js';

/** Maximum number of keys listed per time slot. The remaining keys are summed in one unnamed entry. */
const MAX_KEYS = 200;

/** One entry per key, highest counts first. Keys beyond the maximum are summed in one entry. */
export function mergedKeys(all: readonly KeyCounts[]): KeyCounts[] {
  const byKey = new Map<string, KeyCounts>();
  for (const one of all) addTo(byKey, one);
  const sorted = [...byKey.values()].sort((a, b) => weight(b) - weight(a));
  if (sorted.length <= MAX_KEYS) return sorted;
  const kept = new Map<string, KeyCounts>();
  sorted.forEach((one, at) => addTo(kept, at < MAX_KEYS - 1 ? one : { ...one, organizationId: '', keyId: '' }));
  return [...kept.values()];
}

function addTo(byKey: Map<string, KeyCounts>, more: KeyCounts): void {
  const name = `${more.organizationId}\n${more.keyId}`;
  const known = byKey.get(name);
  if (known === undefined) {
    byKey.set(name, { ...more });
    return;
  }
  known.requests += more.requests;
  known.refused += more.refused;
  known.inputTokens += more.inputTokens;
  known.outputTokens += more.outputTokens;
}

const weight = ({ inputTokens, outputTokens, requests }: KeyCounts): number => inputTokens + outputTokens + requests;
