// This thread's access to the KV pages on disk, and their erasure together with stored responses.

import type { Config } from '../config/settings.js';
import { TierClient } from '../engine/kv-tier/tier-client.js';
import { TierState } from '../engine/kv-tier/tier-state.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { SharedState } from './shared-state.js';

/** Null if no KV pages are kept on disk. */
export function openTierClient(
  { kv, engine }: Config,
  { process, kvTier }: Pick<SharedState, 'process' | 'kvTier'>,
  thread: number,
): TierClient | null {
  if (kv.disk === 'off' || !engine.prefix_cache) return null;
  return new TierClient({ process, thread, mode: kv.disk, minTokens: kv.min_tokens, state: new TierState(kvTier) });
}

/** Makes deleting a response or chat completion also erase the pages that only it needs. */
export function eraseWithResponses(responses: Pick<ResponseStore, 'delete'>, client: TierClient): void {
  const remove = responses.delete.bind(responses);
  responses.delete = async (organizationId, id) => {
    const removed = await remove(organizationId, id);
    if (removed) client.erase(organizationId, [id]);
    return removed;
  };
}
