// Routes …/webhooks: an organization's webhook endpoints and their deliveries. The signing secret is returned only
// once, when an endpoint is created.

import { z } from 'zod';
import type { AuditLog } from '../../accounts/audit.js';
import type { SecretBox } from '../../accounts/sealing/secret-box.js';
import type { Config } from '../../config/settings.js';
import { apiError } from '../../shared/errors.js';
import { isEventId, newAccountId } from '../../shared/ids.js';
import type { ListPage } from '../../shared/wire/list.js';
import {
  EVENT_TYPES,
  type CreatedWebhook,
  type WebhookDelivery,
  type WebhookObject,
} from '../../shared/wire/webhooks.js';
import type { Route } from '../../http/exchange.js';
import { isInternal } from '../../usage/webhook.js';
import type { WebhookEvent } from '../../webhooks/events.js';
import { newWebhookSecret } from '../../webhooks/signature.js';
import type { Endpoint, Job, WebhookStore } from '../../webhooks/webhook-store.js';
import { webhookUrlField } from './fields.js';
import type { Guard } from './guard.js';
import { readPage } from './paging.js';

const LIST = '/organizations/:org/webhooks';
const ONE = `${LIST}/:id`;
const DISABLED = 'disabled by an admin';

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

export interface WebhookDeps {
  guard: Guard;
  webhooks: WebhookStore;
  box: Pick<SecretBox, 'seal'>;
  audit: AuditLog;
  config: Pick<Config, 'webhooks'>;
  now: () => number;
}

export function webhookRoutes({ guard, webhooks, box, audit, config, now }: WebhookDeps): Route[] {
  const checkUrl = (url: string | null | undefined): void => {
    if (url != null && config.webhooks.public_only && isInternal(url))
      throw apiError(
        'invalid_value',
        '`url` must be a public internet address. The operator can allow other addresses with `webhooks.public_only`.',
        'url',
      );
  };
  return [
    guard.member('admin', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const data = (await webhooks.endpoints(organization.id)).map(shown);
        exchange.json(200, { object: 'list', data, has_more: false, next: null });
      },
    }),

    guard.member('admin', {
      method: 'POST',
      path: LIST,
      body: createBody,
      handler: async ({ exchange, organization, actor, body }) => {
        checkUrl(body.url);
        const id = newAccountId('wh');
        const secret = newWebhookSecret();
        const endpoint: Endpoint = {
          id,
          organizationId: organization.id,
          url: body.url,
          events: body.events ?? EVENT_TYPES,
          sealedSecret: box.seal('webhook secret', id, secret),
          createdAt: now(),
          disabled: null,
          failures: 0,
          pausedUntil: 0,
          deliveredAt: null,
        };
        const { max_endpoints: max } = config.webhooks;
        if (!(await webhooks.addEndpoint(endpoint, max)))
          throw apiError(
            'too_many_entries',
            `An organization may have at most ${max} webhook endpoints (\`webhooks.max_endpoints\`).`,
          );
        await audit.note(organization.id, actor, 'webhook.created', id, { url: body.url });
        const created: CreatedWebhook = { ...shown(endpoint), secret };
        exchange.json(200, created);
      },
    }),

    guard.member('admin', {
      method: 'PATCH',
      path: ONE,
      body: changeBody,
      handler: async ({ exchange, organization, actor, body: { url, events, enabled } }) => {
        checkUrl(url);
        const id = exchange.params['id'] as string;
        const changed = await webhooks.changeEndpoint(organization.id, id, (before) => ({
          ...before,
          url: url ?? before.url,
          events: events ?? before.events,
          // The old URL caused the failures and the pause, so a new URL starts without them.
          ...(url == null || url === before.url ? {} : { failures: 0, pausedUntil: 0 }),
          ...(enabled === true ? { disabled: null, failures: 0, pausedUntil: 0 } : {}),
          ...(enabled === false ? { disabled: before.disabled ?? DISABLED } : {}),
        }));
        const endpoint = known(changed);
        await audit.note(organization.id, actor, 'webhook.changed', id, {
          ...(url == null ? {} : { url }),
          ...(events == null ? {} : { events }),
          ...(enabled == null ? {} : { enabled }),
        });
        exchange.json(200, shown(endpoint));
      },
    }),

    guard.member('admin', {
      method: 'DELETE',
      path: ONE,
      handler: async ({ exchange, organization, actor }) => {
        const id = exchange.params['id'] as string;
        if (!(await webhooks.removeEndpoint(organization.id, id))) known(null);
        await audit.note(organization.id, actor, 'webhook.deleted', id);
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
        const data = found.slice(0, limit).map(shownDelivery);
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

const time = (ms: number): string => new Date(ms).toISOString();

const shown = ({ id, url, events, createdAt, disabled, deliveredAt }: Endpoint): WebhookObject => ({
  id,
  url,
  events,
  created_at: time(createdAt),
  disabled,
  last_delivered_at: deliveredAt === null ? null : time(deliveredAt),
});

function shownDelivery({ eventId, type, body, state, createdAt, attempts, error }: Job): WebhookDelivery {
  const { data } = JSON.parse(body) as WebhookEvent;
  return {
    event_id: eventId,
    type: type ?? '',
    object_id: data.id,
    state: state === 'waiting' ? 'pending' : state,
    created_at: time(createdAt),
    attempts,
    error,
  };
}
