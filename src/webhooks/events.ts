// The events that webhooks report, in OpenAI's format. No side effects.
import type { EventType } from '../shared/wire/webhooks.js';
import type { Batch } from '../storage/batch-store.js';
import type { ResponseStatus } from '../storage/response-store.js';

/** `data.id`: ID of the response or batch. */
export interface WebhookEvent {
  readonly type: EventType;
  readonly data: { readonly id: string };
}

export const messageText = (eventId: string, createdAt: number, { type, data }: WebhookEvent): string =>
  JSON.stringify({ id: eventId, object: 'event', created_at: Math.floor(createdAt / 1_000), type, data });

/** Returns the event type for a response with this status. Returns null if the response has not ended. */
export function endEvent(status: ResponseStatus): EventType | null {
  return status === 'queued' || status === 'in_progress' ? null : `response.${status}`;
}

/** Returns the event type for the end of a batch. Returns null if the batch has not ended. */
export function batchEndEvent({ phase, ending }: Pick<Batch, 'phase' | 'ending'>): EventType | null {
  return phase === 'ended' && ending !== null ? `batch.${ending}` : null;
}
