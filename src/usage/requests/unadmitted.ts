// Finds finished HTTP requests and WebSocket turns of the API that were not admitted to generate, most of which were
// refused, for the request log. Admitted requests add their own entry when they end
// (protocol/generation-accounting.ts).

import type { RequestEntry } from '../../shared/request-entry.js';
import type { RequestRecord } from '../../telemetry/outcome.js';

/**
 * Null if the request was admitted, was unauthenticated, or was not an API request. `generating`: the paths that
 * generate, each with the path under which it is counted.
 */
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
