// Routes …/conversations: list an organization's conversations, without their items, and delete a conversation.

import { apiError } from '../../shared/errors.js';
import { isConversationId } from '../../shared/ids.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { ConversationObject } from '../../shared/wire/stored-responses.js';
import type { Route } from '../../http/exchange.js';
import type { ConversationStore } from '../../storage/conversation-store.js';
import type { AuditLog } from '../../accounts/audit.js';
import { readPage } from './paging.js';
import type { Guard } from './guard.js';

const LIST = '/organizations/:org/conversations';

export interface DashboardConversationDeps {
  guard: Guard;
  conversations: Pick<ConversationStore, 'list' | 'delete'>;
  audit: AuditLog;
}

export function dashboardConversationRoutes({ guard, conversations, audit }: DashboardConversationDeps): Route[] {
  return [
    guard.member('admin', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        if (after !== null && !isConversationId(after))
          throw apiError('invalid_query_parameter', 'after must be the `next` value of the previous page.', 'after');
        const found = await conversations.list(organization.id, limit + 1, after);
        const data = found.slice(0, limit).map(
          ({ id, createdAt, count, metadata }): ConversationObject => ({
            id,
            created_at: new Date(createdAt * 1000).toISOString(),
            items: count,
            metadata,
          }),
        );
        const next = found.length > limit ? (data.at(-1)?.id ?? null) : null;
        const list: ListPage<ConversationObject> = { object: 'list', data, has_more: next !== null, next };
        exchange.json(200, list);
      },
    }),

    guard.member('admin', {
      method: 'DELETE',
      path: `${LIST}/:id`,
      handler: async ({ exchange, organization, actor }) => {
        const id = exchange.params['id'] as string;
        if (!(await conversations.delete(organization.id, id)))
          throw apiError('resource_not_found', 'Conversation not found.', 'id');
        await audit.note(organization.id, actor, 'conversation.deleted', id);
        exchange.json(200, { id, object: 'conversation.deleted', deleted: true });
      },
    }),
  ];
}
