// Storage port for webhook endpoints and their deliveries (see docs/internals/storage.md for the implementations).
// Every write resolves when it is durable. Times are in milliseconds since 1970.
import type { EventType } from '../shared/wire/webhooks.js';

export interface Endpoint {
  readonly id: string;
  readonly organizationId: string;
  readonly url: string;
  readonly events: readonly EventType[];
  /** The signing secret, encrypted by SecretBox for the purpose 'webhook secret' and this endpoint's ID. */
  readonly sealedSecret: string;
  /** Replaced secrets that still sign requests, newest first. */
  readonly previousSecrets?: readonly PreviousSecret[] | undefined;
  readonly createdAt: number;
  /** Why the endpoint is disabled; null if it is enabled. */
  readonly disabled: string | null;
  /** Consecutive failures. Concurrent failed attempts count as one. */
  readonly failures: number;
  /** No requests are sent to the endpoint before this time. */
  readonly pausedUntil: number;
  readonly deliveredAt: number | null;
}

/** A replaced signing secret, encrypted as `sealedSecret`. Requests are signed with it until this time. */
export interface PreviousSecret {
  readonly sealed: string;
  readonly until: number;
}

export type JobState = 'waiting' | 'pending' | 'delivered' | 'failed';

/** The delivery of one event to one endpoint, or a waiting job: a response or batch whose end is not yet reported. */
export interface Job {
  /** Event ID and endpoint ID, separated by a period. For a waiting job: ID of the response or batch. */
  readonly id: string;
  readonly organizationId: string;
  /** '' for a waiting job. */
  readonly endpointId: string;
  /** ID of the event; '' for a waiting job. Event IDs sort by time. */
  readonly eventId: string;
  readonly type: EventType | null;
  /** The message as JSON. '' for a waiting job. */
  readonly body: string;
  /** waiting: the end of the response or batch is not yet reported. failed: the server no longer tries to deliver. */
  readonly state: JobState;
  readonly createdAt: number;
  /**
   * Time of the next attempt or check; while the job is claimed, end of the lease; null if no further attempt will
   * be made.
   */
  readonly dueAt: number | null;
  readonly attempts: number;
  /**
   * Why the last attempt failed, or why no attempt was made. Null if there was no failure or the event was
   * delivered.
   */
  readonly error: string | null;
}

export interface WebhookStore {
  /** Resolves to false if the organization already has `max` endpoints. */
  addEndpoint(endpoint: Endpoint, max: number): Promise<boolean>;
  /** Lists the endpoints, oldest first. */
  endpoints(organizationId: string): Promise<Endpoint[]>;
  endpoint(organizationId: string, id: string): Promise<Endpoint | null>;
  /**
   * Replaces an endpoint with the result of `change`, which returns null for no change. Resolves to the new
   * endpoint or null.
   */
  changeEndpoint(
    organizationId: string,
    id: string,
    change: (before: Endpoint) => Endpoint | null,
  ): Promise<Endpoint | null>;
  /** Removes an endpoint and its deliveries. Resolves to false if the endpoint is unknown. */
  removeEndpoint(organizationId: string, id: string): Promise<boolean>;
  /**
   * Adds jobs of one organization. `replaces`: ID of a waiting job, which is removed in the same transaction; if it
   * does not exist, no jobs are added. A delivery to an endpoint that already has MAX_PENDING jobs is stored as failed.
   */
  add(jobs: readonly Job[], replaces?: string): Promise<void>;
  /** Makes a job due at time `now`. Does nothing if the job is unknown or has no next attempt. */
  makeDue(id: string, now: number): Promise<void>;
  /**
   * Claims up to `limit` jobs that are due: sets their `dueAt` to `until`, so that no process claims them before then.
   * `except`: organizations whose jobs are not claimed.
   */
  claim(now: number, until: number, limit: number, except?: readonly string[]): Promise<Job[]>;
  /** Replaces a job that was claimed until `until`, unless it was claimed again. `job`: null removes the job. */
  settle(id: string, until: number, job: Job | null): Promise<void>;
  /** Lists deliveries to an endpoint, newest first. `before`: event ID; only older events are listed; null = all. */
  deliveries(organizationId: string, endpointId: string, limit: number, before?: string | null): Promise<Job[]>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases delivered and failed deliveries of events before this time. Resolves to their number. */
  sweep(before: number): Promise<number>;
}

/**
 * Maximum number of pending deliveries to one endpoint. Further deliveries fail. The limit is per endpoint, so that an
 * unresponsive endpoint does not affect the organization's other endpoints.
 */
export const MAX_PENDING = 1_000;

/**
 * Marks the deliveries beyond the limit as failed. Waiting jobs are always kept, because other limits bound the number
 * of unfinished responses and batches. `pending`: the current number of pending deliveries by endpoint, at least for
 * the endpoints of `jobs`.
 */
export function withinLimit(jobs: readonly Job[], pending: ReadonlyMap<string, number>): Job[] {
  const counts = new Map(pending);
  return jobs.map((job) => {
    if (job.state === 'waiting') return job;
    const count = counts.get(job.endpointId) ?? 0;
    counts.set(job.endpointId, count + 1);
    return count < MAX_PENDING
      ? job
      : { ...job, state: 'failed', dueAt: null, error: `more than ${MAX_PENDING} deliveries are pending` };
  });
}
