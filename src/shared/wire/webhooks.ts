// JSON of webhook endpoints and their deliveries in the dashboard API.

export const EVENT_TYPES = [
  'response.completed',
  'response.failed',
  'response.cancelled',
  'response.incomplete',
  'batch.completed',
  'batch.failed',
  'batch.expired',
  'batch.cancelled',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export interface WebhookObject {
  readonly id: string;
  readonly url: string;
  readonly events: readonly EventType[];
  readonly created_at: string;
  /** Why no events are sent to this endpoint; null if it is enabled. */
  readonly disabled: string | null;
  readonly last_delivered_at: string | null;
  /** Time until which previous secrets also sign requests; null if only the current secret signs them. */
  readonly previous_secrets_until: string | null;
}

export interface CreatedWebhook extends WebhookObject {
  /** Only responses of this type contain the secret. */
  readonly secret: string;
}

export interface WebhookDelivery {
  readonly event_id: string;
  readonly type: string;
  /** ID of the response or batch. */
  readonly object_id: string;
  readonly state: 'pending' | 'delivered' | 'failed';
  readonly created_at: string;
  readonly attempts: number;
  /** Why the last attempt failed. */
  readonly error: string | null;
}
