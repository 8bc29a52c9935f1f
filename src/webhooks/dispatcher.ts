// Sends webhooks. Several processes may run a dispatcher on the same store. A dispatcher claims a job for LEASE_MS
// before it sends it. If the process dies, another process claims the job after the lease. A failed attempt pauses the
// endpoint, for longer after each further failure, so that an unresponsive endpoint costs little. Primary thread only.
import type { SecretBox } from '../accounts/sealing/secret-box.js';
import type { Log, Telemetry } from '../telemetry/types.js';
import { isBatchId } from '../shared/ids.js';
import type { EventType } from '../shared/wire/webhooks.js';
import type { BatchStore } from '../storage/batch-store.js';
import type { ResponseStore } from '../storage/response-store.js';
import { postWebhook, type WebhookSettings } from '../usage/webhook.js';
import { batchEndEvent, endEvent } from './events.js';
import { secretsOf } from './secrets.js';
import { signedHeaders } from './signature.js';
import { CHECK_MS, type WebhookEvents } from './webhook-events.js';
import type { Endpoint, Job, WebhookStore } from './webhook-store.js';

/** How long a job is claimed. Must be much longer than an attempt, which takes at most MAX_TIMEOUT_MS. */
const LEASE_MS = 30_000;
const POLL_MS = 5_000;
/** Maximum number of jobs that run concurrently. */
const MAX_SENDING = 32;
/**
 * While this many of an organization's jobs are running, no more of them are claimed, so that its slow endpoints do not
 * delay other organizations. This is also the maximum number of jobs claimed together, so at most 2 *
 * MAX_OF_ORGANIZATION - 1 of an organization's jobs run concurrently.
 */
const MAX_OF_ORGANIZATION = 4;
const FIRST_PAUSE_MS = 5_000;
const PAUSE_FACTOR = 3;
const MAX_PAUSE_MS = 3_600_000;
const MAX_TIMEOUT_MS = 5_000;
const MAX_REASON = 300;
/** Age at which a waiting job is removed if its response or batch is not stored (never created, or deleted). */
const UNKNOWN_MS = 120_000;
/** Maximum interval between the dispatcher's checks whether a response or batch has ended. */
const MAX_CHECK_MS = 600_000;

export interface DispatcherDeps {
  store: WebhookStore;
  events: WebhookEvents;
  responses: Pick<ResponseStore, 'head'>;
  batches: Pick<BatchStore, 'get'>;
  box: Pick<SecretBox, 'open' | 'seal'>;
  settings: Pick<WebhookSettings, 'public_only' | 'timeout_ms'> & { retry_s: number };
  telemetry: Pick<Telemetry, 'webhookDelivered'> & { log: Pick<Log, 'warn' | 'error' | 'info'> };
  now: () => number;
}

export class Dispatcher {
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<void>>();
  /** Endpoints whose last attempt failed and to which this process is currently making another attempt. */
  readonly #probing = new Set<string>();
  /** Endpoints with previous secrets that cannot be decrypted. This is logged once. */
  readonly #unreadable = new Set<string>();
  /** Number of running jobs by organization. */
  readonly #runningOf = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  #claiming: Promise<void> | null = null;
  #again = false;

  constructor(private readonly deps: DispatcherDeps) {
    this.#timer = setInterval(() => this.wake(), POLL_MS).unref();
    this.wake();
  }

