// The request log's query parameters and response objects.

import { apiError } from '../../shared/errors.js';
import type { ListedRow, LoggedRow, RequestPage, RequestQuery } from '../../usage/requests/request-log.js';
import type { RequestText } from '../../shared/request-entry.js';
import { REQUEST_OUTCOMES } from '../../shared/wire/requests.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { RequestDetail, RequestObject } from '../../shared/wire/requests.js';

const MAX_NAME = 128;

/** Throws ApiError 400. */
export function readRequestQuery(query: URLSearchParams, organizationId: string | null): RequestQuery {
  const outcome = text(query, 'outcome');
  const known = REQUEST_OUTCOMES.find((one) => one === outcome);
  if (outcome !== null && known === undefined)
    throw apiError('invalid_query_parameter', `outcome must be one of ${REQUEST_OUTCOMES.join(', ')}.`, 'outcome');
  return { organizationId, keyId: text(query, 'api_key'), model: text(query, 'model'), outcome: known ?? null };
}

function text(query: URLSearchParams, name: string): string | null {
  const value = query.get(name);
  if (value === null || value === '') return null;
  if (value.length > MAX_NAME)
    throw apiError('invalid_query_parameter', `${name} must be at most ${MAX_NAME} characters long.`, name);
  return value;
}

export function requestPage({ rows, next }: RequestPage): ListPage<RequestObject> {
  return { object: 'list', data: rows.map(requestObject), has_more: next !== null, next };
}

export function requestObject({ id, row }: ListedRow): RequestObject {
  return {
    id,
    request_id: row.requestId,
    organization_id: row.organizationId,
    at: new Date(row.endedAt).toISOString(),
    api_key_id: row.keyId,
    model: row.model,
    endpoint: row.endpoint,
    stream: row.stream,
    status: row.status,
    outcome: row.outcome,
    code: row.code,
    finish_reason: row.finishReason,
    input_tokens: row.inputTokens,
    cached_tokens: row.cachedTokens,
    output_tokens: row.outputTokens,
    reasoning_tokens: row.reasoningTokens,
    images: row.images,
    queue_ms: row.queueMs,
    first_token_ms: between(row.receivedAt, row.firstTokenAt),
    duration_ms: Math.max(0, row.endedAt - row.receivedAt),
    has_text: row.hasText,
  };
}

export function requestDetail(id: string, row: LoggedRow, text: RequestText | null): RequestDetail {
  const { receivedAt, startedAt, firstTokenAt, endedAt, queueMs, towerMs } = row;
  const waited = startedAt === null ? null : Math.max(0, startedAt - receivedAt);
  return {
    ...requestObject({ id, row }),
    received_at: new Date(receivedAt).toISOString(),
    phases: {
      prepare_ms: waited === null ? null : Math.max(0, waited - (queueMs ?? 0) - (towerMs ?? 0)),
      queue_ms: waited === null || queueMs === null ? null : Math.min(queueMs, waited),
      tower_ms:
        waited === null || towerMs === undefined ? null : Math.min(towerMs, Math.max(0, waited - (queueMs ?? 0))),
      prefill_ms: startedAt === null ? null : between(startedAt, firstTokenAt ?? endedAt),
      decode_ms: firstTokenAt === null ? null : between(firstTokenAt, endedAt),
    },
    parameters: row.parameters === null ? null : { ...row.parameters },
    text:
      text === null
        ? null
        : {
            prompt: text.prompt.map((one) => ({ ...one })),
            answer: text.answer.map((one) => ({ ...one })),
            cut: text.cut,
            difference: text.difference === undefined ? null : { ...text.difference },
          },
  };
}

const between = (from: number, to: number | null): number | null => (to === null ? null : Math.max(0, to - from));
