// The events that webhooks report, as OpenAI's clients read them. No side effects.
import type { EventType } from '../shared/wire/webhooks.js';
import type { Batch } from '../storage/batch-store.js';
import type { ResponseStatus } from '../storage/response-store.js';

/** An event. `id`: of the response or batch. */
export interface WebhookEvent {
  readonly type: EventType;
  readonly data: { readonly id: string };
}

export const messageText = (eventId: string, createdAt: number, { type, data }: WebhookEvent): string =>
  JSON.stringify({ id: eventId, object: 'event', created_at: Math.floor(createdAt / 1_000), type, data });

/** The event for a response with this status. Null: the response has not ended. */
export function endEvent(status: ResponseStatus): EventType | null {
  return status === 'queued' || status === 'in_progress' ? null : `response.${status}`;
}

/** The event for this batch. Null: the batch has not ended. */
export function batchEndEvent({ phase, ending }: Pick<Batch, 'phase' | 'ending'>): EventType | null {
  return phase === 'ended' && ending !== null ? `batch.${ending}` : null;
}