  /** Claims jobs that are due, up to the number of free delivery slots. */
  wake(): void {
    if (this.#closing.signal.aborted) return;
    if (this.#claiming !== null) {
      this.#again = true;
      return;
    }
    this.#claiming = this.#claim()
      .catch((err: unknown) => this.deps.telemetry.log.error({ err }, 'cannot read the webhooks that are due'))
      .finally(() => {
        this.#claiming = null;
        if (!this.#again) return;
        this.#again = false;
        this.wake();
      });
  }

  /** Aborts attempts in progress. Any process repeats them after the lease. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closing.abort();
    await this.#claiming;
    await Promise.all(this.#running);
  }

  async #claim(): Promise<void> {
    const room = Math.min(MAX_OF_ORGANIZATION, MAX_SENDING - this.#running.size);
    if (room <= 0) return; // the end of a job calls wake()
    const now = this.deps.now();
    const until = now + LEASE_MS;
    const busy = [...this.#runningOf].filter(([, jobs]) => jobs >= MAX_OF_ORGANIZATION).map(([id]) => id);
    const jobs = await this.deps.store.claim(now, until, room, busy);
    if (jobs.length === room) this.#again = true;
    for (const job of jobs) {
      const running = this.#run(job, until)
        .catch((err: unknown) => {
          if (!this.#closing.signal.aborted)
            this.deps.telemetry.log.error({ err, event: job.id }, 'cannot record the delivery of a webhook');
        })
        .finally(() => this.#ended(job.organizationId, running));
      this.#running.add(running);
      this.#runningOf.set(job.organizationId, (this.#runningOf.get(job.organizationId) ?? 0) + 1);
    }
  }

  #ended(organizationId: string, running: Promise<void>): void {
    const left = (this.#runningOf.get(organizationId) ?? 1) - 1;
    if (left > 0) this.#runningOf.set(organizationId, left);
    else this.#runningOf.delete(organizationId);
    this.#running.delete(running);
    if (this.#running.size === MAX_SENDING - 1 || left === MAX_OF_ORGANIZATION - 1) this.wake();
  }

  async #run(job: Job, until: number): Promise<void> {
    if (job.state === 'waiting') return this.#lookForEnd(job, until);
    const { store, now } = this.deps;
    const endpoint = await store.endpoint(job.organizationId, job.endpointId);
    if (endpoint === null) return store.settle(job.id, until, null);
    if (endpoint.disabled !== null)
      return this.#giveUp(job, until, endpoint, job.error ?? 'the endpoint is disabled', false);
    if (endpoint.pausedUntil > now()) return store.settle(job.id, until, { ...job, dueAt: endpoint.pausedUntil });
    const attempt = { ...job, attempts: job.attempts + 1 };
    if (endpoint.failures === 0) return this.#attempt(attempt, until, endpoint);
    // One attempt shows whether a failing endpoint responds again. More attempts would take up other endpoints' slots.
    if (this.#probing.has(endpoint.id)) return store.settle(job.id, until, { ...job, dueAt: now() + FIRST_PAUSE_MS });
    this.#probing.add(endpoint.id);
    try {
      // Pausing the endpoint for the duration of the attempt prevents other processes from making an attempt as well.
      const probeEnd = now() + MAX_TIMEOUT_MS;
      const probed = await store.changeEndpoint(job.organizationId, endpoint.id, (before) =>
        before.pausedUntil > now() ? null : { ...before, pausedUntil: probeEnd },
      );
      if (probed === null) return await store.settle(job.id, until, { ...job, dueAt: probeEnd });
      await this.#attempt(attempt, until, probed);
    } finally {
      this.#probing.delete(endpoint.id);
    }
  }

  async #lookForEnd(job: Job, until: number): Promise<void> {
    const { store, events, now } = this.deps;
    const end = await this.#endOf(job);
    const age = now() - job.createdAt;
    if (end === null && age > UNKNOWN_MS) return store.settle(job.id, until, null);
    const type = end?.type ?? null;
    if (type !== null) return events.notify(job.organizationId, { type, data: { id: job.id } }, job.id);
    const next = Math.min(MAX_CHECK_MS, Math.max(CHECK_MS, Math.round(age / 2))); // stored times are integers
    await store.settle(job.id, until, { ...job, dueAt: now() + next });
  }

  /** Resolves to null if the response or batch is not stored. `type`: null if it has not ended. */
  async #endOf({ organizationId, id }: Job): Promise<{ type: EventType | null } | null> {
    const { responses, batches } = this.deps;
    if (isBatchId(id)) {
      const batch = await batches.get(organizationId, id);
      return batch && { type: batchEndEvent(batch) };
    }
    const head = await responses.head(organizationId, id);
    return head && { type: endEvent(head.status) };
  }

  async #attempt(job: Job, until: number, endpoint: Endpoint): Promise<void> {
    const { store, telemetry, settings, now } = this.deps;
    const { organizationId, id } = endpoint;
    try {
      await this.#send(job, endpoint);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const reason = (error instanceof Error ? error.message : String(error)).slice(0, MAX_REASON);
      // Concurrent failures count as one. If the endpoint was paused since this attempt started, another attempt has
      // failed.
      const failed = await store.changeEndpoint(organizationId, id, (before) =>
        before.pausedUntil > now() && before.pausedUntil !== endpoint.pausedUntil
          ? before
          : { ...before, failures: before.failures + 1, pausedUntil: now() + pauseMs(before.failures + 1) },
      );
      const dueAt = failed?.pausedUntil ?? now();
      if (dueAt > job.createdAt + settings.retry_s * 1_000) return this.#giveUp(job, until, endpoint, reason, true);
      await store.settle(job.id, until, { ...job, error: reason, dueAt });
      telemetry.webhookDelivered('retried');
      return;
    }
    await store.settle(job.id, until, { ...job, state: 'delivered', error: null, dueAt: null });
    await store.changeEndpoint(organizationId, id, (before) => ({
      ...before,
      failures: 0,
      pausedUntil: 0,
      deliveredAt: now(),
    }));
    telemetry.webhookDelivered('delivered');
  }

