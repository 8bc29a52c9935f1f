// Limits the event-loop time that one organization's requests may use for parsing, validation and rendering: a share of
// every second, plus a burst of 10 seconds' worth. Rejected requests count too, because handling them takes time and no
// other limit covers them. Each thread has its own instance.
//
// A bucket is stored as the time at which it will be full again, as in counters.ts. It may be overdrawn, because an
// operation's cost is known only afterwards.

import { performance } from 'node:perf_hooks';
import { apiError } from '../shared/errors.js';

/** Capacity of a bucket: 10 seconds' worth. */
const BURST_MS = 10_000;
/** When more organizations than this have a bucket, full buckets are removed. */
const MANY = 1_024;

export class EventLoopBudget {
  readonly #fullAt = new Map<string, number>();
  #lookAt = MANY;

  /** `msPerSecond` null: no limit. `now`: milliseconds from any origin. */
  constructor(
    private readonly msPerSecond: number | null,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Must be called before an operation. Throws ApiError 429 if the organization has used up its time. */
  check(organizationId: string): void {
    if (this.msPerSecond === null) return;
    const waitMs = this.#missing(organizationId, this.now()) - BURST_MS;
    if (waitMs < 0) return;
    throw apiError(
      'rpm_limit_exceeded',
      `This organization exceeded its CPU budget for parsing large requests and stored conversations; the limit is ${this.msPerSecond} ms per second.`,
      null,
      { retryAfterMs: Math.max(1, waitMs) },
    );
  }

  /** Charges `ms` of event-loop time to the organization. */
  charge(organizationId: string, ms: number): void {
    if (this.msPerSecond === null) return;
    const now = this.now();
    this.#fullAt.set(organizationId, now + this.#missing(organizationId, now) + (ms * 1000) / this.msPerSecond);
    if (this.#fullAt.size > this.#lookAt) this.#forgetFull(now);
  }

  /** Number of organizations with a bucket. */
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
