// How fast one person may change things: every change leaves an audit entry and a write to disk. Per thread; one
// person's changes on several threads may be as many times as fast. Event-loop thread only.

import { apiError } from '../../shared/errors.js';

/** At once, and a second after that. */
const BURST = 200;
const PER_SECOND = 10;
/** People remembered; those who have paused long enough are as good as new. */
const REMEMBERED = 10_000;

export class ChangePace {
  private readonly people = new Map<string, { left: number; at: number }>();

  /** `now`: milliseconds, never going back. */
  constructor(private readonly now: () => number = performance.now.bind(performance)) {}

  /** One change. Throws ApiError 429 too_many_attempts. */
  count(userId: string): void {
    const now = this.now();
    const known = this.people.get(userId);
    const left = known === undefined ? BURST : Math.min(BURST, known.left + ((now - known.at) / 1000) * PER_SECOND);
    this.people.delete(userId);
    this.people.set(userId, { left: Math.max(0, left - 1), at: now }); // last in the order of the map
    if (this.people.size > REMEMBERED) this.people.delete(this.people.keys().next().value as string);
    if (left < 1)
      throw apiError('too_many_attempts', `Too many changes: at most ${PER_SECOND} a second in the long run.`, null, {
        retryAfterMs: ((1 - left) / PER_SECOND) * 1000,
      });
  }
}
