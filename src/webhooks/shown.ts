// JSON of webhook endpoints and deliveries, for the dashboard API and the command line. No side effects.
import type { WebhookDelivery, WebhookObject } from '../shared/wire/webhooks.js';
import type { WebhookEvent } from './events.js';
import { previousSecrets } from './secrets.js';
import type { Endpoint, Job } from './webhook-store.js';

const time = (ms: number): string => new Date(ms).toISOString();

export function webhookObject(endpoint: Endpoint, now: number): WebhookObject {
  const { id, url, events, createdAt, disabled, deliveredAt } = endpoint;
  const previous = previousSecrets(endpoint, now).map(({ until }) => until);
  return {
    id,
    url,
    events,
    created_at: time(createdAt),
    disabled,
    last_delivered_at: deliveredAt === null ? null : time(deliveredAt),
    previous_secrets_until: previous.length === 0 ? null : time(Math.max(...previous)),
  };
}

export function webhookDelivery({ eventId, type, body, state, createdAt, attempts, error }: Job): WebhookDelivery {
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
