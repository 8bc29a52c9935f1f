// Records events that webhooks report. An event is stored before it is sent, so that it is sent even if the process
// crashes. A background response or a batch is recorded when it is created; the dispatcher looks for its end, and
// replaces the record with the event, so that each end is reported once. Event-loop thread only.
import type { ThreadBus } from '../shared/bus.js';
import { newEventId } from '../shared/ids.js';
import type { EventType } from '../shared/wire/webhooks.js';
import { messageText, type WebhookEvent } from './events.js';
import type { Endpoint, Job, WebhookStore } from './webhook-store.js';

/** Time until the dispatcher looks for the end of a response or batch whose end was not reported. */
export const CHECK_MS = 20_000;

export class WebhookEvents {
  #onDue: () => void = () => undefined;

  constructor(
    private readonly store: WebhookStore,
    private readonly bus: ThreadBus,
    private readonly now: () => number,
  ) {}

  /** `listener` is called when webhooks of this process are due. For the primary thread. */
  onDue(listener: () => void): () => void {
    this.#onDue = listener;
    return this.bus.on('webhooks.due', listener);
  }

  /** Stores that the end of a background response is an event. Call before its ID is sent to a client. */
  async expect(organizationId: string, responseId: string): Promise<void> {
    const endpoints = await this.store.endpoints(organizationId);
    if (!endpoints.some((one) => one.disabled === null && one.events.some((type) => type.startsWith('response.'))))
      return;
    await this.#await(organizationId, responseId);
  }

  /**
   * Stores that the end of a batch is an event. A batch may run for hours, so that its organization may still add an
   * endpoint. Call before the batch's ID is sent to a client.
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
   * Reports that the end of a response or batch is stored. A failure is harmless: the dispatcher looks for the end later.
   */
  async ended(id: string): Promise<void> {
    await this.store.makeDue(id, this.now());
    this.#announce();
  }

  /** Stores an event, to be sent to the organization's endpoints. Resolves when it is durable. */
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
