// What a thread does when the data folder's database takes no writes any more: the log says so at once, and the other
// threads acknowledge none either. That the server then ends is server.ts.

import type { ThreadBus } from '../shared/bus.js';
import { StorageError } from '../storage/store.js';
import type { OpenedStore } from '../storage/store.js';
import type { Log } from '../telemetry/types.js';

/** Returns how to stop listening to the others. */
export function tellStorageFailure(store: OpenedStore, bus: ThreadBus, log: Log): () => void {
  let heard = false;
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
