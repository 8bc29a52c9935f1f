// Routes for stored chat completions under /v1/chat/completions: list, retrieve, update and delete them, and list the
// messages of their requests. These requests do not count toward the generation limits. Event-loop thread only.
import { apiError, type ApiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { JsonText } from '../../http/json-text.js';
import { isStoredCompletionId } from '../../shared/ids.js';
import {
  MAX_PAGE_SIZE,
  type CompletionHead,
  type CompletionStore,
  type StoredCompletion,
} from '../../storage/completion-store.js';
import { checkMetadata } from '../fields.js';
import { nameIgnored } from '../ignored.js';
import { unreadFields } from '../unread.js';
import { readPageQuery } from '../page-query.js';
import { validated } from '../validation.js';
import { chatUpdateSchema } from './schema.js';
import { withMetadata } from './stored-copy.js';

const PATH = '/v1/chat/completions';

export interface StoredChatDeps {
  completions: CompletionStore;
}

export function storedChatRoutes({ completions }: StoredChatDeps): Route[] {
  return [
    {
      method: 'GET',
      path: PATH,
      scope: 'responses.read',
      async handler(exchange) {
        const { query, identity } = exchange;
        const { order, after, limit } = readPageQuery(query, 'asc');
        if (after !== null && !isStoredCompletionId(after)) throw notFound(after, 'after');
        const filter = { model: query.get('model'), metadata: metadataFilter(query) };
        const page = await exchange.enqueue(MAX_PAGE_SIZE, () =>
          completions.list(identity.organizationId, { ...filter, newestFirst: order === 'desc', after, limit }),
        );
        const ids = page.data.map(({ id }) => id);
        exchange.json(200, listText(ids, page.data.map(shown), page.more));
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id`,
      scope: 'responses.read',
      async handler(exchange) {
        const { size } = found(exchange, await completions.head(...idOf(exchange)));
        const stored = await exchange.enqueue(size, () => completions.get(...idOf(exchange)));
        exchange.json(200, new JsonText().add(shown(found(exchange, stored))));
      },
    },
    {
      method: 'POST',
      path: `${PATH}/:id`,
      scope: 'inference',
      async handler(exchange) {
        const body = exchange.body as Readonly<Record<string, unknown>>;
        const { metadata } = validated(chatUpdateSchema, body);
        if (metadata === undefined) throw apiError('missing_required_parameter', 'metadata is required.', 'metadata');
        const given = checkMetadata(metadata) ?? {};
        nameIgnored({ parameters: unreadFields(chatUpdateSchema, body, {}) }, exchange);
        const changed = await completions.setMetadata(...idOf(exchange), given);
        exchange.json(200, new JsonText().add(shown(found(exchange, changed))));
      },
    },
    {
      method: 'DELETE',
      path: `${PATH}/:id`,
      scope: 'responses.delete',
      async handler(exchange) {
        const { id } = found(exchange, await completions.head(...idOf(exchange)));
        if (!(await completions.delete(...idOf(exchange)))) throw notFound(id, 'completion_id');
        exchange.json(200, { id, object: 'chat.completion.deleted', deleted: true });
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id/messages`,
      scope: 'responses.read',
      async handler(exchange) {
        const { order, after, limit } = readPageQuery(exchange.query, 'asc');
        const head = found(exchange, await completions.head(...idOf(exchange)));
        const start = after === null ? null : messageIndex(head, after);
        const page = await exchange.enqueue(MAX_PAGE_SIZE, () =>
          completions.messages(...idOf(exchange), { newestFirst: order === 'desc', after: start, limit }),
        );
        if (page === null) throw notFound(head.id, 'completion_id');
        const ids = page.data.map(({ index }) => messageId(head, index));
        const texts = page.data.map(({ message }, at) => shownMessage(ids[at] ?? '', message));
        exchange.json(200, listText(ids, texts, page.more));
      },
    },
  ];
}

const idOf = (exchange: Exchange): [organizationId: string, id: string] => [
  exchange.identity.organizationId,
  exchange.params['id'] ?? '',
];

/** Throws ApiError 404 chat_completion_not_found if `stored` is null. */
function found<T extends CompletionHead>(exchange: Exchange, stored: T | null): T {
  if (stored === null) throw notFound(idOf(exchange)[1], 'completion_id');
  exchange.annotate({ response_id: stored.id, model: stored.model });
  return stored;
}

const notFound = (id: string, param: string): ApiError =>
  apiError(
    'chat_completion_not_found',
    `No stored chat completion has the ID ${JSON.stringify(id.slice(0, 64))}.`,
    param,
  );

/** Parses query parameters of the form `metadata[key]=value`. */
function metadataFilter(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries(
    [...query].flatMap(([name, value]) => {
      const key = /^metadata\[(.*)\]$/s.exec(name)?.[1];
      return key === undefined ? [] : [[key, value]];
    }),
  );
}

const shown = ({ body, metadata }: StoredCompletion): string => withMetadata(body, metadata);

function listText(ids: readonly string[], entries: readonly string[], more: boolean): JsonText {
  const text = new JsonText().add('{"object":"list","data":[');
  for (const [index, entry] of entries.entries()) text.add(index === 0 ? entry : `,${entry}`);
  const [first = null] = ids;
  const last = ids.at(-1) ?? null;
  return text.add(
    `],"first_id":${JSON.stringify(first)},"last_id":${JSON.stringify(last)},"has_more":${String(more)}}`,
  );
}

const messageId = ({ id }: CompletionHead, index: number): string => `${id}-${index}`;

/**
 * Returns the message index from a message ID. Throws ApiError 404 item_not_found if the request has no such
 * message.
 */
function messageIndex(head: CompletionHead, after: string): number {
  const index = Number(/-(\d{1,9})$/.exec(after)?.[1] ?? NaN);
  if (messageId(head, index) !== after || index >= head.messages)
    throw apiError('item_not_found', 'after does not name a message of this chat completion.', 'after');
  return index;
}

/** Returns a stored message as JSON. As in OpenAI's API, content that is a list of parts is in `content_parts`. */
function shownMessage(id: string, message: string): string {
  const { content = null, ...rest } = JSON.parse(message) as Record<string, unknown>;
  const isList = Array.isArray(content);
  return JSON.stringify({
    ...rest,
    id,
    content: isList ? null : content,
    content_parts: isList ? content : null,
  });
}
