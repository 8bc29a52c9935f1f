// What can be done with a stored response under /v1/responses/{id}: retrieve, list its input, cancel, delete.
// None of it counts for the limits. Event-loop thread only.
import { ApiError, apiError } from '../../errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { ResponseRecord, ResponseStore } from '../../storage/response-store.js';
import { isResponseId } from '../../storage/response-tables.js';
import { cancelResponse, notCancellable } from './cancel.js';
import type { ResponsesDeps } from './deps.js';
import { itemPage, readItemQuery } from './input-items.js';
import { removeResponse } from './remove.js';
import { readInclude, readStreamQuery, retrieve, type RetrieveDeps } from './retrieve.js';

const PATH = '/v1/responses/:id';

export function storedRoutes(deps: RetrieveDeps & Pick<ResponsesDeps, 'running'>): Route[] {
  const { responses, background, running } = deps;
  return [
    {
      method: 'GET', path: PATH, scope: 'responses.read',
      serve(exchange) {
        const query = shapeFirst(() => ({ stream: readStreamQuery(exchange.query), include: readInclude(exchange.query) }));
        const record = find(responses, exchange);
        const { stream, include } = query();
        retrieve(deps, exchange, record, include, stream);
      },
    },
    {
      method: 'GET', path: `${PATH}/input_items`, scope: 'responses.read',
      serve(exchange) {
        const query = shapeFirst(() => readItemQuery(exchange.query, readInclude(exchange.query)));
        const record = find(responses, exchange);
        const { order, after, ...rest } = query();
        // What lies before it may have been erased while it was generated: then what is left of it is listed.
        const items = responses.inputItems(record.organizationId, record.id, { newestFirst: order === 'desc', after });
        if (items === null) throw apiError('item_not_found', 'after names no item of this response.', 'after');
        exchange.json(200, itemPage(items, rest));
      },
    },
    {
      method: 'POST', path: `${PATH}/cancel`, scope: 'inference', bodyOptional: true,
      async serve(exchange) {
        const { identity: { organizationId }, params: { id = '' } } = exchange;
        if (running.has(organizationId, id)) throw notCancellable();
        if (responses.get(organizationId, id) === null && isResponseId(id) && await running.elsewhere(organizationId, id)) throw notCancellable();
        exchange.json(200, (await cancelResponse(responses, background, find(responses, exchange))).resource);
      },
    },
    {
      method: 'DELETE', path: PATH, scope: 'responses.delete',
      async serve(exchange) {
        const removed = await removeResponse(responses, background, find(responses, exchange));
        if (removed === null) throw notFound(exchange);
        exchange.json(200, removed);
      },
    },
  ];
}

/** Throws ApiError 404 response_not_found. */
function find(responses: ResponseStore, exchange: Exchange): ResponseRecord {
  const id = exchange.params['id'] ?? '';
  const record = responses.get(exchange.identity.organizationId, id);
  if (record === null) throw notFound(exchange);
  exchange.annotate({ response_id: id, model: record.model });
  return record;
}

function notFound(exchange: Exchange): ApiError {
  return apiError('response_not_found', `Response with id ${JSON.stringify((exchange.params['id'] ?? '').slice(0, 64))} not found.`, 'response_id');
}

/** A 400 is thrown at once, anything else when the value is asked for: whether the response exists comes in between. */
function shapeFirst<T>(read: () => T): () => T {
  try {
    const value = read();
    return () => value;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 400) throw error;
    return () => { throw error; };
  }
}