  async #send({ eventId, body }: Job, endpoint: Endpoint): Promise<void> {
    const { box, store, settings, telemetry, now } = this.deps;
    const onUnreadable = (): void => {
      if (this.#unreadable.has(endpoint.id)) return;
      this.#unreadable.add(endpoint.id);
      telemetry.log.warn(
        { organization: endpoint.organizationId, endpoint: endpoint.id },
        'cannot decrypt a previous webhook secret: its key is not in secrets.signing_keys; requests are not signed with it',
      );
    };
    const secrets = await secretsOf(endpoint, { box, store, now: now(), onUnreadable });
    const status = await postWebhook(endpoint.url, body, {
      headers: signedHeaders(secrets, eventId, Math.floor(now() / 1_000), body),
      settings: { ...settings, timeout_ms: Math.min(settings.timeout_ms, MAX_TIMEOUT_MS) },
      signal: this.#closing.signal,
    });
    if (status < 200 || status >= 300) throw new Error(`the receiver responded with status ${status}`);
  }

  /** Fails a job. `disables`: also disable the endpoint, unless it has accepted an event since the job was created. */
  async #giveUp(job: Job, until: number, endpoint: Endpoint, reason: string, disables: boolean): Promise<void> {
    const { store, telemetry, settings } = this.deps;
    await store.settle(job.id, until, { ...job, state: 'failed', error: reason, dueAt: null });
    telemetry.webhookDelivered('failed');
    const { organizationId, id } = endpoint;
    if (!disables) return;
    const disabled = await store.changeEndpoint(organizationId, id, (before) =>
      before.disabled !== null || (before.deliveredAt ?? 0) >= job.createdAt
        ? null
        : {
            ...before,
            disabled: `No event was accepted for ${settings.retry_s} seconds (webhooks.retry_s). The last error: ${reason}`,
          },
    );
    const fields = { organization: organizationId, endpoint: id, event: job.eventId, reason };
    if (disabled === null) telemetry.log.warn(fields, 'webhook not delivered: giving up');
    else telemetry.log.warn(fields, 'webhook endpoint disabled');
  }
}

/** Returns the delay after this many consecutive failures: 5 s, 15 s, 45 s, … up to an hour. */
export const pauseMs = (failures: number): number =>
  Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * PAUSE_FACTOR ** Math.max(0, failures - 1));
