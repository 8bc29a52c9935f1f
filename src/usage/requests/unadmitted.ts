// Finds finished API requests and WebSocket turns that were not admitted to generate, most of which were refused, for
// the request log. Admitted requests add their own entry when they end (protocol/generation-accounting.ts).

import { bounded, ENTRY_TEXT, NO_ORGANIZATION } from '../../shared/request-entry.js';
import type { RequestEntry } from '../../shared/request-entry.js';
import type { RequestRecord } from '../../telemetry/outcome.js';

/**
 * Returns the log entry of a refused request, or null if the request was admitted or was not an API request. `listed`:
 * the API's paths, each with the path to log. For an unknown path, the requested path is logged. Without a known API
 * key, only operators see the entry.
 */
export function unadmittedEntry(
  record: RequestRecord,
  listed: ReadonlyMap<string, string>,
  now = Date.now(),
): RequestEntry | null {
  const { path, url, failure, fields, requestId, method, outcome, status, durationMs, client, trace } = record;
  const endpoint = url ?? listed.get(path) ?? null;
  const holder = holderOf(record);
  if (endpoint === null || holder === null || method === 'BACKGROUND' || fields['admitted'] === true) return null;
  const { model, asked_model: asked } = fields;
  return {
    requestId,
    ...holder,
    model: typeof model === 'string' ? model : null,
    askedModel: typeof asked === 'string' ? asked : null,
    method,
    endpoint,
    stream: fields['stream'] === true,
    status: failure?.status ?? (status === 0 ? null : status),
    outcome,
    code: failure?.code ?? null,
    message: failure?.message === undefined ? null : bounded(failure.message, ENTRY_TEXT.message),
    param: failure?.param == null ? null : bounded(failure.param, ENTRY_TEXT.param),
    client: client ?? null,
    traceId: trace?.id ?? null,
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
    parameters: typeof fields['batch'] === 'string' ? { batch: fields['batch'] } : null,
    text: null,
  };
}

/** Null if the request succeeded without an API key, such as a health check. It is not logged. */
function holderOf({
  organizationId,
  keyId,
  failure,
}: RequestRecord): Pick<RequestEntry, 'organizationId' | 'keyId'> | null {
  if (organizationId !== null && keyId !== null) return { organizationId, keyId };
  if (failure === null) return null;
  return failure.keyHolder ?? { organizationId: NO_ORGANIZATION, keyId: '' };
}
