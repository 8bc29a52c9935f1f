// Lists that are read whole of the database for a page of them, and what is kept that may be long: one after the other,
// organizations in turns, on the account of the organization (limits.loop_ms). Many who look at once hold up nobody else.

import type { Exchange } from '../../http/exchange.js';
import { SMALL_BYTES } from '../../http/parse-turns.js';

/** How much it is shows when it has been read, so all of it waits for its turn. Of routes of members. Rejects with ApiError 429. */
export function readWhole<T>(exchange: Pick<Exchange, 'inTurn'>, read: () => Promise<T>): Promise<T> {
  return exchange.inTurn(SMALL_BYTES, read);
}
