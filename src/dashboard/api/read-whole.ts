// Reads that may take long: lists that must be read completely to return one page, and large stored content. They run
// one at a time, take turns by organization, and count towards the organization's event-loop budget
// (limits.event_loop_ms), so that many readers cannot delay other requests.

import type { Exchange } from '../../http/exchange.js';
import { SMALL_BYTES } from '../../http/parse-queue.js';

/**
 * The size is unknown until the read completes, so all of it waits for its turn. For member routes. Rejects with
 * ApiError 429.
 */
export function readWhole<T>(exchange: Pick<Exchange, 'enqueue'>, read: () => Promise<T>): Promise<T> {
  return exchange.enqueue(SMALL_BYTES, read);
}
