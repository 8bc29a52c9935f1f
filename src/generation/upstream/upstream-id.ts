// Identifies the upstream that created a reasoning block, because only that upstream can read the block back. No side
// effects.
import { createHash } from 'node:crypto';
import type { UpstreamServer } from '../../config/upstream.js';

/**
 * One ID per server: a hash of its API, address and model. Servers that differ only in their key belong to different
 * accounts of one vendor, so the hash then includes the key. `model`: the local name.
 */
export function upstreamIds(servers: readonly UpstreamServer[], model: string): string[] {
  const addresses = servers.map(({ api, url, model: name }) => `${api}\n${url}\n${name ?? model}`);
  return servers.map(({ key }, index) => {
    const address = addresses[index] as string;
    const isShared = addresses.filter((other) => other === address).length > 1;
    const identity = isShared ? `${address}\n${key ?? ''}` : address;
    return createHash('sha256').update(identity).digest('base64url').slice(0, 22);
  });
}
