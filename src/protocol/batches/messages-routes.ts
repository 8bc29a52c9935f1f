// Routes under /v1/messages/batches, in Anthropic's format: create a batch from inline requests, list, retrieve, cancel
// and delete batches, and stream their results. Event-loop thread only.

import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { EventStream, Exchange, Route } from '../../http/exchange.js';
import { stringifyInSlices } from '../../http/json-slices.js';
import { apiError, toApiError } from '../../shared/errors.js';
import { stringifyExact } from '../../shared/exact-json.js';
import { isBatchId, newBatchId } from '../../shared/ids.js';
import type { Batch, NewBatch, NewLine } from '../../storage/batch-store.js';
import { nameIgnored } from '../ignored.js';
import { batchNotFound, cancelBatch, expiryOf, foundBatch, idOf, limitOf, type BatchDeps } from './deps.js';
import { MESSAGES_ENDPOINT } from './endpoints.js';
import { checkRequests, type MessageRequest } from './messages-requests.js';
import { shownMessageBatch } from './messages-shape.js';
import { messagesLine } from './results.js';

const PATH = '/v1/messages/batches';
const KIND = 'messages';
const MAX_LIMIT = 1_000;
/** A group of lines is stored when it has this many characters or lines. */
const GROUP_CHARACTERS = 1_048_576;
const GROUP_LINES = 500;
/** Size of a page of results, in characters. The next page is read once at most this many bytes wait to be sent. */
const RESULT_PAGE = 524_288;
/** Interval, in ms, between checks of the amount of buffered data. */
const LOOK_MS = 10;

