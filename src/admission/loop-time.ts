// How much of an answering thread's time the requests of one organization may take to be read, checked and
// rendered: a share of every second, with some seconds' worth at once. Whether they end refused does not matter:
// what is refused takes the time too, and counts in no other limit. For one thread alone, whose time it is.
//
// A bucket is the time at which it will be full again, as in counters.ts; here it may be overdrawn, because what
// something takes is known afterwards.

import { performance } from 'node:perf_hooks';
import { apiError } from '../shared/errors.js';

/** Seconds' worth that a full bucket holds. */
const BURST_MS = 10_000;
/** Organizations looked at before those with full buckets are forgotten. */
const MANY = 1_024;

export class LoopTime {
  readonly #fullAt = new Map<string, number>();
  #lookAt = MANY;

  /** `msPerSecond` null: no limit. `now` in milliseconds, from whatever beginning. */
  constructor(
    private readonly msPerSecond: number | null,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Before something is begun. Throws ApiError 429 if the organization has used up its time. */
  check(organizationId: string): void {
    if (this.msPerSecond === null) return;
    const waitMs = this.#missing(organizationId, this.now()) - BURST_MS;
    if (waitMs < 0) return;
    throw apiError(
      'rpm_limit_exceeded',
      `Reading and checking this organization's large requests and stored conversations takes too much of the server's time; the limit is ${this.msPerSecond} ms per second.`,
      null,
      { retryAfterMs: Math.max(1, waitMs) },
    );
  }

  /** So much time has gone to something of the organization's. */
  charge(organizationId: string, ms: number): void {
    if (this.msPerSecond === null) return;
    const now = this.now();
    this.#fullAt.set(organizationId, now + this.#missing(organizationId, now) + (ms * 1000) / this.msPerSecond);
    if (this.#fullAt.size > this.#lookAt) this.#forgetFull(now);
  }

  /** Organizations something is remembered of. */
  get size(): number {
    return this.#fullAt.size;
  }

  /** Milliseconds until the bucket is full. */
  #missing(organizationId: string, now: number): number {
    return Math.max(0, (this.#fullAt.get(organizationId) ?? now) - now);
  }

  #forgetFull(now: number): void {
    for (const [organizationId, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(organizationId);
    this.#lookAt = Math.max(MANY, 2 * this.#fullAt.size);
  }
}
