// The request log's query parameters and response objects.

import { apiError } from '../../shared/errors.js';
import type { ListedRow, LoggedRow, RequestPage, RequestQuery } from '../../usage/requests/request-log.js';
import { NO_ORGANIZATION } from '../../shared/request-entry.js';
import type { RequestText } from '../../shared/request-entry.js';
import { isRequestId } from '../../usage/requests/request-place.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import type { Exchange } from '../../http/exchange.js';
import { csvLine, sendCsv } from './csv.js';
import { readTimes } from './times.js';
import { REQUEST_OUTCOMES } from '../../shared/wire/requests.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { RequestDetail, RequestObject } from '../../shared/wire/requests.js';

const MAX_NAME = 128;
/** Maximum number of rows in a CSV file. */
export const CSV_ROWS = 50_000;
const CSV_PAGE = 500;

/** Throws ApiError 400. */
export function readRequestQuery(query: URLSearchParams, organizationId: string | null): RequestQuery {
  const outcome = text(query, 'outcome');
  const known = REQUEST_OUTCOMES.find((one) => one === outcome);
  if (outcome !== null && known === undefined)
    throw apiError('invalid_query_parameter', `outcome must be one of ${REQUEST_OUTCOMES.join(', ')}.`, 'outcome');
  const requestId = text(query, 'request_id');
  if (requestId !== null && !isRequestId(requestId))
    throw apiError('invalid_query_parameter', 'request_id must be a request ID such as req_….', 'request_id');
  const { from, to } = readTimes(query);
  return {
    organizationId,
    keyId: text(query, 'api_key'),
    model: text(query, 'model'),
    outcome: known ?? null,
    requestId,
    from,
    to,
  };
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
    organization_id: row.organizationId === NO_ORGANIZATION ? null : row.organizationId,
    at: new Date(row.endedAt).toISOString(),
    received_at: new Date(row.receivedAt).toISOString(),
    api_key_id: row.keyId === '' ? null : row.keyId,
    model: row.model,
    asked_model: row.askedModel ?? null,
    method: row.method ?? null,
    endpoint: row.endpoint,
    stream: row.stream,
    status: row.status,
    outcome: row.outcome,
    code: row.code,
    message: row.message ?? null,
    param: row.param ?? null,
    client_address: row.client?.address || null,
    user_agent: row.client?.userAgent || null,
    trace_id: row.traceId ?? null,
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
    phases: {
      prepare_ms: waited === null ? null : Math.max(0, waited - (queueMs ?? 0) - (towerMs ?? 0)),
      queue_ms: waited === null || queueMs === null ? null : Math.min(queueMs, waited),
      tower_ms:
        waited === null || towerMs === undefined ? null : Math.min(towerMs, Math.max(0, waited - (queueMs ?? 0))),
      prefill_ms: startedAt === null ? null : between(startedAt, firstTokenAt ?? endedAt),
      decode_ms: firstTokenAt === null ? null : between(firstTokenAt, endedAt),
    },
    parameters: row.parameters === null ? null : { ...row.parameters },
    trace_url: null,
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

const CSV_COLUMNS = [
  'received_at',
  'at',
  'request_id',
  'organization_id',
  'api_key_id',
  'method',
  'endpoint',
  'asked_model',
  'model',
  'stream',
  'status',
  'outcome',
  'code',
  'param',
  'message',
  'finish_reason',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'reasoning_tokens',
  'images',
  'queue_ms',
  'first_token_ms',
  'duration_ms',
  'client_address',
  'user_agent',
  'trace_id',
] as const satisfies readonly (keyof RequestObject)[];

/** Sends the matching entries as a CSV file. Throws ApiError 400 if there are more than CSV_ROWS. */
export async function sendRequestsCsv(
  exchange: Exchange,
  requestLog: Pick<RequestLog, 'list'>,
  query: RequestQuery,
): Promise<void> {
  await sendCsv(
    exchange,
    { file: 'requests.csv', columns: CSV_COLUMNS, rows: CSV_ROWS },
    async (after: string | null) => {
      const { rows, next } = await requestLog.list(query, CSV_PAGE, after);
      return { lines: rows.map((row) => csvLine(requestObject(row), CSV_COLUMNS)), next };
    },
  );
}