export function messageBatchRoutes(deps: BatchDeps): Route[] {
  const { batches } = deps;
  return [
    { method: 'POST', path: PATH, scope: 'batches', handler: (exchange) => create(deps, exchange) },
    {
      method: 'GET',
      path: PATH,
      scope: 'batches',
      async handler(exchange) {
        const limit = limitOf(exchange.query, MAX_LIMIT);
        const [after, before] = ['after_id', 'before_id'].map((name) => batchIn(exchange.query, name));
        if (after != null && before != null)
          throw apiError('conflicting_parameters', 'after_id cannot be combined with before_id.', 'before_id');
        const page = await batches.list(exchange.identity.organizationId, KIND, { after, before, limit });
        exchange.json(200, {
          data: page.batches.map(shownMessageBatch),
          has_more: page.more,
          first_id: page.batches[0]?.id ?? null,
          last_id: page.batches.at(-1)?.id ?? null,
        });
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id`,
      scope: 'batches',
      async handler(exchange) {
        exchange.json(200, shownMessageBatch(foundBatch(exchange, KIND, await batches.get(...idOf(exchange)))));
      },
    },
    {
      method: 'DELETE',
      path: `${PATH}/:id`,
      scope: 'batches',
      async handler(exchange) {
        const [organizationId, id] = idOf(exchange);
        checkEnded(foundBatch(exchange, KIND, await batches.get(organizationId, id)));
        await batches.delete(organizationId, id);
        exchange.json(200, { id, type: 'message_batch_deleted' });
      },
    },
    {
      method: 'POST',
      path: `${PATH}/:id/cancel`,
      scope: 'batches',
      bodyOptional: true,
      async handler(exchange) {
        exchange.json(200, shownMessageBatch(await cancelBatch(deps, exchange, KIND)));
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id/results`,
      scope: 'batches',
      async handler(exchange) {
        const batch = foundBatch(exchange, KIND, await batches.get(...idOf(exchange)));
        checkEnded(batch);
        await sendResults(deps, exchange, batch);
      },
    },
  ];
}

/** Creates a batch. All requests are checked before the first one is stored. */
async function create(deps: BatchDeps, exchange: Exchange): Promise<void> {
  const { batches, settings } = deps;
  const { organizationId, keyId } = exchange.identity;
  const { requests, ...others } = exchange.body as Readonly<Record<string, unknown>>;
  const checked = checkRequests(requests, settings.max_lines);
  nameIgnored({ parameters: [...Object.keys(others), ...checked.ignored] }, exchange);
  const now = deps.now();
  const beta = exchange.header('anthropic-beta');
  const batch: NewBatch = {
    id: newBatchId(KIND),
    organizationId,
    keyId,
    kind: KIND,
    endpoint: MESSAGES_ENDPOINT,
    createdAt: now,
    expiresAt: expiryOf(now, settings),
    inputFileId: null,
    metadata: null,
    headers: beta === '' ? {} : { 'anthropic-beta': beta },
    outputExpiresS: null,
  };
  await batches.create(batch, settings.per_organization);
  await deps.expectEnd(organizationId, batch.id);
  try {
    const isLarge = exchange.bodyBytes >= GROUP_CHARACTERS;
    for await (const lines of grouped(checked.requests, isLarge)) await batches.addLines(batch.id, lines);
    await batches.begin(batch.id, checked.requests.length, null);
  } catch (error) {
    // The client receives no ID, so the batch is deleted. If this fails too, the sweep erases it after UNBEGUN_MS.
    await batches.fail(batch.id, []).catch(() => undefined);
    await batches.delete(organizationId, batch.id).catch(() => false);
    throw error;
  }
  deps.wake();
  exchange.json(200, shownMessageBatch(foundBatch(exchange, KIND, await batches.get(organizationId, batch.id))));
}

/**
 * Serializes the requests in groups, and yields to the event loop between two groups. `isLarge`: whether a single
 * request may take so long that it must be serialized in slices.
 */
async function* grouped(requests: readonly MessageRequest[], isLarge: boolean): AsyncGenerator<readonly NewLine[]> {
  let lines: NewLine[] = [];
  let characters = 0;
  for (const [at, { customId, params }] of requests.entries()) {
    const body = isLarge ? await stringifyInSlices(params) : stringifyExact(params);
    lines.push({ line: at + 1, customId, body });
    characters += body.length;
    if (characters < GROUP_CHARACTERS && lines.length < GROUP_LINES) continue;
    yield lines;
    await nextTurn();
    lines = [];
    characters = 0;
  }
  if (lines.length > 0) yield lines;
}

/**
 * Streams the results. A client cannot distinguish an error line from a result line, so after the first line, an error
 * closes the connection.
 */
async function sendResults(deps: BatchDeps, exchange: Exchange, batch: Batch): Promise<void> {
  const out = exchange.lines();
  try {
    await sendPages(deps, exchange, batch, out);
  } catch (error) {
    if (out.started) out.abort(toApiError(error));
    throw error; // sent as the response if nothing has been sent; logged if it is not an ApiError
  }
  if (!exchange.aborted) out.end();
}

async function sendPages(
  { batches }: BatchDeps,
  exchange: Exchange,
  { id, organizationId }: Batch,
  out: EventStream,
): Promise<void> {
  for (let after = 0; !exchange.aborted; ) {
    const page = await batches.results(id, after, RESULT_PAGE);
    // If the batch has been deleted, its results are being erased step by step, so results may be missing on any page.
    if ((await batches.get(organizationId, id)) === null) throw batchNotFound(id);
    if (page.length === 0) return;
    for (const result of page) out.send(messagesLine(result));
    after = page.at(-1)?.line ?? after;
    await drained(exchange, out);
  }
}

/** Waits until at most RESULT_PAGE bytes are buffered for the client, or the client disconnects. */
async function drained(exchange: Exchange, out: EventStream): Promise<void> {
  while (out.bufferedBytes > RESULT_PAGE && !exchange.aborted) await sleep(LOOK_MS);
}

function batchIn(query: URLSearchParams, name: string): string | null {
  const id = query.get(name);
  if (id !== null && !isBatchId(id)) throw apiError('invalid_query_parameter', `${name} must be a batch ID.`, name);
  return id;
}

function checkEnded({ phase }: Batch): void {
  if (phase !== 'ended') throw apiError('batch_not_ended', 'The batch has not finished yet.', 'batch_id');
}
