// Routes for a stored response under /v1/responses/{id}: retrieve it, list its input, cancel it, delete it. They do not
// count toward the generation limits. Event-loop thread only.
import { ApiError, apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { isResponseId } from '../../shared/ids.js';
import type { ResponseHead } from '../../storage/response-store.js';
import { itemSize } from '../../storage/response-size.js';
import { cancelResponse, notCancellable } from './cancel.js';
import type { BackgroundResponses } from './background.js';
import type { RunningResponses } from './stored-running.js';
import { itemPage, readItemQuery } from './input-items.js';
import { removeResponse } from './remove.js';
import { readInclude, readStreamQuery, retrieve, type RetrieveDeps } from './retrieve.js';

const PATH = '/v1/responses/:id';

export interface StoredRouteDeps extends RetrieveDeps {
  background: BackgroundResponses;
  running: Pick<RunningResponses, 'has' | 'runningElsewhere'>;
}

export function storedRoutes(deps: StoredRouteDeps): Route[] {
  const { responses, background, running } = deps;
  return [
    {
      method: 'GET',
      path: PATH,
      scope: 'responses.read',
      async handler(exchange) {
        const query = shapeFirst(() => ({
          stream: readStreamQuery(exchange.query),
          include: readInclude(exchange.query),
        }));
        const record = found(exchange, await responses.get(...idOf(exchange)));
        const { stream, include } = query();
        await retrieve(deps, exchange, record, include, stream);
      },
    },
    {
      method: 'GET',
      path: `${PATH}/input_items`,
      scope: 'responses.read',
      async handler(exchange) {
        const query = shapeFirst(() => readItemQuery(exchange.query, readInclude(exchange.query)));
        found(exchange, await responses.head(...idOf(exchange)));
        const { order, after, limit, imageUrls } = query();
        // Earlier responses in the chain may have been erased during the generation. If so, only the remaining items
        // are listed.
        const size = await responses.size(...idOf(exchange));
        const page = await exchange.enqueue(size, () =>
          responses.inputItems(...idOf(exchange), { newestFirst: order === 'desc', after, limit, images: imageUrls }),
        );
        if (page === 'no response') throw notFound(exchange);
        if (page === 'no item')
          throw apiError('item_not_found', 'after does not name an item of this response.', 'after');
        const shown = itemPage(page, imageUrls);
        exchange.jsonEnqueued(
          shown.data.reduce((sum, item) => sum + itemSize(item), 0),
          200,
          shown,
        );
      },
    },
    {
      method: 'POST',
      path: `${PATH}/cancel`,
      scope: 'inference',
      bodyOptional: true,
      async handler(exchange) {
        const {
          identity: { organizationId },
          params: { id = '' },
        } = exchange;
        if (running.has(organizationId, id)) throw notCancellable();
        if (
          (await responses.head(organizationId, id)) === null &&
          isResponseId(id) &&
          (await running.runningElsewhere(organizationId, id))
        )
          throw notCancellable();
        const record = found(exchange, await responses.get(...idOf(exchange)));
        exchange.json(200, found(exchange, await cancelResponse(responses, background, record)).resource);
      },
    },
    {
      method: 'DELETE',
      path: PATH,
      scope: 'responses.delete',
      async handler(exchange) {
        const removed = await removeResponse(
          responses,
          background,
          found(exchange, await responses.head(...idOf(exchange))),
        );
        if (removed === null) throw notFound(exchange);
        exchange.json(200, removed);
      },
    },
  ];
}

const idOf = (exchange: Exchange): [organizationId: string, id: string] => [
  exchange.identity.organizationId,
  exchange.params['id'] ?? '',
];

/** Throws ApiError 404 response_not_found. */
function found<T extends ResponseHead>(exchange: Exchange, stored: T | null): T {
  if (stored === null) throw notFound(exchange);
  exchange.annotate({ response_id: stored.id, model: stored.model });
  return stored;
}

function notFound(exchange: Exchange): ApiError {
  return apiError(
    'response_not_found',
    `Response with id ${JSON.stringify((exchange.params['id'] ?? '').slice(0, 64))} not found.`,
    'response_id',
  );
}

/**
 * Reads a value. Throws a 400 immediately, but defers any other error until the value is used, because the existence of
 * the response must be checked first.
 */
function shapeFirst<T>(read: () => T): () => T {
  try {
    const value = read();
    return () => value;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 400) throw error;
    return () => {
      throw error;
    };
  }
}
