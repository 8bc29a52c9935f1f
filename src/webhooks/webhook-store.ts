// Storage port for webhook endpoints and their deliveries (see docs/internals/storage.md for the implementations). Every
// write resolves when it is durable. Times are in milliseconds since 1970.
import type { EventType } from '../shared/wire/webhooks.js';

export interface Endpoint {
  readonly id: string;
  readonly organizationId: string;
  readonly url: string;
  readonly events: readonly EventType[];
  /** The signing secret, sealed for the purpose 'webhook secret' and this endpoint. */
  readonly sealedSecret: string;
  readonly createdAt: number;
  /** Why nothing is sent to this endpoint. Null: it is enabled. */
  readonly disabled: string | null;
  /** Number of attempts that have failed since the last delivery. */
  readonly failures: number;
  /** No attempt is made before this time. */
  readonly pausedUntil: number;
  readonly deliveredAt: number | null;
}

export type JobState = 'waiting' | 'pending' | 'delivered' | 'failed';

/** The delivery of one event to one endpoint, or a response or batch that has not ended. */
export interface Job {
  /** ID of the event and of the endpoint. If waiting: ID of the response or batch. */
  readonly id: string;
  readonly organizationId: string;
  /** '' if waiting. */
  readonly endpointId: string;
  /** ID of the event, which starts with the time. '' if waiting. */
  readonly eventId: string;
  readonly type: EventType | null;
  /** The message as JSON. '' if waiting. */
  readonly body: string;
  /** waiting: the response or batch has not ended. failed: the server has given up. */
  readonly state: JobState;
  readonly createdAt: number;
  /** Time of the next attempt. Null: there is none. */
  readonly dueAt: number | null;
  readonly attempts: number;
  /** Why the last attempt failed. */
  readonly error: string | null;
}

export interface WebhookStore {
  /** Resolves to false if the organization already has `max` endpoints. */
  addEndpoint(endpoint: Endpoint, max: number): Promise<boolean>;
  /** Oldest first. */
  endpoints(organizationId: string): Promise<Endpoint[]>;
  endpoint(organizationId: string, id: string): Promise<Endpoint | null>;
  /** Replaces the endpoint by the result of `change`, unless that is null. Resolves to the new endpoint or null. */
  changeEndpoint(
    organizationId: string,
    id: string,
    change: (before: Endpoint) => Endpoint | null,
  ): Promise<Endpoint | null>;
  /** Also removes its deliveries. Resolves to false if it is unknown. */
  removeEndpoint(organizationId: string, id: string): Promise<boolean>;
  /**
   * Adds jobs. `replaces`: ID of a waiting job that is removed; if it does not exist any more, nothing is added. If the
   * organization already has MAX_PENDING jobs, further deliveries are stored as failed.
   */
  add(jobs: readonly Job[], replaces?: string): Promise<void>;
  /** Makes a waiting job due now. Does nothing if there is none. */
  makeDue(id: string, now: number): Promise<void>;
  /**
   * Takes up to `limit` jobs that are due, and postpones them until `until`, so that no other process claims them. `except`:
   * organizations whose jobs are not taken.
   */
  claim(now: number, until: number, limit: number, except?: readonly string[]): Promise<Job[]>;
  /** Replaces a job that was claimed until `until`. Does nothing if it has been claimed again. Null: removes the job. */
  settle(id: string, until: number, job: Job | null): Promise<void>;
  /** The deliveries to an endpoint, newest first. `before`: only those of events with a lower ID. Null: all. */
  deliveries(organizationId: string, endpointId: string, limit: number, before?: string | null): Promise<Job[]>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases finished deliveries of events before this time. Resolves to their number. */
  sweep(before: number): Promise<number>;
}

/** Number of waiting and pending jobs of an organization beyond which deliveries fail. */
export const MAX_PENDING = 1_000;

/**
 * Stores the deliveries beyond the limit as failed. Waiting jobs are always added: admission limits the number of
 * responses that have not ended. `pending`: number of jobs that the organization already has.
 */
export const withinLimit = (jobs: readonly Job[], pending: number): Job[] =>
  jobs.map((job, at) =>
    pending + at < MAX_PENDING || job.state === 'waiting'
      ? job
      : { ...job, state: 'failed', dueAt: null, error: `more than ${MAX_PENDING} deliveries are pending` },
  );
