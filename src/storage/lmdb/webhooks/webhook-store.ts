// Implements WebhookStore on the tables of a Store. Table, key, value:
//
//   webhook-endpoints   [organization, id]            the endpoint
//   webhook-jobs        id                            the job; IDs of deliveries sort by time
//   webhook-due         [due, id]                     empty; finds jobs by the time of their next attempt
//   webhook-pending     [organization, id]            empty; finds an organization's jobs that have a next attempt
//   webhook-deliveries  [organization, endpoint, id]  empty; finds the deliveries to an endpoint

import type { Key, Store, Table } from '../../store.js';
import { withinLimit } from '../../../webhooks/webhook-store.js';
import type { Endpoint, Job, WebhookStore } from '../../../webhooks/webhook-store.js';

const ERASED_AT_ONCE = 500;
// Sorts after every number and every string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';

export class LmdbWebhookStore implements WebhookStore {
  readonly #endpoints: Table<Endpoint>;
  readonly #jobs: Table<Job>;
  readonly #due: Table<[]>;
  readonly #pending: Table<[]>;
  readonly #deliveries: Table<[]>;

  constructor(private readonly store: Store) {
    this.#endpoints = store.table('webhook-endpoints');
    this.#jobs = store.table('webhook-jobs');
    this.#due = store.table('webhook-due');
    this.#pending = store.table('webhook-pending');
    this.#deliveries = store.table('webhook-deliveries');
  }

