// Which finished HTTP requests and WebSocket turns were refused before they generated anything. What was
// admitted tells its usage itself when it ends (protocol/run-account.ts), failures included.

import type { RequestRecord } from '../telemetry/outcome.js';
import type { RejectedUsage } from '../shared/usage-sink.js';

/** Null: answered, admitted, of nobody known, or of an endpoint that generates nothing. `generating`: paths of those that do, each with the one it counts as. */
export function rejectionOf(record: RequestRecord, generating: ReadonlyMap<string, string>): RejectedUsage | null {
  const { organizationId, keyId, path, failure, method, fields } = record;
  if (failure === null || organizationId === null || keyId === null) return null;
  const endpoint = generating.get(path);
  if ((method !== 'POST' && method !== 'WEBSOCKET') || endpoint === undefined || fields['admitted'] === true)
    return null;
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
