// Rate limit on changes per user, because each change writes an audit entry and causes a disk write. The limit is per
// thread, so a user whose requests reach N threads can make N times as many changes. Event-loop thread only.

import { apiError } from '../../shared/errors.js';

/** Maximum burst, in changes. It refills at PER_SECOND changes per second. */
const BURST = 200;
const PER_SECOND = 10;
/** Maximum number of users tracked. Beyond that, the least recently active ones are dropped. */
const REMEMBERED = 10_000;

export class ChangePace {
  private readonly people = new Map<string, { left: number; at: number }>();

  /** `now`: monotonic milliseconds. */
  constructor(private readonly now: () => number = performance.now.bind(performance)) {}

  /** Counts one change. Throws ApiError 429 too_many_attempts. */
  count(userId: string): void {
    const now = this.now();
    const known = this.people.get(userId);
    const left = known === undefined ? BURST : Math.min(BURST, known.left + ((now - known.at) / 1000) * PER_SECOND);
    this.people.delete(userId);
    this.people.set(userId, { left: Math.max(0, left - 1), at: now }); // moves the user to the end of the map's order
    if (this.people.size > REMEMBERED) this.people.delete(this.people.keys().next().value as string);
    if (left < 1)
      throw apiError('too_many_attempts', `Too many changes: the sustained limit is ${PER_SECOND} per second.`, null, {
        retryAfterMs: ((1 - left) / PER_SECOND) * 1000,
      });
  }
}
