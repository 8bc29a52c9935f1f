// What a thread does when the data folder's database refuses writes. A write that was undone (a full disk) is logged once a minute.
// After a failed sync the log says so immediately and no other thread acknowledges a write either; server.ts then ends the server.

import type { ThreadBus } from '../shared/bus.js';
import { StorageError } from '../storage/store.js';
import type { OpenedStore } from '../storage/store.js';
import type { Log } from '../telemetry/types.js';

const UNDONE_LOG_MS = 60_000;

/** Returns how to stop listening to the others. */
export function tellStorageFailure(store: OpenedStore, bus: ThreadBus, log: Log): () => void {
  let heard = false;
  let loggedAt = -Infinity;
  store.onUndone((err) => {
    if (performance.now() - loggedAt < UNDONE_LOG_MS) return;
    loggedAt = performance.now();
    log.error({ err }, 'the database refuses a write: changes get 503 maintenance until it takes them again');
  });
  store.onFailure((err) => {
    if (heard) return;
    log.error({ err }, 'the database takes no writes any more: the server ends in order and is to be started again');
    bus.publish('storage.failed', { reason: err.message });
  });
  return bus.on('storage.failed', ({ reason }) => {
    heard = true;
    store.fail(new StorageError(reason));
  });
}