  addEndpoint(endpoint: Endpoint, max: number): Promise<boolean> {
    const { organizationId, id } = endpoint;
    return this.store.transaction(() => {
      if ([...this.#endpoints.keys({ ...below(organizationId), limit: max })].length >= max) return false;
      void this.#endpoints.put([organizationId, id], endpoint);
      return true;
    });
  }

  async endpoints(organizationId: string): Promise<Endpoint[]> {
    this.store.refresh();
    return [...this.#endpoints.range(below(organizationId))].map(({ value }) => value).sort(byAge);
  }

  async endpoint(organizationId: string, id: string): Promise<Endpoint | null> {
    this.store.refresh();
    return isId(id) ? (this.#endpoints.get([organizationId, id]) ?? null) : null;
  }

  async changeEndpoint(
    organizationId: string,
    id: string,
    change: (before: Endpoint) => Endpoint | null,
  ): Promise<Endpoint | null> {
    if (!isId(id)) return null;
    return this.store.transaction(() => {
      const before = this.#endpoints.get([organizationId, id]);
      const after = before === undefined ? null : change(before);
      if (after !== null) void this.#endpoints.put([organizationId, id], after);
      return after;
    });
  }

  async removeEndpoint(organizationId: string, id: string): Promise<boolean> {
    if (!isId(id)) return false;
    const isFound = await this.store.transaction(() => {
      if (this.#endpoints.get([organizationId, id]) === undefined) return false;
      void this.#endpoints.remove([organizationId, id]);
      return true;
    });
    if (isFound) await this.#eraseAll(this.#deliveries, below(organizationId, id), 2);
    return isFound;
  }

  add(jobs: readonly Job[], replaces?: string): Promise<void> {
    return this.store.transaction(() => {
      if (replaces !== undefined && !this.#put(replaces, null)) return;
      const [first] = jobs;
      if (first === undefined) return;
      // Waiting jobs are not limited, because they are added for many responses and counting them requires a scan.
      const isLimited = jobs.some(({ state }) => state !== 'waiting');
      const pending = isLimited ? this.#pendingOf(first.organizationId) : new Map<string, number>();
      for (const job of withinLimit(jobs, pending)) this.#put(job.id, job);
    });
  }

  /** Returns the number of pending deliveries by endpoint. The IDs of deliveries end with the ID of their endpoint. */
  #pendingOf(organizationId: string): Map<string, number> {
    const counts = new Map<string, number>();
    for (const key of this.#pending.keys(below(organizationId))) {
      const [, endpointId] = ((key as [string, string])[1] ?? '').split('.');
      if (endpointId !== undefined) counts.set(endpointId, (counts.get(endpointId) ?? 0) + 1);
    }
    return counts;
  }

  makeDue(id: string, now: number): Promise<void> {
    return this.store.transaction(() => {
      const job = this.#jobs.get(id);
      if (job?.dueAt != null) this.#put(id, { ...job, dueAt: now });
    });
  }

  async claim(now: number, until: number, limit: number, except: readonly string[] = []): Promise<Job[]> {
    this.store.refresh();
    if (this.#dueJobs(now, 1, except).length === 0) return [];
    return this.store.transaction(() => {
      const jobs = this.#dueJobs(now, limit, except);
      for (const job of jobs) this.#put(job.id, { ...job, dueAt: until });
      return jobs;
    });
  }

  #dueJobs(now: number, limit: number, except: readonly string[]): Job[] {
    const jobs: Job[] = [];
    for (const key of this.#due.keys({ from: [0], to: [now, AFTER_ALL] })) {
      const job = this.#jobs.get((key as [number, string])[1]);
      if (job === undefined || except.includes(job.organizationId)) continue;
      if (jobs.push(job) === limit) break;
    }
    return jobs;
  }

  settle(id: string, until: number, job: Job | null): Promise<void> {
    return this.store.transaction(() => {
      if (this.#jobs.get(id)?.dueAt === until) this.#put(id, job);
    });
  }

  async deliveries(
    organizationId: string,
    endpointId: string,
    limit: number,
    before: string | null = null,
  ): Promise<Job[]> {
    if (!isId(endpointId) || (before !== null && !isId(before))) return [];
    this.store.refresh();
    const { from, to } = below(organizationId, endpointId);
    // `before` is an event ID. It sorts before the IDs of the event's deliveries, which are thus excluded.
    const start = before === null ? to : [organizationId, endpointId, before];
    return [...this.#deliveries.keys({ from: start, to: from, reverse: true, limit })].flatMap(
      (key) => this.#jobs.get((key as [string, string, string])[2]) ?? [],
    );
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    await this.store.transaction(() => {
      for (const key of [...this.#endpoints.keys(below(organizationId))]) void this.#endpoints.remove(key);
    });
    await this.#eraseAll(this.#deliveries, below(organizationId), 2);
    await this.#eraseAll(this.#pending, below(organizationId), 1);
  }

  async sweep(before: number): Promise<number> {
    const to = `evt_${before.toString(16).padStart(12, '0')}`;
    let erased = 0;
    for (let from = 'evt_'; ; ) {
      const rows = [...this.#jobs.range({ from, to, limit: ERASED_AT_ONCE })];
      await this.store.transaction(() => {
        for (const { key, value } of rows) {
          if (value.dueAt !== null) continue;
          this.#put(key as string, null);
          erased++;
        }
      });
      if (rows.length < ERASED_AT_ONCE) return erased;
      from = `${rows.at(-1)?.key as string}.`;
    }
  }

  /** Erases a range of keys and the jobs to which they refer. `at`: index of the job's ID in a key. */
  async #eraseAll(table: Table<[]>, range: { from: Key; to: Key }, at: number): Promise<void> {
    for (;;) {
      const keys = [...table.keys({ ...range, limit: ERASED_AT_ONCE })];
      if (keys.length === 0) return;
      await this.store.transaction(() => {
        for (const key of keys) {
          this.#put((key as string[])[at] as string, null);
          void table.remove(key);
        }
      });
    }
  }

  /**
   * Stores a job, or removes it if `job` is null. Returns whether it existed before. Must be called within a
   * transaction.
   */
  #put(id: string, job: Job | null): boolean {
    const before = this.#jobs.get(id);
    if (before?.dueAt != null) {
      void this.#due.remove([before.dueAt, id]);
      if (job?.dueAt == null) void this.#pending.remove([before.organizationId, id]);
    }
    if (job === null) {
      void this.#jobs.remove(id);
      if (before !== undefined) void this.#deliveries.remove([before.organizationId, before.endpointId, id]);
      return before !== undefined;
    }
    void this.#jobs.put(id, job);
    if (job.dueAt !== null) {
      void this.#due.put([job.dueAt, id], []);
      void this.#pending.put([job.organizationId, id], []);
    }
    if (before === undefined && job.endpointId !== '')
      void this.#deliveries.put([job.organizationId, job.endpointId, id], []);
    return before !== undefined;
  }
}

/** Longer strings could exceed the maximum key length. */
const isId = (id: string): boolean => id.length <= 64;

const byAge = (a: Endpoint, b: Endpoint): number => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1);

const below = (...start: string[]): { from: Key; to: Key } => ({ from: start, to: [...start, AFTER_ALL] });
