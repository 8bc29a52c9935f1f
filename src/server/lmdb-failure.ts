// Handles write failures of the database in the data directory. A rolled-back write (full disk) is logged at most once
// a minute. A failed sync is logged immediately; after that, no thread acknowledges writes, and server.ts shuts the
// server down.

import type { ThreadBus } from '../shared/bus.js';
import { StorageError } from '../storage/store.js';
import type { OpenedStore } from '../storage/store.js';
import type { Log } from '../telemetry/types.js';

const UNDONE_LOG_MS = 60_000;

/** Returns a function that unsubscribes from other threads' failures. */
export function reportStorageFailure(store: OpenedStore, bus: ThreadBus, log: Log): () => void {
  let reported = false;
  let loggedAt = -Infinity;
  store.onUndone((err) => {
    if (performance.now() - loggedAt < UNDONE_LOG_MS) return;
    loggedAt = performance.now();
    log.error({ err }, 'database write refused: changes return 503 maintenance until writes succeed again');
  });
  store.onFailure((err) => {
    if (reported) return;
    log.error({ err }, 'database no longer accepts writes: shutting down; restart the server');
    bus.publish('storage.failed', { reason: err.message });
  });
  return bus.on('storage.failed', ({ reason }) => {
    reported = true;
    store.fail(new StorageError(reason));
  });
}
