// Stores the events that webhooks report. An event is stored before it is sent, so that it is sent even if the process
// crashes. When a background response or a batch is created, a waiting job is stored. When the response or batch has
// ended, the dispatcher replaces the waiting job with the deliveries of the event in one transaction, so that there is
// one event per response or batch. Event-loop thread only.
import type { ThreadBus } from '../shared/bus.js';
import { newEventId } from '../shared/ids.js';
import type { EventType } from '../shared/wire/webhooks.js';
import { messageText, type WebhookEvent } from './events.js';
import type { Endpoint, Job, WebhookStore } from './webhook-store.js';

/** Time after which the dispatcher checks whether a response or batch has ended without a call of ended(). */
export const CHECK_MS = 20_000;

export class WebhookEvents {
  #onDue: () => void = () => undefined;

  constructor(
    private readonly store: WebhookStore,
    private readonly bus: ThreadBus,
    private readonly now: () => number,
  ) {}

  /** Calls `listener` when a thread of this process has made webhooks due. Primary thread only. */
  onDue(listener: () => void): () => void {
    this.#onDue = listener;
    return this.bus.on('webhooks.due', listener);
  }

  /** Stores a waiting job for a background response. Must be called before the response's ID is sent to a client. */
  async expect(organizationId: string, responseId: string): Promise<void> {
    const endpoints = await this.store.endpoints(organizationId);
    if (!endpoints.some((one) => one.disabled === null && one.events.some((type) => type.startsWith('response.'))))
      return;
    await this.#await(organizationId, responseId);
  }

  /**
   * Stores a waiting job for a batch, even if the organization has no endpoint yet: a batch may run for hours, and an
   * endpoint may be added in the meantime. Must be called before the batch's ID is sent to a client.
   */
  expectBatch(organizationId: string, batchId: string): Promise<void> {
    return this.#await(organizationId, batchId);
  }

  async #await(organizationId: string, id: string): Promise<void> {
    const now = this.now();
    await this.store.add([
      {
        id,
        organizationId,
        endpointId: '',
        eventId: '',
        type: null,
        body: '',
        state: 'waiting',
        createdAt: now,
        dueAt: now + CHECK_MS,
        attempts: 0,
        error: null,
      },
    ]);
  }

  /**
   * Must be called when the end of a response or batch has been stored. If this call fails, the dispatcher detects the
   * end later.
   */
  async ended(id: string): Promise<void> {
    await this.store.makeDue(id, this.now());
    this.#announce();
  }

  /** Stores an event for the organization's endpoints. `replaces`: see WebhookStore.add(). */
  async notify(organizationId: string, event: WebhookEvent, replaces?: string): Promise<void> {
    const now = this.now();
    const eventId = newEventId();
    const body = messageText(eventId, now, event);
    const wanting = (await this.store.endpoints(organizationId)).filter((one) => wants(one, event.type));
    const jobs = wanting.map(
      ({ id: endpointId }): Job => ({
        id: `${eventId}.${endpointId}`,
        organizationId,
        endpointId,
        eventId,
        type: event.type,
        body,
        state: 'pending',
        createdAt: now,
        dueAt: now,
        attempts: 0,
        error: null,
      }),
    );
    if (jobs.length > 0 || replaces !== undefined) await this.store.add(jobs, replaces);
    if (jobs.length > 0) this.#announce();
  }

  #announce(): void {
    this.#onDue();
    this.bus.publish('webhooks.due', {});
  }
}

const wants = ({ disabled, events }: Endpoint, type: EventType): boolean => disabled === null && events.includes(type);
