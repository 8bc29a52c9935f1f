// GET /v1/responses/{id}: returns a stored response, or its events as a stream. Event-loop thread only.
import { apiError } from '../../shared/errors.js';
import type { Exchange } from '../../http/exchange.js';
import { queryList } from '../../http/query.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { ThoughtOrigin } from '../../generation/types.js';
import { itemSize, MAX_CHAIN_SIZE } from '../../storage/response-size.js';
import {
  isUnfinished,
  type ResponseStore,
  type StoredItem,
  type StoredResponse,
} from '../../storage/response-store.js';
import { validated } from '../validation.js';
import type { RunningGenerations } from '../running-generations.js';
import type { BackgroundResponses } from './background.js';
import { eventDialect, type DialectSettings } from './encode-dialect.js';
import { ORIGIN } from './items.js';
import { endOf, endOfStored, isTerminal, replayEvents, terminalEvents, unbroken } from './replay.js';
import type { ReasoningItem, ResponseResource } from './resource.js';
import { createSchema } from './schema.js';
import { eventList, sendEvents, type EventSource } from './stored-stream.js';

const includeSchema = createSchema.pick({ include: true });

/**
 * Reads `include`, which has the same values as in a create request and may use any query syntax. Throws ApiError 422
 * for an unknown value.
 */
export function readInclude(query: URLSearchParams): string[] {
  return validated(includeSchema, { include: queryList(query, 'include') }).include ?? [];
}

export interface StreamQuery {
  stream: boolean;
  startingAfter: number;
}

/** Throws ApiError 400 invalid_query_parameter. */
export function readStreamQuery(query: URLSearchParams): StreamQuery {
  const stream = query.get('stream') ?? 'false';
  if (stream !== 'true' && stream !== 'false')
    throw apiError('invalid_query_parameter', 'stream must be true or false.', 'stream');
  const after = query.get('starting_after');
  if (after !== null && !/^\d{1,15}$/.test(after))
    throw apiError(
      'invalid_query_parameter',
      'starting_after must be an event number, an integer of 0 or more.',
      'starting_after',
    );
  return { stream: stream === 'true', startingAfter: after === null ? -1 : Number(after) };
}

export interface RetrieveDeps {
  responses: ResponseStore;
  background: Pick<BackgroundResponses, 'find' | 'runningElsewhere'>;
  sealer: Sealer;
  settings: DialectSettings;
  generations: Pick<RunningGenerations, 'add'>;
}

export async function retrieve(
  deps: RetrieveDeps,
  exchange: Exchange,
  record: StoredResponse,
  include: readonly string[],
  { stream, startingAfter }: StreamQuery,
): Promise<void> {
  if (!stream) {
    const resource = include.includes('reasoning.encrypted_content')
      ? withSealedReasoning(record, deps.sealer, await originsOf(record, deps.responses))
      : record.resource;
    exchange.jsonEnqueued(itemSize(resource), 200, resource);
    return;
  }
  const dialect = eventDialect(deps.settings, (name) => exchange.header(name));
  const source =
    deps.background.find(record.id) ??
    (await deps.background.runningElsewhere(record)) ??
    (await loggedEvents(deps.responses, record, startingAfter)) ??
    eventList(replayEvents(resourceOf(record), dialect));
  sendEvents(exchange, source, startingAfter, dialect, deps.generations);
}

const resourceOf = (record: StoredResponse): ResponseResource => record.resource as unknown as ResponseResource;

/** Returns the stored reasoning items that contain the upstream's own blocks. */
function originsOf(
  { organizationId, resource }: StoredResponse,
  responses: Pick<ResponseStore, 'items'>,
): Promise<ReadonlyMap<string, StoredItem>> {
  const ids = (resource as unknown as ResponseResource).output.flatMap(({ type, id }) =>
    type === 'reasoning' ? [id] : [],
  );
  return responses.items(organizationId, ids, MAX_CHAIN_SIZE);
}

/** Adds `encrypted_content` to reasoning items that were generated without it. */
function withSealedReasoning(
  record: StoredResponse,
  sealer: Sealer,
  origins: ReadonlyMap<string, StoredItem>,
): StoredResponse['resource'] {
  const { organizationId, model } = record;
  const resource = resourceOf(record);
  const sealed = (item: ReasoningItem): ReasoningItem => {
    const text = [...(item.content ?? []), ...item.summary].map((part) => part.text).join('\n');
    const stored = origins.get(item.id)?.item[ORIGIN] as ThoughtOrigin | undefined;
    const origin = stored ?? null;
    return {
      ...item,
      encrypted_content: item.encrypted_content ?? sealer.seal('reasoning', text, { organizationId, model, origin }),
    };
  };
  return { ...resource, output: resource.output.map((item) => (item.type === 'reasoning' ? sealed(item) : item)) };
}

/** Returns a finished background response's log, or null if there is none. */
async function loggedEvents(
  responses: ResponseStore,
  record: StoredResponse,
  startingAfter: number,
): Promise<EventSource | null> {
  const last = record.background ? await responses.lastEvent(record.id) : null;
  if (last === null) return null;
  // If the end of the log is missing, recreates the last events from the response, unless the client has already
  // received later events.
  let sent = isUnfinished(record.status) || isTerminal(last) || startingAfter > last.sequence;
  const end = await endOf(responses, record.id);
  return {
    async after(after, atLeast) {
      const found = await responses.events(record.id, after, atLeast);
      if (found === null) {
        const left = end.length > 0 ? null : await endOfStored(responses, record.organizationId, record.id, after);
        if (left !== null && sent) return [];
        sent = true;
        return left;
      }
      const events = unbroken(found, after);
      if (events.length > 0) return events;
      if (found.length > 0 && end.length > 0) return end.filter(({ sequence }) => sequence > after);
      if (sent) return events;
      sent = true;
      return terminalEvents(resourceOf(record), last.sequence + 1);
    },
    ended: true,
    end,
    watch: () => () => undefined,
  };
}
