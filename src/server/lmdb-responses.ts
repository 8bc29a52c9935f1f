// Responses stored in the data directory.

import { HeldResponses } from '../storage/held-responses.js';
import { openResponseStore } from '../storage/lmdb/responses/open-response-store.js';
import type { Store } from '../storage/store.js';
import type { Opening, Responses } from './response-stores.js';

/** `held`: memory shared by all threads that records which responses must not be erased. */
export function folderResponses(
  store: Store,
  held: SharedArrayBuffer,
  { gate, bus, settings, primary, log, undo }: Opening,
): Responses {
  const responses = openResponseStore(store, settings, {
    gate,
    onError: (err) => log.error({ err }, 'sweeping stored responses failed'),
    onWriteFailure: (err) => log.error({ err }, 'responses cannot be stored'),
    ...(bus.threads > 1 ? { shared: { primary, held: new HeldResponses(held, bus.index) } } : {}),
  });
  undo.add(() => responses.close());
  return { responses, bus, watch: () => () => undefined, lease: null, skew: () => null };
}
