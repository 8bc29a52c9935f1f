// Which finished HTTP requests and WebSocket turns were refused before they generated anything. What was
// admitted tells its usage itself when it ends (generation-run.ts), failures included.

import type { RequestRecord } from '../telemetry/types.js';
import type { RejectedUsage } from './usage-sink.js';

/** Null: answered, admitted, of nobody known, or of an endpoint that generates nothing. `generating`: paths of those that do. */
export function rejectionOf(record: RequestRecord, generating: ReadonlySet<string>): RejectedUsage | null {
  const { organizationId, keyId, path, status, code, method, fields } = record;
  if (code === null || status < 400 || organizationId === null || keyId === null) return null;
  if ((method !== 'POST' && method !== 'WEBSOCKET') || !generating.has(path) || fields['admitted'] === true) return null;
  const model = fields['model'];
  return { organizationId, keyId, model: typeof model === 'string' ? model : null, endpoint: path, status, code };
}
