// Finds finished HTTP requests and WebSocket turns that were refused before they generated anything. Admitted requests
// report their usage when they end, even if they fail (protocol/generation-accounting.ts).

import type { RequestRecord } from '../telemetry/outcome.js';
import type { RejectedUsage } from '../shared/usage-sink.js';

const GENERATING: ReadonlySet<string> = new Set(['POST', 'WEBSOCKET', 'BATCH']);

/**
 * Null if the request was completed, admitted or unauthenticated, or if its endpoint does not generate. `generating`:
 * maps the paths of generation endpoints to the paths used for counting.
 */
export function rejectionOf(record: RequestRecord, generating: ReadonlyMap<string, string>): RejectedUsage | null {
  const { organizationId, keyId, path, failure, method, fields } = record;
  if (failure === null || organizationId === null || keyId === null) return null;
  const endpoint = generating.get(path);
  if (!GENERATING.has(method) || endpoint === undefined || fields['admitted'] === true) return null;
  const model = fields['model'];
  return {
    organizationId,
    keyId,
    model: typeof model === 'string' ? model : null,
    endpoint,
    status: failure.status,
    code: failure.code,
  };
}
