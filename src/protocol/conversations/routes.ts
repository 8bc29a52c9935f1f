// Routes under /v1/conversations: create, retrieve, update and delete a conversation, and add, list and delete its
// items. The requests do not count toward the generation rate limits. Event-loop thread only.
import type { z } from 'zod';
import { apiError, type ApiError } from '../../shared/errors.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { newConversationId } from '../../shared/ids.js';
import type { ConversationHead, ConversationStore } from '../../storage/conversation-store.js';
import { itemSize } from '../../storage/response-size.js';
import type { ItemPage, StoredItem } from '../../storage/response-store.js';
import { checkMetadata } from '../fields.js';
import type { ForeignThinking } from '../foreign-thinking.js';
import { nameIgnored } from '../ignored.js';
import { ineffectiveInConversations } from '../ineffective.js';
import { conversationNotFound } from '../responses/input-chain.js';
import { itemPage, readItemQuery } from '../responses/input-items.js';
import { readInclude } from '../responses/retrieve.js';
import { validated } from '../validation.js';
import { readItems } from './items.js';
import {
  conversationEnvelope,
  conversationItemsSchema,
  conversationSchema,
  conversationUpdateSchema,
  itemsEnvelope,
} from './schema.js';

const PATH = '/v1/conversations';

export interface ConversationDeps {
  conversations: ConversationStore;
  sealer: Sealer;
  foreignThinking?: ForeignThinking | undefined;
}

export function conversationRoutes(deps: ConversationDeps): Route[] {
  return [...ownRoutes(deps), ...itemRoutes(deps)];
}

function ownRoutes(deps: ConversationDeps): Route[] {
  const { conversations } = deps;
  return [
    {
      method: 'POST',
      path: PATH,
      scope: 'inference',
      bodyOptional: true,
      async handler(exchange) {
        const { organizationId } = exchange.identity;
        const { items, metadata } = body(exchange, conversationEnvelope, conversationSchema);
        const created = {
          id: newConversationId(),
          organizationId,
          createdAt: Math.floor(Date.now() / 1000),
          metadata: checkMetadata(metadata) ?? {},
        };
        await conversations.create(created, read(deps, exchange, items ?? []));
        exchange.json(200, shownHead(created));
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id`,
      scope: 'responses.read',
      async handler(exchange) {
        exchange.json(200, shownHead(found(exchange, await conversations.head(...idOf(exchange)))));
      },
    },
    {
      method: 'POST',
      path: `${PATH}/:id`,
      scope: 'inference',
      async handler(exchange) {
        const { metadata } = body(exchange, conversationUpdateSchema);
        if (metadata === undefined) throw apiError('missing_required_parameter', 'metadata is required.', 'metadata');
        const changed = await conversations.setMetadata(...idOf(exchange), checkMetadata(metadata) ?? {});
        exchange.json(200, shownHead(found(exchange, changed)));
      },
    },
    {
      method: 'DELETE',
      path: `${PATH}/:id`,
      scope: 'responses.delete',
      async handler(exchange) {
        const [organizationId, id] = idOf(exchange);
        if (!(await conversations.delete(organizationId, id))) throw notFound(exchange);
        exchange.json(200, { id, object: 'conversation.deleted', deleted: true });
      },
    },
  ];
}

function itemRoutes(deps: ConversationDeps): Route[] {
  const { conversations } = deps;
  return [
    {
      method: 'POST',
      path: `${PATH}/:id/items`,
      scope: 'inference',
      async handler(exchange) {
        const include = readInclude(exchange.query);
        const items = read(deps, exchange, body(exchange, itemsEnvelope, conversationItemsSchema).items);
        if (!(await conversations.append(...idOf(exchange), items))) throw notFound(exchange);
        sendPage(exchange, { items, more: false }, include);
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id/items`,
      scope: 'responses.read',
      async handler(exchange) {
        const include = readInclude(exchange.query);
        const { order, after, limit, imageUrls: images } = readItemQuery(exchange.query, include);
        const { size } = found(exchange, await conversations.head(...idOf(exchange)));
        const page = await exchange.enqueue(size, () =>
          conversations.page(...idOf(exchange), { newestFirst: order === 'desc', after, limit, images }),
        );
        if (page === 'no conversation') throw notFound(exchange);
        if (page === 'no item')
          throw apiError('item_not_found', 'after does not name an item of this conversation.', 'after');
        sendPage(exchange, page, include);
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id/items/:item`,
      scope: 'responses.read',
      async handler(exchange) {
        const include = readInclude(exchange.query);
        found(exchange, await conversations.head(...idOf(exchange)));
        const item = await conversations.item(...idOf(exchange), itemOf(exchange));
        if (item === null) throw itemNotFound(exchange);
        const [shown] = itemPage({ items: [item], more: false }, showsImages(include)).data;
        exchange.jsonEnqueued(itemSize(item.item), 200, shown);
      },
    },
    {
      method: 'DELETE',
      path: `${PATH}/:id/items/:item`,
      scope: 'responses.delete',
      async handler(exchange) {
        const head = found(exchange, await conversations.head(...idOf(exchange)));
        if (!(await conversations.removeItem(...idOf(exchange), itemOf(exchange)))) throw itemNotFound(exchange);
        exchange.json(200, shownHead(head));
      },
    },
  ];
}

/** Validates the request body against `envelope`. Reports fields that are not in `schema` as ignored. */
function body<T>(exchange: Exchange, envelope: z.ZodType<T>, schema: z.ZodType = envelope): T {
  const given = (exchange.body ?? {}) as Readonly<Record<string, unknown>>;
  const valid = validated(envelope, given);
  nameIgnored({ parameters: ineffectiveInConversations(schema, given) }, exchange);
  return valid;
}

function read(deps: ConversationDeps, exchange: Exchange, items: readonly unknown[]): StoredItem[] {
  const { organizationId } = exchange.identity;
  return readItems(items, { ...deps, organizationId, rejects: deps.foreignThinking === 'reject' });
}

function sendPage(exchange: Exchange, page: ItemPage, include: readonly string[]): void {
  const shown = itemPage(page, showsImages(include));
  exchange.jsonEnqueued(
    shown.data.reduce((sum, item) => sum + itemSize(item), 0),
    200,
    shown,
  );
}

const showsImages = (include: readonly string[]): boolean => include.includes('message.input_image.image_url');

const shownHead = ({ id, createdAt, metadata }: Pick<ConversationHead, 'id' | 'createdAt' | 'metadata'>): object => ({
  id,
  object: 'conversation',
  created_at: createdAt,
  metadata,
});

const idOf = (exchange: Exchange): [organizationId: string, id: string] => [
  exchange.identity.organizationId,
  exchange.params['id'] ?? '',
];
const itemOf = (exchange: Exchange): string => exchange.params['item'] ?? '';

/** Returns the conversation. Throws ApiError 404 conversation_not_found if it is null. */
function found(exchange: Exchange, head: ConversationHead | null): ConversationHead {
  if (head === null) throw notFound(exchange);
  return head;
}

const notFound = (exchange: Exchange): ApiError => conversationNotFound(idOf(exchange)[1], 'conversation_id');

const itemNotFound = (exchange: Exchange): ApiError =>
  apiError(
    'item_not_found',
    `This conversation has no item with id ${JSON.stringify(itemOf(exchange).slice(0, 64))}.`,
    'item_id',
  );
