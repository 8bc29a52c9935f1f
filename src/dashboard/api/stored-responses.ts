// …/responses: an organization's stored responses, as a list without content, or a single response shown as a
// conversation.

import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import { JsonText } from '../../http/json-text.js';
import { removeResponse } from '../../protocol/responses/remove.js';
import type { ResponseStore, ResponseSummary } from '../../storage/response-store.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { StoredResponseObject } from '../../shared/wire/stored-responses.js';
import type { AuditLog } from '../../accounts/audit.js';
import type { BackgroundResponses } from '../../protocol/responses/background.js';
import { conversationOf } from './stored-conversation.js';
import { readPage } from './paging.js';
import type { Guard } from './guard.js';

const LIST = '/organizations/:org/responses';

export interface StoredResponseDeps {
  guard: Guard;
  responses: ResponseStore;
  background: BackgroundResponses;
  audit: AuditLog;
}

export function storedResponseRoutes({ guard, responses, background, audit }: StoredResponseDeps): Route[] {
  return [
    guard.member('admin', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        const page = await responses.list(organization.id, limit, after);
        if (page === null)
          throw apiError('invalid_query_parameter', 'after must be the `next` value of the previous page.', 'after');
        const list: ListPage<StoredResponseObject> = {
          object: 'list',
          data: page.data.map(summary),
          has_more: page.next !== null,
          next: page.next,
        };
        exchange.json(200, list);
      },
    }),

    // Reading another person's conversation adds an audit entry with the reader's name.
    guard.member('admin', {
      method: 'GET',
      path: `${LIST}/:id`,
      noted: true,
      handler: async ({ exchange, organization, actor }) => {
        const id = exchange.params['id'] as string;
        const shown = await exchange.enqueue(await responses.size(organization.id, id), async () => {
          const held = await responses.chain(organization.id, id);
          if (held === null) return null;
          try {
            // The conversation is serialized before the next read starts. Otherwise, several long conversations could
            // be in memory until their responses are written.
            return new JsonText().add(JSON.stringify(conversationOf(held.responses)));
          } finally {
            held.release();
          }
        });
        if (shown === null)
          throw apiError(
            'resource_not_found',
            'Stored response not found, or a response that it continues was deleted.',
            'id',
          );
        await audit.note(organization.id, actor, 'response.read', id);
        exchange.json(200, shown);
      },
    }),

    guard.member('admin', {
      method: 'DELETE',
      path: `${LIST}/:id`,
      handler: async ({ exchange, organization, actor }) => {
        const id = exchange.params['id'] as string;
        const record = await responses.head(organization.id, id);
        if (record === null || (await removeResponse(responses, background, record)) === null)
          throw apiError('resource_not_found', 'Stored response not found.', 'id');
        await audit.note(organization.id, actor, 'response.deleted', id);
        exchange.json(200, { id, object: 'response', deleted: true });
      },
    }),
  ];
}

const time = (seconds: number): string => new Date(seconds * 1000).toISOString();

function summary({ createdAt, expiresAt, ...rest }: ResponseSummary): StoredResponseObject {
  const { id, model, status, background, preview } = rest;
  return { id, model, status, background, created_at: time(createdAt), expires_at: time(expiresAt), preview };
}
