// Routes …/webhooks: an organization's webhook endpoints and their deliveries. The signing secret is returned only
// once, when it is created.

import { z } from 'zod';
import type { AuditLog } from '../../accounts/audit.js';
import type { SecretBox } from '../../accounts/sealing/secret-box.js';
import { DEFAULT_OVERLAP_S, MAX_OVERLAP_S } from '../../accounts/api-keys.js';
import type { Config } from '../../config/settings.js';
import { apiError } from '../../shared/errors.js';
import { isEventId } from '../../shared/ids.js';
import type { ListPage } from '../../shared/wire/list.js';
import { EVENT_TYPES, type CreatedWebhook, type WebhookDelivery } from '../../shared/wire/webhooks.js';
import type { Route } from '../../http/exchange.js';
import { WebhookEndpoints, type EndpointWithSecret } from '../../webhooks/endpoints.js';
import { webhookDelivery, webhookObject } from '../../webhooks/shown.js';
import type { WebhookStore } from '../../webhooks/webhook-store.js';
import { webhookUrlField } from './fields.js';
import type { Guard } from './guard.js';
import { readPage } from './paging.js';

const LIST = '/organizations/:org/webhooks';
const ONE = `${LIST}/:id`;

const eventsField = z
  .array(z.enum(EVENT_TYPES))
  .min(1)
  .max(100)
  .transform((types) => [...new Set(types)]);
/** If `events` is absent or null, the endpoint receives all events. */
const createBody = z.object({ url: webhookUrlField, events: eventsField.nullish() });
const changeBody = z.object({
  url: webhookUrlField.nullish(),
  events: eventsField.nullish(),
  enabled: z.boolean().nullish(),
});

const rotateBody = z.object({ overlap_seconds: z.number().int().min(0).max(MAX_OVERLAP_S).nullish() });

export interface WebhookDeps {
  guard: Guard;
  webhooks: WebhookStore;
  box: Pick<SecretBox, 'open' | 'seal'>;
  audit: AuditLog;
  config: Pick<Config, 'webhooks'>;
  now: () => number;
}

export function webhookRoutes({ guard, webhooks, box, audit, config, now }: WebhookDeps): Route[] {
  const endpoints = new WebhookEndpoints({ store: webhooks, box, audit, settings: config.webhooks, now });
  const withSecret = ({ endpoint, secret }: EndpointWithSecret): CreatedWebhook => ({
    ...webhookObject(endpoint, now()),
    secret,
  });
  return [
    guard.member('admin', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const data = (await webhooks.endpoints(organization.id)).map((endpoint) => webhookObject(endpoint, now()));
        exchange.json(200, { object: 'list', data, has_more: false, next: null });
      },
    }),

    guard.member('admin', {
      method: 'POST',
      path: LIST,
      body: createBody,
      handler: async ({ exchange, organization, actor, body: { url, events = null } }) =>
        exchange.json(200, withSecret(await endpoints.create(organization.id, { url, events }, actor))),
    }),

    guard.member('admin', {
      method: 'PATCH',
      path: ONE,
      body: changeBody,
      handler: async ({ exchange, organization, actor, body }) => {
        const changed = await endpoints.change(organization.id, exchange.params['id'] as string, body, actor);
        exchange.json(200, webhookObject(known(changed), now()));
      },
    }),

    guard.member('admin', {
      method: 'POST',
      path: `${ONE}/rotate`,
      body: rotateBody,
      handler: async ({ exchange, organization, actor, body }) => {
        const overlapS = body.overlap_seconds ?? DEFAULT_OVERLAP_S;
        const rotated = await endpoints.rotate(organization.id, exchange.params['id'] as string, overlapS, actor);
        exchange.json(200, withSecret(known(rotated)));
      },
    }),

    guard.member('admin', {
      method: 'DELETE',
      path: ONE,
      handler: async ({ exchange, organization, actor }) => {
        if (!(await endpoints.remove(organization.id, exchange.params['id'] as string, actor))) known(null);
        exchange.json(200, {});
      },
    }),

    guard.member('admin', {
      method: 'GET',
      path: `${ONE}/deliveries`,
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        if (after !== null && !isEventId(after))
          throw apiError('invalid_query_parameter', 'after must be the `next` value of the previous page.', 'after');
        const { id } = known(await webhooks.endpoint(organization.id, exchange.params['id'] as string));
        const found = await webhooks.deliveries(organization.id, id, limit + 1, after);
        const data = found.slice(0, limit).map(webhookDelivery);
        const next = found.length > limit ? (data.at(-1)?.event_id ?? null) : null;
        const list: ListPage<WebhookDelivery> = { object: 'list', data, has_more: next !== null, next };
        exchange.json(200, list);
      },
    }),
  ];
}

function known<T>(found: T | null): T {
  if (found === null) throw apiError('resource_not_found', 'Webhook endpoint not found.', 'id');
  return found;
}
