// Runs reads that can take a long time: lists that must be read completely to return one page, and large stored
// content. So that concurrent readers cannot delay other requests, these reads run one at a time, organizations take
// turns, and the time counts toward the organization's event-loop budget (limits.event_loop_ms).

import type { Exchange } from '../../http/exchange.js';
import { SMALL_BYTES } from '../../http/parse-queue.js';

/**
 * Runs a read for a member route. The size is not known until the read completes, so every such read waits its turn.
 * Rejects with ApiError 429.
 */
export function readWhole<T>(exchange: Pick<Exchange, 'enqueue'>, read: () => Promise<T>): Promise<T> {
  return exchange.enqueue(SMALL_BYTES, read);
}
