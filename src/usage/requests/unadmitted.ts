// Which finished HTTP requests and WebSocket turns the request log has from here: those of the API that were not
// admitted to generate, refusals first of all. What was admitted tells of itself when it ends (protocol/run-account.ts).

import type { RequestEntry } from '../../shared/request-entry.js';
import type { RequestRecord } from '../../telemetry/outcome.js';

/** Null: admitted, of nobody known, or none of the API. `generating`: paths that generate, each with the one it counts as. */
export function unadmittedEntry(
  record: RequestRecord,
  generating: ReadonlyMap<string, string>,
  now = Date.now(),
): RequestEntry | null {
  const { organizationId, keyId, path, failure, fields, requestId, method, outcome, status, durationMs } = record;
  const endpoint = generating.get(path) ?? (path.startsWith('/v1/') ? path : null);
  if (
    organizationId === null ||
    keyId === null ||
    endpoint === null ||
    method === 'BACKGROUND' ||
    fields['admitted'] === true
  )
    return null;
  const model = fields['model'];
  return {
    requestId,
    organizationId,
    keyId,
    model: typeof model === 'string' ? model : null,
    endpoint,
    stream: fields['stream'] === true,
    status: failure?.status ?? (status === 0 ? null : status),
    outcome,
    code: failure?.code ?? null,
    finishReason: null,
    receivedAt: Math.round(now - durationMs),
    startedAt: null,
    firstTokenAt: null,
    endedAt: now,
    queueMs: null,
    inputTokens: 0,
    cachedTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    images: 0,
    parameters: null,
    text: null,
  };
}
