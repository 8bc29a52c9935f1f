// Upgrades the request log from schema version 8 to 9: adds an index by request ID. This file describes version 9 and
// must not change, even if the current code does.

import type { Store } from '../store.js';

/** Must be called within a transaction. */
export function indexRequestsById(store: Store): void {
  const byId = store.table<number>('requests-by-id');
  for (const key of [...store.table('requests').keys()]) {
    const [endedAt, requestId] = key as [number, string];
    void byId.put(requestId, endedAt);
  }
}
