// Stores in the data directory. A standalone server keeps all its data there. A server with a shared database keeps
// only machine-local data there: settings leases, tuning runs, the live view's history and pinned prompts.

import type { AccountChanges } from '../accounts/changes.js';
import { LmdbDirectory } from '../storage/lmdb/accounts/directory.js';
import { LmdbAdapters } from '../storage/lmdb/dashboard/adapters.js';
import { LmdbEngineHolds } from '../storage/lmdb/dashboard/settings-leases.js';
import { LmdbEngineSettings } from '../storage/lmdb/dashboard/engine-settings.js';
import { LmdbLiveHistory } from '../storage/lmdb/dashboard/live-history.js';
import { LmdbModelSettings } from '../storage/lmdb/dashboard/model-settings.js';
import { LmdbPromptPins } from '../storage/lmdb/dashboard/prompt-pins.js';
import { LmdbServedModels } from '../storage/lmdb/dashboard/served-models.js';
import { LmdbTuneRuns } from '../storage/lmdb/dashboard/tune-runs.js';
import { LmdbRequestLog } from '../storage/lmdb/usage/request-log.js';
import { LmdbSavedStore } from '../storage/lmdb/dashboard/saved-store.js';
import { LmdbOrganizationKeyStore } from '../storage/lmdb/accounts/organization-key-store.js';
import { LmdbSealerState } from '../storage/lmdb/accounts/sealer-state.js';
import type { EraseGate } from '../storage/erase-gate.js';
import type { Store } from '../storage/store.js';
import { LmdbBudgetStore } from '../storage/lmdb/usage/budget-store.js';
import { LmdbPriceStore } from '../storage/lmdb/usage/price-store.js';
import { LmdbUsageStore } from '../storage/lmdb/usage/usage-store.js';
import type { DisposableStack } from './disposable-stack.js';
import type { OwnStores, SharableStores } from './stores.js';

/** `gate`: decides whether the live view's history may be erased. */
export const ownStores = (store: Store, gate: EraseGate): OwnStores => ({
  holds: new LmdbEngineHolds(store),
  tuneRuns: new LmdbTuneRuns(store),
  history: new LmdbLiveHistory(store, gate),
  promptPins: new LmdbPromptPins(store),
});

/** The stores of a standalone server. */
export function folderStores(store: Store, changes: AccountChanges, undo: DisposableStack): SharableStores {
  const directory = new LmdbDirectory(store, changes);
  undo.add(() => directory.close());
  const { audit } = directory;
  return {
    directory,
    keyCachePolicy: null,
    usage: new LmdbUsageStore(store),
    requests: new LmdbRequestLog(store),
    saved: new LmdbSavedStore(store),
    prices: new LmdbPriceStore(store, audit),
    budgets: new LmdbBudgetStore(store, audit),
    modelSettings: new LmdbModelSettings(store, audit),
    engineSettings: new LmdbEngineSettings(store, audit),
    served: new LmdbServedModels(store, audit),
    adapters: new LmdbAdapters(store, audit),
    sealer: new LmdbSealerState(store),
    organizationKeys: new LmdbOrganizationKeyStore(store),
  };
}
